"""Columns of text: separators, newlines inside quotes, and types of the values."""

import pytest

from spark_auc.errors import DataError
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.text_columns import expression, inferred, separator_of, typed

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
TYPES = {
    "whole": "bigint",
    "number": "double",
    "flag": "boolean",
    "day": "date",
    "moment": "timestamp_ntz",
    "zoned": "timestamp",
}


@pytest.fixture(scope="module")
def rows(spark):
    schema = ", ".join(f"`{name.replace('`', '``')}` string" for name in COLUMNS)
    return spark.createDataFrame(list(zip(*COLUMNS.values(), strict=True)), schema)


def test_types_follow_from_all_values(rows):
    assert inferred(rows) == TYPES
    cast = rows.selectExpr(*(expression(name, kind) for name, kind in TYPES.items()))
    assert [field.dataType.simpleString() for field in cast.schema] == list(TYPES.values())
    found = cast.toPandas()
    assert found["whole"].dropna().tolist() == [1, -20]
    assert found["number"].dropna().tolist() == [1.0, 0.0025, 0.5]
    assert found["flag"].dropna().tolist() == [True, False, True]
    assert str(found["moment"][1]) == "2025-01-31 10:20:30.500000"


def test_types_of_a_recipe(rows):
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
    expected = {"whole": "double", "empty": "bigint", "code": "bigint"}
    for name in ("number", "flag", "moment", "zoned"):
        expected[name] = TYPES[name]
    assert typed(rows, kinds) == expected
    assert typed(rows, {"long": "text"}) == {}
    for name, kind, message in (
        ("number", "integer", r"found '2.5e-3' in column 'number', expected an integer as"),
        ("a `word`", "float", r"found 'x' in column 'a `word`', expected a number"),
        ("code", "boolean", r"expected true or false"),
        ("whole", "time", r"found '(1|-20)' in column 'whole', expected a date or time"),
    ):
        with pytest.raises(DataError, match=message):
            typed(rows, {name: kind})


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
