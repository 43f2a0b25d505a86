"""Recipes against Spark ML's FeatureHasher and Normalizer: the same indices and bits."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.ml.feature import FeatureHasher, Normalizer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scipy import sparse

from spark_auc.errors import ConfigError, DataError
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.recipe import Recipe
from spark_auc.spark.data.raw import criteo
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.layouts import AVAZU_COLUMNS, CRITEO_INTEGERS, CRITEO_TOKENS
from tests import data
from tests.features.raw_rows import numbers, text

# Rows that are compared at a time.
CHUNK = 10_000


def vectors(df: DataFrame, path: Path) -> Iterator[sparse.csr_matrix]:
    """The sparse vectors of Spark in order, written to files and read in chunks."""
    df.select("features").write.parquet(str(path))
    for file in sorted(path.glob("*.parquet")):
        for batch in pq.ParquetFile(file).iter_batches(CHUNK):
            made = batch.column("features")
            indices, values = made.field("indices"), made.field("values")
            assert made.null_count == indices.null_count == 0
            size = made.field("size")[0].as_py()
            ends = np.append(0, np.cumsum(indices.value_lengths().to_numpy()))
            parts = values.flatten().to_numpy(), indices.flatten().to_numpy(), ends
            yield sparse.csr_matrix(parts, (batch.num_rows, size))


def check(expected: Iterator[sparse.csr_matrix], recipe: Recipe, table: pa.Table) -> None:
    """The rows of slices of the table, bit for bit; the slices are those of the vectors."""
    begin = 0
    for theirs in expected:
        part = table.slice(begin, theirs.shape[0]).combine_chunks()
        columns = {n: raw_column(n, part[n].chunk(0)) for n in part.column_names}
        X = recipe.transform(columns)
        assert X.shape == theirs.shape
        np.testing.assert_array_equal(X.indptr, theirs.indptr)
        np.testing.assert_array_equal(X.indices, theirs.indices)
        assert X.data.tobytes() == theirs.data.tobytes()
        begin += theirs.shape[0]
    assert begin == table.num_rows > 0


def hashed(df: DataFrame, names: list[str], dimension: int) -> DataFrame:
    """Rows of unit length by Spark ML's stages."""
    hasher = FeatureHasher(
        inputCols=names, categoricalCols=names, outputCol="hashed", numFeatures=dimension
    )
    unit = Normalizer(inputCol="hashed", outputCol="features", p=2.0)
    return unit.transform(hasher.transform(df))


def fields(name: str, separator: str, names: list[str]) -> pa.Table:
    """The fields of a file of text, split by Python."""
    with data.path(name).open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, delimiter=separator) if row != names]
    columns = zip(*rows, strict=True)
    return pa.table({n: pa.array(c) for n, c in zip(names, columns, strict=True)})


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [10_000, 2**20])
def test_criteo(spark: SparkSession, tmp_path: Path, dimension: int) -> None:
    table = fields("criteo_80k.tsv", "\t", ["label", *CRITEO_INTEGERS, *CRITEO_TOKENS])
    assert table.num_rows == 80_000
    logs = (Log(name, "text") for name in CRITEO_INTEGERS)
    tokens = (Tokens(name, "text") for name in CRITEO_TOKENS)
    recipe = Recipe(hashed=(*logs, *tokens), dimension=dimension)
    rows = criteo(spark, str(data.path("criteo_80k.tsv")), dimension)
    check(vectors(rows, tmp_path / "rows"), recipe, table)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [10_000, 2**20])
def test_avazu(spark: SparkSession, tmp_path: Path, dimension: int) -> None:
    table = fields("avazu_9k.csv", ",", AVAZU_COLUMNS)
    assert table.num_rows == 8_999
    names = [name for name in AVAZU_COLUMNS if name != "click"]
    recipe = Recipe(hashed=tuple(Tokens(name, "text") for name in names), dimension=dimension)
    rows = spark.read.csv(str(data.path("avazu_9k.csv")), header=True).fillna("")
    check(vectors(hashed(rows, names, dimension), tmp_path / "rows"), recipe, table)


WORDS = ["", "\0", "a\0b", "köln", "東京", "🎉", "x" * 100_000, "7", " 7", "NaN", "e\u0301", None]
WHOLE = [0, 1, -1, 2**63 - 1, -(2**63), 7, 10, 99, 12345, -12345, None, 1024]
FLAGS = [True, False, None] * 4
NAMES = ["word", "Zähler", "flag"]


def sliced(rows: list[tuple[object, ...]], words: pa.DataType) -> pa.Table:
    """Rows as a slice, whose buffers begin in other rows, and not at whole bytes of bits."""
    columns = zip(*rows[-5:], *rows, strict=True)
    kinds = [words, pa.int64(), pa.bool_()]
    arrays = [pa.array(c, k) for c, k in zip(columns, kinds, strict=True)]
    return pa.table(dict(zip(NAMES, arrays, strict=True))).slice(5)


@pytest.mark.parametrize("words", [pa.string(), pa.large_string(), pa.string_view()])
def test_values_of_all_types(spark: SparkSession, tmp_path: Path, words: pa.DataType) -> None:
    """Nulls are replaced by '' in Spark, where integers and booleans are text then."""
    rows = list(zip(WORDS, WHOLE, FLAGS, strict=True)) * 3
    df = spark.createDataFrame(rows, "word string, `Zähler` long, flag boolean").coalesce(1)
    filled = df.select(*(F.coalesce(F.col(n).cast("string"), F.lit("")).alias(n) for n in NAMES))
    recipe = Recipe(
        hashed=(Tokens("word", "text"), Tokens("Zähler", "integer"), Tokens("flag", "boolean")),
        dimension=10_000,
    )
    made = vectors(hashed(filled, NAMES, 10_000), tmp_path / "rows")
    check(made, recipe, sliced(rows, words))
    # Without nulls Spark hashes the columns of all types.
    made = vectors(hashed(df.dropna(), NAMES, 10_000), tmp_path / "whole")
    check(made, recipe, sliced([row for row in rows if None not in row], words))


def test_floats_are_no_tokens() -> None:
    """Java writes other digits of a double than Python and Arrow do."""
    with pytest.raises(ConfigError, match="'x' of type float as tokens, expected type text or int"):
        Tokens("x", "float")
    recipe = Recipe(hashed=(Tokens("x", "text"),))
    with pytest.raises(DataError, match="'x' of type float, expected type text"):
        recipe.transform({"x": numbers([7.0])})
    assert recipe.transform({"x": text(["7"])}).nnz == 1
