"""Parquet read inside the tasks: the rows that Spark reads, and only where that is certain."""

import os
import shutil
from decimal import Decimal
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F

from spark_auc.core.moments.operator import labelled_pair_moments
from spark_auc.errors import DataError
from spark_auc.spark.data.arrow_files import scan_of
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.features import PreparedFeatures
from spark_auc.tables.rows import TableRows


def rows(spark, n=300):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.6)
    made = []
    for k, row in enumerate(values):
        stored = np.flatnonzero(row)
        vector = Vectors.dense(row) if k % 3 else Vectors.sparse(4, stored, row[stored])
        made.append(
            {
                "vector": vector,
                "array": [float(v) for v in row],
                "index": [int(j) for j in stored],
                "value": [float(v) for v in row[stored]],
                "a": int(10 * row[0]),
                "b": Decimal(int(100 * row[1])),
                "c": bool(row[2] > 0),
                "label": int(row.sum() > 0.3),
                "name": "yes" if row.sum() > 0.3 else "no",
                "u": k % 5 + 1,
            }
        )
    return spark.createDataFrame(made).repartition(3)


def columns_of(df, features="vector", label="label", positive=None, weight=None, dimension=None):
    table = SparkTable(df)
    resolved = PreparedFeatures.resolve(table, features, dimension)
    return TrainingColumns.resolve(table, resolved, label, positive, weight)


def is_direct(df, **given):
    columns = columns_of(df, **given)
    return scan_of(df, columns.names) is not None


def moments(df, **given):
    read = TableRows.of(SparkTable(df), columns_of(df, **given))
    return labelled_pair_moments(read)


@pytest.fixture(scope="module")
def stored(spark, tmp_path_factory):
    path = f"{tmp_path_factory.mktemp('parquet')}/rows of \u00fcbung"
    rows(spark).write.parquet(path)
    return path


@pytest.mark.parametrize(
    "given",
    [
        {"features": "vector", "weight": "u"},
        {"features": "array", "label": "name", "positive": "yes"},
        {"features": ["index", "value"], "dimension": 4},
        {"features": ["a", "b", "c"]},
    ],
)
def test_moments_are_those_of_the_rows_that_spark_reads(spark, stored, given):
    plain = spark.read.parquet(stored)
    filtered = plain.filter("u > 0")
    # Arrow's doubles of decimals differ from Spark's in the last bit.
    assert is_direct(plain, **given) == (given["features"] != ["a", "b", "c"])
    assert not is_direct(filtered, **given)
    ours, labels = moments(plain, **given)
    theirs, expected = moments(filtered, **given)
    assert labels.rows == expected.rows
    a, b = ours.quadratic(), theirs.quadratic()
    np.testing.assert_allclose(a.mu, b.mu, rtol=0, atol=1e-14)
    np.testing.assert_allclose(a.Sigma.toarray(), b.Sigma.toarray(), rtol=0, atol=1e-13)


def test_same_bits_on_repetition(spark, stored):
    df = spark.read.parquet(stored)
    first, second = ({k: t.to_bytes() for k, t in moments(df)[0].parts()} for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("direct", "change"),
    [
        (True, lambda df: df.select("u", "label", "vector")),
        (True, lambda df: df.sparkSession.read.parquet(files_of(df)[0])),
        (False, lambda df: df.limit(250)),
        (False, lambda df: df.sample(0.5, seed=1)),
        (False, lambda df: df.union(df)),
        (False, lambda df: df.dropDuplicates(["vector"])),
        (False, lambda df: df.withColumn("label", 1 - F.col("label"))),
        (False, lambda df: df.selectExpr("vector", "u AS label", "label AS u")),
        (False, lambda df: df.sparkSession.read.option("mergeSchema", True).parquet(dir_of(df))),
        (False, lambda df: df.sparkSession.createDataFrame(df.collect(), df.schema)),
    ],
)
def test_only_what_spark_calls_the_same_as_the_files(spark, stored, direct, change):
    assert is_direct(change(spark.read.parquet(stored))) is direct


def files_of(df):
    return [unquote(file.removeprefix("file://")) for file in df.inputFiles()]


def dir_of(df):
    return os.path.dirname(files_of(df)[0])


def test_cached_rows_are_left_to_spark(spark, stored):
    df = spark.read.parquet(stored).select("vector", "label").cache()
    try:
        assert not is_direct(df)
    finally:
        df.unpersist()


def test_timestamps_are_left_to_spark(spark, tmp_path):
    """Spark has no Arrow type of a timestamp unless a time zone is given."""
    times = pa.array([0, None, 10**15], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"time": times, "x": [1.0, 2.0, 3.0]}), tmp_path / "x.parquet")
    df = spark.read.parquet(str(tmp_path / "x.parquet"))
    assert scan_of(df, ["x", "time"]) is None
    assert scan_of(df, ["x"]) is not None


def test_partitioned_directories_are_left_to_spark(spark, stored, tmp_path):
    spark.read.parquet(stored).write.partitionBy("label").parquet(str(tmp_path / "parted"))
    assert not is_direct(spark.read.parquet(str(tmp_path / "parted")))


def test_relative_paths_and_uris(spark, stored, monkeypatch):
    # The working directory that counts is that of the JVM, which does not move with Python's.
    assert is_direct(spark.read.parquet(os.path.relpath(stored)))
    assert is_direct(spark.read.parquet(f"file://{stored}"))


def test_files_of_other_writers(spark, tmp_path):
    """What pyarrow notes with its own files (categories, fixed sizes) is undone."""
    n = 60
    X = np.random.default_rng(0).normal(size=(n, 3))
    label = np.where(X[:, 0] > 0, "p", "n")
    table = pa.table(
        {
            "x": pa.FixedSizeListArray.from_arrays(X.ravel(), 3),
            "label": pa.array(pd.Categorical(label)),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=7)
    df = spark.read.parquet(str(tmp_path / "x.parquet"))
    given = {"features": "x", "positive": "p"}
    assert is_direct(df, **given)
    found, labels = moments(df, **given)
    assert labels.rows == {"p": int((label == "p").sum()), "n": int((label == "n").sum())}
    expected = X[label == "p"].mean(axis=0) - X[label == "n"].mean(axis=0)
    np.testing.assert_allclose(found.quadratic().mu, expected, atol=1e-14)


def test_a_file_that_changes_or_breaks_meanwhile(spark, stored, tmp_path):
    shutil.copytree(stored, tmp_path / "copy")
    df = spark.read.parquet(str(tmp_path / "copy"))
    columns = columns_of(df)
    scan = scan_of(df, columns.names)
    numbers = [pa.RecordBatch.from_pydict({"id": [0]})]
    assert sum(batch.num_rows for batch in scan.read(iter(numbers))) == scan.parts[0].rows
    table = pq.read_table(scan.parts[0].file.path)
    pq.write_table(table.slice(1), scan.parts[0].file.path)
    with pytest.raises(DataError, match="changed since it was listed"):
        list(scan.read(iter(numbers)))
    with open(scan.parts[0].file.path, "wb") as file:
        file.write(b"PAR1 no more PAR1")
    with pytest.raises(DataError, match=r"unreadable file .*part-"):
        list(scan.read(iter(numbers)))
