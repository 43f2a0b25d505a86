"""Types of text columns on both engines, and separators of files that Spark reads."""

import pyarrow as pa
import pytest

from spark_auc.errors import DataError
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.separators import separator_of
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.text_types import TYPES, inferred, typed

COLUMNS = {
    "whole": ["1", " -20", "NA", "?"],
    "number": ["1", "2.5e-3", "", ".5"],
    "flag": ["True", "false", None, "TRUE"],
    "day": ["2025-01-31", "2024-02-29", "null", ""],
    "moment": ["2025-01-31 10:20", "2025-01-31T10:20:30.5", "2025-02-01", ""],
    "zoned": ["2025-01-31T10:20:30Z", "2025-01-31 10:20:30+01:00", "", ""],
    "code": ["007", "8", "9", "10"],
    "long": ["1", "12345678901234567890", "", ""],
    "a `word`": ["x", "1", "2", ""],
    "no day": ["2025-02-30", "2025-02-01", "", ""],
    "empty": ["", "NA", "?", None],
}
FOUND = {
    "whole": "integer",
    "number": "float",
    "flag": "boolean",
    "day": "date",
    "moment": "time",
    "zoned": "zoned",
}


@pytest.fixture(params=["arrow", "spark"])
def table(request, spark):
    rows = pa.table(COLUMNS, pa.schema([(name, pa.string()) for name in COLUMNS]))
    if request.param == "arrow":
        return ArrowTable.of(rows, 3)
    return SparkTable(spark.createDataFrame(rows))


def test_types_follow_from_all_values(table):
    assert inferred(table) == FOUND
    assert inferred(table, words="FLAG") == {k: v for k, v in FOUND.items() if k != "flag"}
    made = typed(table, FOUND)
    assert made.schema.names == list(COLUMNS)
    assert [made.schema.field(name).type for name in FOUND] == [
        TYPES[kind].arrow for kind in FOUND.values()
    ]
    found = made.gathered()
    assert found["whole"].to_pylist() == [1, -20, None, None]
    assert found["number"].to_pylist() == [1.0, 0.0025, None, 0.5]
    assert found["flag"].to_pylist() == [True, False, None, True]
    assert str(found["moment"][1]) == "2025-01-31 10:20:30.500000"
    assert found["a `word`"].to_pylist() == COLUMNS["a `word`"]
    assert made.select(["flag", "whole"]).gathered()["whole"].to_pylist() == [1, -20, None, None]


def test_types_of_a_recipe(table):
    kinds = {
        "whole": "float",
        "number": "float",
        "flag": "boolean",
        "moment": "time",
        "zoned": "time",
        "empty": "integer",
        "code": "integer",
        "long": "text",
        "other": "integer",
    }
    expected = {"whole": "float", "empty": "integer", "code": "integer"}
    expected |= {name: FOUND[name] for name in ("number", "flag", "moment", "zoned")}
    assert inferred(table, kinds) == expected
    assert inferred(table, {"long": "text"}) == {}
    for name, kind, message in (
        ("a `word`", "integer", r"found 'x' in column 'a `word`', expected a whole number as"),
        ("a `word`", "float", r"found 'x' in column 'a `word`', expected a number"),
        ("code", "boolean", r"expected true or false"),
        ("whole", "time", r"found '(1|-20)' in column 'whole', expected a date or time"),
    ):
        with pytest.raises(DataError, match=message):
            inferred(table, {name: kind})


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a `word`", "integer"), ("number", "boolean"), ("whole", "date"), ("no day", "time")],
)
def test_a_value_of_another_type_is_named_when_it_is_read(table, name, kind):
    with pytest.raises(DataError, match=f"found text in column '{name}' that is no"), translated():
        typed(table, {name: kind}).gathered()


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2\n", ","),
        ('"a;b",c\n"1, ""2""",3\n', ","),
        ('a;b\n"one\ntwo";3\n', ";"),
        ("a\tb\n1\t2\n", "\t"),
        ("a|b|c,d\n1|2|3\n", "|"),
        ("a\n1\n", ","),
    ],
)
def test_separators(spark, tmp_path, text, separator):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    assert separator_of(spark, str(path)) == separator


def test_no_lines(spark, tmp_path):
    (tmp_path / "rows.csv").touch()
    with pytest.raises(DataError, match=r"found no lines in .*rows\.csv"), translated():
        separator_of(spark, str(tmp_path / "rows.csv"))
