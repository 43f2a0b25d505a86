"""Types of text columns on both engines, and separators of files that Spark reads."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from spark_auc.errors import DataError
from spark_auc.features.readings import Reading
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.paths import separator_of
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.text_formats import FORMATS
from spark_auc.tables.text_types import inferred, inferred_as, readings_of, typed

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
    "code": "code",
    "long": "code",
    "no day": "date",
    "a `word`": "integer",
}


@pytest.fixture(params=["arrow", "spark"])
def table(request, spark):
    rows = pa.table(COLUMNS, pa.schema([(name, pa.string()) for name in COLUMNS]))
    if request.param == "arrow":
        return ArrowTable.of(rows, 3)
    return SparkTable(spark.createDataFrame(rows))


def readings(found):
    return [one.reading for one in found.values()]


def formats(found):
    return {name: one.reading.format for name, one in found.items()}


def test_formats_follow_from_all_values(table):
    found = inferred(table)
    assert formats(found) == FOUND
    assert {name for name, one in found.items() if one.odd} == {"no day", "a `word`"}
    assert formats(inferred(table, ["FLAG"])) == {
        name: kind for name, kind in FOUND.items() if name != "flag"
    }
    made = typed(table, readings(found))
    assert made.schema.names == list(COLUMNS)
    assert [made.schema.field(name).type for name in FOUND] == [
        FORMATS[kind].arrow for kind in FOUND.values()
    ]
    rows = made.gathered()
    assert rows["whole"].to_pylist() == [1, -20, None, None]
    assert rows["number"].to_pylist() == [1.0, 0.0025, None, 0.5]
    assert rows["flag"].to_pylist() == [True, False, None, True]
    assert str(rows["moment"][1]) == "2025-01-31 10:20:30.500000"
    assert rows["a `word`"].to_pylist() == [None, 1, 2, None]
    assert made.select(["flag", "whole"]).gathered()["whole"].to_pylist() == [1, -20, None, None]
    assert readings_of(made) == (
        Reading("code", "code"),
        Reading("long", "code"),
        Reading("a `word`", "integer", ("x",)),
        Reading("no day", "date", ("2025-02-30",)),
    )


def test_formats_of_a_recipe(table):
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
    assert formats(inferred_as(table, kinds)) == expected
    assert inferred_as(table, {"long": "text"}) == {}
    for name, kind, message in (
        ("moment", "integer", r"where 3 of 3 values are no whole numbers, expected"),
        ("day", "float", r"where 2 of 2 values are no numbers"),
        ("code", "boolean", r"where 4 of 4 values are no true or false"),
        ("whole", "time", r"found '(1|-20)' in column 'whole', where 2 of 2 values are no dates"),
    ):
        with pytest.raises(DataError, match=message):
            inferred_as(table, {name: kind})


def test_odd_values_count_as_missing(table):
    found = inferred_as(table, {"a `word`": "integer", "no day": "time"})
    assert {name: dict(one.words) for name, one in found.items()} == {
        "a `word`": {"x": 1},
        "no day": {"2025-02-30": 1},
    }
    rows = typed(table, readings(found), strict=False).gathered()
    assert rows["a `word`"].to_pylist() == [None, 1, 2, None]
    assert str(rows["no day"][1]) == "2025-02-01"
    assert rows["no day"].null_count == 3


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a `word`", "integer"), ("number", "boolean"), ("whole", "date"), ("no day", "time")],
)
def test_a_value_of_another_type_is_named_when_it_is_read(table, name, kind):
    message = f"found '[^']+' in column '{name}', expected .* of the format {kind}; correct it"
    with pytest.raises(DataError, match=message), translated():
        typed(table, [Reading(name, kind)]).gathered()


ODD = {
    # Columns by the odd words among 200 numbers, and whether they are numbers.
    "one word": (["unknown"] * 30, True),
    "one word in most rows": (["unknown"] * 201, False),
    "few words": (["a", "b", "c", "d"], True),
    "few words in more rows": (["a", "b", "c", "d", "d"], False),
    "many words": ([f"w{k}" for k in range(9)], False),
}


@pytest.mark.parametrize("case", ODD)
def test_few_odd_words_keep_a_column_of_numbers(case):
    odd, is_number = ODD[case]
    rng = np.random.default_rng(1)
    values = [*map(str, rng.normal(size=200)), *odd]
    order = rng.permutation(len(values))
    rows = pa.table({"x": [values[k] for k in order]})
    for rows_of_part in (7, 50, 1000):
        found = inferred(ArrowTable.of(rows, rows_of_part))
        assert bool(found) == is_number
        if found:
            assert dict(found["x"].words) == Counter(odd)
            assert {*found["x"].reading.absent} == {*odd}
            made = typed(ArrowTable.of(rows, rows_of_part), readings(found)).gathered()
            assert made["x"].null_count == len(odd)


@pytest.mark.parametrize(
    ("distinct", "words", "share", "is_number"),
    [
        (257, 3, 0.45, True),
        (256, 3, 0.45, False),
        (257, 8, 0.2, True),
        (257, 9, 0.2, False),
        (257, 3, 0.55, False),
    ],
)
def test_several_words_beside_many_numbers(distinct, words, share, is_number):
    """Tokens tell few numbers as well as a number does, and the words too."""
    rng = np.random.default_rng(2)
    odd = [f"word {k % words}" for k in range(round(share * 2000))]
    numbers = [str(k % distinct) for k in range(2000 - len(odd))]
    order = rng.permutation(2000)
    rows = pa.table({"x": [[*numbers, *odd][k] for k in order]})
    for rows_of_part in (100, 2000):
        found = inferred(ArrowTable.of(rows, rows_of_part))
        assert bool(found) == is_number
        if found:
            assert dict(found["x"].words) == Counter(odd)
            made = typed(ArrowTable.of(rows, rows_of_part), readings(found)).gathered()
            assert made["x"].null_count == len(odd)


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


def test_columns_of_one_name_stay_beside_typed_ones(spark):
    rows = spark.createDataFrame([("1", 2, 3)], ["t", "a", "A"])
    made = typed(SparkTable(rows), [Reading("t", "integer")]).select(["t"]).gathered()
    assert made["t"].to_pylist() == [1]
