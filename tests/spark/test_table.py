"""Assembling the columns of plain tables."""

from __future__ import annotations

import numpy as np
import pytest

from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.table import plain

COLUMNS = "key long, age int, rate double, sex string, town string, member boolean, sick string"


@pytest.fixture
def patients(spark):
    rows = [
        (1, 40, 0.5, "f", "Ulm", True, "yes"),
        (2, 50, 1.5, "m", None, False, "no"),
        (3, 60, 2.5, "f", "Bern", True, "no"),
    ]
    return spark.createDataFrame(rows, COLUMNS)


def names(df):
    attributes = df.schema["features"].metadata["ml_attr"]
    return attributes["num_attrs"], {a["idx"]: a["name"] for a in attributes["attrs"]["numeric"]}


def test_numeric_columns_keep_names_and_the_other_columns(patients):
    df = plain(patients, "sick", numeric=["rate", "age", "member"])
    assert df.columns == ["label", "features", "key", "sex", "town"]
    assert names(df) == (3, {0: "rate", 1: "age", 2: "member"})
    X = [row.features.toArray() for row in df.collect()]
    np.testing.assert_array_equal(X, [[0.5, 40, 1], [1.5, 50, 0], [2.5, 60, 1]])
    assert [row.label for row in df.collect()] == ["yes", "no", "no"]


def test_categorical_columns_follow_hashed(patients):
    df = plain(patients, "sick", ["age"], ["sex", "town"], dimension=1000)
    assert names(df) == (1001, {0: "age"})
    X = np.array([row.features.toArray() for row in df.collect()])
    assert X.shape == (3, 1001)
    np.testing.assert_array_equal(X[:, 0], [40, 50, 60])
    np.testing.assert_array_equal(X[:, 1:].sum(axis=1), [2, 1, 2])  # a null is no token
    shared = X[:, 1:] @ X[:, 1:].T
    np.testing.assert_array_equal(shared, [[2, 0, 1], [0, 1, 0], [1, 0, 2]])


def test_categorical_columns_alone(patients):
    df = plain(patients, "sick", categorical=["sex", "age"], dimension=2**20)
    assert [row.features.size for row in df.collect()] == [2**20] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "sik", "numeric": ["age"]}, "'sik'.*'sick'"),
        ({"label": "sick", "numeric": ["agee"]}, "'agee'.*'age'"),
        ({"label": "sick", "categorical": ["Towns"]}, "'Towns'.*'town'"),
        ({"label": "sick", "numeric": ["sex"]}, "found string in column 'sex'"),
        ({"label": "sick"}, "found no feature columns"),
        ({"label": "sick", "numeric": ["age"], "categorical": ["age"]}, "'age'.* named twice"),
        ({"label": "member", "numeric": ["age", "member"]}, "'member'.* named twice"),
    ],
)
def test_roles_that_cannot_be(patients, arguments, message):
    with pytest.raises(ConfigError, match=message):
        plain(patients, **arguments)


def test_taken_names(patients):
    with pytest.raises(ConfigError, match=r"'label'.* besides the label 'sick'"):
        plain(patients.withColumnRenamed("key", "label"), "sick", ["age"])


def test_null_number_names_the_column(spark):
    df = spark.createDataFrame([(1.0, 1), (None, 0)], "x double, y int")
    with pytest.raises(DataError, match="found a null in column 'x'"), translated():
        plain(df, "y", ["x"]).toArrow()
