"""The time from which on rows are held out, where many rows have one time."""

import numpy as np
import pyarrow as pa
import pytest

from spark_auc.app.jobs.raw_labels import start_of_last
from spark_auc.errors import ConfigError
from spark_auc.tables.arrow_table import ArrowTable


def start(rows, column="day"):
    times = np.repeat(np.array(list(rows), "datetime64[us]"), list(rows.values()))
    return start_of_last(ArrowTable.of(pa.table({column: times}), 7), column, [])[:10]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({"2026-01-01": 80, "2026-01-02": 20}, "2026-01-02"),
        ({"2026-01-01": 30, "2026-01-02": 30, "2026-01-03": 40}, "2026-01-03"),
        # Before the second day are 10% of the rows, and 85% before the third.
        ({"2026-01-01": 10, "2026-01-02": 75, "2026-01-03": 15}, "2026-01-03"),
        ({"2026-01-01": 90, "2026-01-02": 10}, "2026-01-02"),
        ({"2026-01-01": 490, "2026-01-02": 300, "2026-01-03": 210}, "2026-01-03"),
    ],
)
def test_about_a_fifth_of_the_rows_is_held_out(rows, expected, caplog):
    assert start(rows) == expected
    assert not caplog.messages


def test_few_earlier_rows_are_told(caplog):
    assert start({"2026-01-01": 10, "2026-01-02": 90}) == "2026-01-02"
    assert "90% of the rows are held out" in caplog.text


def test_hardly_any_row_is_no_holdout(caplog):
    assert start({"2026-01-01": 450, "2026-01-02": 549, "2026-01-03": 1}) == "2026-01-02"
    assert "55% of the rows are held out" in caplog.text
    with pytest.raises(ConfigError, match="expected earlier rows to train on"):
        start({"2026-01-01": 999, "2026-01-02": 1})


def test_one_time_is_refused():
    with pytest.raises(ConfigError, match=r"the first time, 2026-01-01.* in 100% of the rows"):
        start({"2026-01-01": 10})
