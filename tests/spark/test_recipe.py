"""Recipes against Spark ML's FeatureHasher and Normalizer: the same indices and bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.ml.feature import FeatureHasher, Normalizer
from pyspark.sql import DataFrame, SparkSession

from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_tokens import Log, Tokens
from spark_auc.spark.data.raw import CRITEO_INTEGERS, CRITEO_TOKENS, criteo
from tests import data
from tests.features.raw_rows import numbers, text

ROWS = 2_000


def check(df: DataFrame, X) -> None:  # type: ignore[no-untyped-def]
    """The vectors of Spark are the rows, bit for bit."""
    vectors = [row.features for row in df.select("features").collect()]
    assert X.shape == (len(vectors), vectors[0].size)
    ends = np.cumsum([0, *(vector.indices.size for vector in vectors)])
    np.testing.assert_array_equal(X.indptr, ends)
    np.testing.assert_array_equal(X.indices, np.concatenate([v.indices for v in vectors]))
    assert X.data.tobytes() == np.concatenate([v.values for v in vectors]).tobytes()


@pytest.mark.parametrize("dimension", [10_000, 2**20])
def test_criteo(spark: SparkSession, tmp_path: Path, dimension: int) -> None:
    with data.path("criteo_80k.tsv").open() as file:
        lines = [next(file) for _ in range(ROWS)]
    path = tmp_path / "rows.tsv"
    path.write_text("".join(lines))
    fields = list(zip(*(line.rstrip("\n").split("\t")[1:] for line in lines), strict=True))
    columns = dict(zip([*CRITEO_INTEGERS, *CRITEO_TOKENS], map(text, fields), strict=True))
    logs = (Log(name, "text") for name in CRITEO_INTEGERS)
    tokens = (Tokens(name, "text") for name in CRITEO_TOKENS)
    recipe = Recipe(hashed=(*logs, *tokens), dimension=dimension)
    check(criteo(spark, str(path), dimension).coalesce(1), recipe.transform(columns))


def test_values_of_all_types(spark: SparkSession) -> None:
    words = ["", "\0", "a\0b", "köln", "東京", "🎉", "x" * 100_000, "7", " 7", "NaN"]
    whole = [0, 1, -1, 2**63 - 1, -(2**63), 7, 10, 99, 12345, -12345]
    flags = [k % 3 == 0 for k in range(10)]
    df = spark.createDataFrame(
        list(zip(words, whole, flags, strict=True)), "word string, `Zähler` long, flag boolean"
    ).coalesce(1)
    names = df.columns
    hasher = FeatureHasher(
        inputCols=names, categoricalCols=names, outputCol="hashed", numFeatures=10_000
    )
    unit = Normalizer(inputCol="hashed", outputCol="features", p=2.0)
    recipe = Recipe(
        hashed=(Tokens(names[0], "text"), Tokens(names[1], "integer"), Tokens(names[2], "boolean")),
        dimension=10_000,
    )
    columns = [text(words), numbers(whole, np.int64), numbers(flags, bool)]
    X = recipe.transform(dict(zip(names, columns, strict=True)))
    check(unit.transform(hasher.transform(df)), X)
