"""Rows written as text in one column."""

import json

import pytest

from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.failures import translated
from spark_auc.spark.streaming.stream import schema_of
from spark_auc.spark.streaming.table import parsed

JSON = "label double, features array<double>"
CSV = "label double, `a.b c` double"


def rows(spark, values, how, ddl, kind="string"):
    frame = spark.createDataFrame([(v,) for v in values], f"value {kind}")
    with translated():
        return [tuple(row) for row in parsed(frame, how, schema_of(ddl)).collect()]


def test_whole_values(spark):
    said = [{"label": k % 2, "features": [k / 3, -1e300]} for k in range(5)]
    found = rows(spark, [json.dumps(s).encode() for s in said], "json", JSON, "binary")
    assert found == [(s["label"], s["features"]) for s in said]
    assert rows(spark, [' {"more": "x",\n "label": 1}\n'], "json", JSON) == [(1.0, None)]
    assert rows(spark, ["1,-0.1", "0,"], "csv", CSV) == [(1.0, -0.1), (0.0, None)]


@pytest.mark.parametrize(
    ("how", "value"),
    [
        *[("json", v) for v in (None, "", "null", "7", "[]", '{"label": 1, "features": [1')],
        ("json", '{"label": "x"}'),
        ("json", '{"features": [1, "x"]}'),
        ("json", '[{"label": 1}, {"label": 0}]'),
        ("json", '{"label": 1} {"label": 0}'),
        ("json", '{"label": 1}, {"label": 0}'),
        ("json", '{"label": 1} and so on'),
        *[("csv", v) for v in (None, "1", "1,2,3", "1,x", "1;2", "1,2 \n1,2")],
    ],
)
def test_other_values_fail_and_are_named(spark, how, value):
    good = '{"label": 1}' if how == "json" else "1,2"
    with pytest.raises(DataError, match=f"expected {how.upper()} of `label` double") as raised:
        rows(spark, [good, value], how, JSON if how == "json" else CSV)
    shown = "null" if value is None else repr(" ".join(value.split()))
    assert f"found {shown} in the column 'value'" in str(raised.value)


def test_what_csv_and_other_columns_cannot_say(spark):
    with pytest.raises(ConfigError, match="nested columns"):
        rows(spark, ["1,2"], "csv", JSON)
    with pytest.raises(ConfigError, match="no column 'value'"):
        parsed(spark.range(1), "json", schema_of(JSON))
