"""Rows without missing values, of each type of column."""

from datetime import date

import pyarrow as pa
import pytest

from spark_auc.errors import ConfigError
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.missing import complete

COLUMNS = {
    "text": pa.array(["a", " NA ", None, "", "nap"]),
    "dictionary": pa.array(["?", "b", "N/A", "c", None]).dictionary_encode(),
    "float": pa.array([float("nan"), 0.0, None, float("inf"), -1.5]),
    "integer": pa.array([0, None, 2, 3, 4]),
    "day": pa.array([None, date(1970, 1, 1), date(2024, 2, 29), None, None]),
}
ROWS = pa.table({"row": range(5)} | COLUMNS)
KEPT = {
    "text": [0, 4],
    "dictionary": [1, 3],
    "float": [1, 3, 4],
    "integer": [0, 2, 3, 4],
    "day": [1, 2],
}


def kept(*names):
    return complete(ArrowTable.of(ROWS, 2), names).gathered()["row"].to_pylist()


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_of_one_column(name):
    assert kept(name) == KEPT[name]


def test_rows_of_several_columns_and_of_none():
    assert kept("float", "integer") == [3, 4]
    assert kept() == [0, 1, 2, 3, 4]


def test_an_unknown_column():
    with pytest.raises(ConfigError, match="found no column 'other'"):
        kept("other")
