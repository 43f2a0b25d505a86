"""The column of contributions against names and values row by row."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_auc import (
    FeatureRecipe,
    FeatureRecipeModel,
    MBAClassifier,
    NystroemEmbedding,
    RankerPipeline,
)
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError
from spark_auc.features.contributions import contributions
from spark_auc.features.crosses import Crosses
from spark_auc.features.raw_columns import Columns
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_numbers import Standard
from spark_auc.features.recipe_tokens import Hour, Log, Tokens
from spark_auc.features.recipe_trees import TreeLeaves
from spark_auc.serving.arrow_columns import raw_column
from spark_auc.spark.contributions import with_contributions
from spark_auc.spark.data.layouts import Layout
from spark_auc.spark.data.lines import delimited
from spark_auc.spark.features.contributions import listed
from spark_auc.spark.pipeline_model import RankerPipelineModel
from tests.features.raw_rows import numbers, text, times
from tests.features.test_contributions import named
from tests.features.watched_rows import RECIPE, columns_of, table
from tests.trees.forests import random_forest

RNG = np.random.default_rng(6)


def check(recipe: Recipe, columns: Columns, values: Float, count: int) -> None:
    array = listed(recipe, columns, values, count)
    found = [[(pair["feature"], pair["value"]) for pair in row] for row in array.to_pylist()]
    assert found == [named(recipe, columns, i, row, count) for i, row in enumerate(values)]


@pytest.mark.parametrize("count", [1, 4, 100])
@pytest.mark.parametrize("crosses", [None, RECIPE.crosses, Crosses(None, 9)])
def test_names_and_values(crosses: Crosses | None, count: int) -> None:
    recipe, columns = replace(RECIPE, crosses=crosses), columns_of(table())
    w = RNG.normal(size=recipe.size)
    values = contributions(recipe, w, columns)
    check(recipe, columns, values, count)
    values[RNG.random(values.shape) < 0.6] = 0.0
    values[:5] = 0.0
    check(recipe, columns, values, count)


@pytest.mark.parametrize("offset", [np.int32, np.int64])
def test_tokens_of_all_kinds(offset: type) -> None:
    words = [
        "",
        None,
        "a",
        "é",
        "東京" * 40,
        "x" * 56,
        "x" * 57,
        "x" * 100,
        "\n\0",
        b"\xff\xfe",
        "a",
    ]
    n = len(words)
    recipe = Recipe(
        (Standard("x", "float", 0.0, 1.0),),
        (
            Tokens("w", "text"),
            Tokens("köln", "text"),
            Tokens("whole", "integer"),
            Tokens("flag", "boolean"),
            Log("clicks", "text"),
            Log("visits", "integer"),
            Hour("when", "time"),
        ),
        64,
        Crosses((("w", "flag"), ("x", "köln"), ("clicks", "when")), 4),
    )
    whole = [None, 1, 1, 0, -1, 2**63 - 1, -(2**63), 7, 7, 10, 99, None, 5]
    moments = [None, datetime(1969, 12, 31, 23), *[datetime(2026, 1, 1, k) for k in range(n - 2)]]
    columns = {
        "x": numbers([1.0] * n),
        "w": text(words, offset, b"before"),
        "köln": text(words[::-1]),
        "whole": numbers(whole, np.int64),
        "flag": numbers([None, True, False] * 4 + [True], bool),
        "clicks": text(["", None, "3", "3", "3", "-7", "07", "0", "2", "99", "12345", "3", "4"]),
        "visits": numbers(whole, np.int64),
        "when": times(moments),
    }
    values = RNG.normal(size=(n, 11))
    check(recipe, columns, values, 11)
    check(recipe, columns, values, 3)


def test_leaves_of_trees_are_one_contribution() -> None:
    """A column of tokens that trees split, too, is named by its token."""
    trees = TreeLeaves.of(random_forest(0, columns=2), {"code": "integer", "age": "float"})
    recipe, columns = replace(RECIPE, trees=trees), columns_of(table())
    values = contributions(recipe, RNG.normal(size=recipe.size), columns)
    assert (np.abs(values[:, -1]) > 0).all()
    leaves = listed(recipe, columns, values, 100).to_pylist()
    others = listed(RECIPE, columns, values[:, :-1], 100).to_pylist()
    for all_parts, own, value in zip(leaves, others, values[:, -1].tolist(), strict=True):
        of_trees = {"feature": "trees", "value": value}
        assert [pair for pair in all_parts if pair != of_trees] == own
        assert of_trees in all_parts


def test_no_rows() -> None:
    columns = columns_of(table(), [])
    array = listed(RECIPE, columns, np.zeros((0, 13)), 3)
    assert len(array) == 0
    assert array.type.value_type.field("feature").type == pa.string()


@pytest.fixture(scope="module")
def raw(spark: SparkSession) -> DataFrame:
    rng = np.random.default_rng(1)
    rows = {
        "age": pa.array(rng.normal(40, 9, 500), mask=rng.random(500) < 0.2),
        "city": rng.choice(["a", "b", "", "köln"], 500),
        "code": rng.integers(0, 9, 500),
        "label": (rng.random(500) < 0.4).astype(float),
    }
    return spark.createDataFrame(pa.table(rows)).repartition(2)


STAGE = FeatureRecipe(
    spline=["age"], tokens=["city", "code"], auto=False, numKnots=5, dimension=32, crosses="all"
)
RANKER = MBAClassifier(regParam=0.01, standardization=False)


def test_a_row_adds_up_to_its_score(raw: DataFrame, tmp_path: Path) -> None:
    model = RankerPipeline([STAGE, RANKER]).fit(raw)
    found = with_contributions(model, raw, 100).toArrow()
    scores, listed_values = found["rawPrediction"].to_numpy(), found["contributions"].to_pylist()
    sums = [sum(pair["value"] for pair in row) for row in listed_values]
    np.testing.assert_allclose(sums, scores, atol=1e-14)
    assert model.recipe is not None
    columns = {n: raw_column(n, found[n].combine_chunks()) for n in ("age", "city", "code")}
    values = contributions(model.recipe, model.ranker.scorer.w, columns)
    few = with_contributions(model, raw, 2).toArrow()
    for i, row in enumerate(few["contributions"].to_pylist()):
        pairs = [(pair["feature"], pair["value"]) for pair in row]
        assert pairs == named(model.recipe, columns, i, values[i], 2)
    model.save(str(tmp_path / "model"))
    loaded = with_contributions(RankerPipelineModel.load(str(tmp_path / "model")), raw, 2)
    assert loaded.toArrow().equals(few)
    kind = few.schema.field("contributions").type
    assert (kind.value_type.field(0).name, kind.value_type.field(1).name) == ("feature", "value")


def test_a_pipeline_with_trees(raw: DataFrame, tmp_path: Path) -> None:
    """A fitted recipe with trees trains, scores, and is stored with its ranker."""
    trees = TreeLeaves.of(random_forest(0, columns=2), {"age": "float", "code": "integer"})
    recipe = Recipe(hashed=(Tokens("city", "text"),), dimension=32, trees=trees)
    model = RankerPipeline([FeatureRecipeModel(recipe), RANKER]).fit(raw)
    model.write().save(str(tmp_path / "model"))
    stored = RankerPipelineModel.load(str(tmp_path / "model"))
    assert stored.recipe == recipe
    found = with_contributions(stored, raw, 100).toArrow()
    scores, shown = found["rawPrediction"].to_numpy(), found["contributions"].to_pylist()
    np.testing.assert_allclose([sum(p["value"] for p in row) for row in shown], scores, atol=1e-12)
    assert {p["feature"] for row in shown for p in row} > {"trees", "city=a"}
    columns = {n: raw_column(n, found[n].combine_chunks()) for n in ("age", "city", "code")}
    w = model.ranker.scorer.w
    np.testing.assert_allclose(recipe.transform(columns) @ w, scores, atol=1e-12)
    drift = FeatureRecipeModel(recipe).drift_of(raw)
    assert drift.missing()["age"] == (500, found["age"].null_count)


def test_a_vector_beside_raw_columns(raw: DataFrame) -> None:
    model = RankerPipeline([STAGE, RANKER]).fit(raw)
    rows = STAGE.fit(raw).transform(raw).cache()
    assert with_contributions(model, rows, 1).select("contributions").count() == 500
    rows.unpersist()


def test_fields_of_lines(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("1,0.5,a,7\n0,,b,07\n1,1e3,,-2\n0,-9,a,\n" * 50)
    layout = Layout(",", ("y", "x", "word", "whole"), integers=("y", "whole"), floats=("x",))
    rows = delimited(spark, str(path), layout)
    stage = FeatureRecipe(
        tokens=["word"], log=["whole"], spline=["x"], auto=False, dimension=32, numKnots=3
    )
    model = RankerPipeline([stage, MBAClassifier(labelCol="y", regParam=0.1)]).fit(rows)
    found = with_contributions(model, rows, 9).select("contributions").limit(4).toArrow()
    names = [{p["feature"] for p in row} for row in found["contributions"].to_pylist()]
    assert names == [
        {"x", "word=a", "whole=log^2 3"},
        {"x", "word=b", "whole=log^2 3"},
        {"x", "word missing", "whole=-2"},
        {"x", "word=a", "whole missing"},
    ]


def test_models_and_rows_that_are_refused(raw: DataFrame) -> None:
    model = RankerPipeline([STAGE, RANKER]).fit(raw)
    with pytest.raises(ConfigError, match="found count = 0, expected"):
        with_contributions(model, raw, 0)
    with pytest.raises(ConfigError, match="found column 'contributions' in the data already"):
        with_contributions(model, raw.withColumn("contributions", F.lit(1)))
    nystroem = NystroemEmbedding(numLandmarks=5)
    embedded = RankerPipeline([STAGE, nystroem, RANKER]).fit(raw)
    with pytest.raises(ConfigError, match=r"FeatureRecipeModel, EmbeddingModel, LinearRanker"):
        with_contributions(embedded, raw)
