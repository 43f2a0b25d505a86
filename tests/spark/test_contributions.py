"""The column of contributions against names and values row by row."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml.linalg import SparseVector, Vectors, VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_auc import (
    FeatureRecipe,
    FeatureRecipeModel,
    MBAClassifier,
    NystroemEmbedding,
    RankerPipeline,
    feature_weights,
    importances,
)
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.contributions import contributions
from spark_auc.features.crosses import Crosses
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.parts_of_times import Hour
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.raw_columns import Columns
from spark_auc.features.recipe import Recipe
from spark_auc.pipeline.contributions import listed
from spark_auc.pipeline.part_words import recipe_words
from spark_auc.spark.contributions import with_contributions
from spark_auc.spark.data.arrow_files import layout_rows
from spark_auc.spark.pipeline_model import RankerPipelineModel
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.layouts import Layout
from tests.features.raw_rows import numbers, text, times
from tests.features.test_contributions import named
from tests.features.watched_rows import RECIPE, columns_of, table
from tests.trees.forests import random_forest

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(6)


def check(recipe: Recipe, columns: Columns, values: Float, count: int) -> None:
    array = listed(values, recipe_words(recipe, columns), count)
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
    leaves = listed(values, recipe_words(recipe, columns), 100).to_pylist()
    others = listed(values[:, :-1], recipe_words(RECIPE, columns), 100).to_pylist()
    for all_parts, own, value in zip(leaves, others, values[:, -1].tolist(), strict=True):
        of_trees = {"feature": "trees", "value": value}
        assert [pair for pair in all_parts if pair != of_trees] == own
        assert of_trees in all_parts


def test_no_rows() -> None:
    columns = columns_of(table(), [])
    array = listed(np.zeros((0, 13)), recipe_words(RECIPE, columns), 3)
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


@pytest.fixture(scope="module")
def model(raw: DataFrame) -> RankerPipelineModel:
    return RankerPipeline([STAGE, RANKER]).fit(raw)


def test_a_row_adds_up_to_its_score(
    raw: DataFrame, model: RankerPipelineModel, tmp_path: Path
) -> None:
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


def test_a_vector_beside_raw_columns(raw: DataFrame, model: RankerPipelineModel) -> None:
    rows = model.stages[0].transform(raw).cache()
    assert with_contributions(model, rows, 1).select("contributions").count() == 500
    rows.unpersist()


def test_fields_of_lines(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("1,0.5,a,7\n0,,b,07\n1,1e3,,-2\n0,-9,a,\n" * 50)
    layout = Layout(",", ("y", "x", "word", "whole"), integers=("y", "whole"), floats=("x",))
    rows = layout_rows(spark, str(path), layout)
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


def test_models_and_rows_that_are_refused(raw: DataFrame, model: RankerPipelineModel) -> None:
    with pytest.raises(ConfigError, match="found count = 0, expected"):
        with_contributions(model, raw, 0)
    with pytest.raises(ConfigError, match="found column 'contributions' in the data already"):
        with_contributions(model, raw.withColumn("contributions", F.lit(1)))
    nystroem = NystroemEmbedding(numLandmarks=5)
    embedded = RankerPipeline([STAGE, nystroem, RANKER]).fit(raw)
    with pytest.raises(ConfigError, match="found a model with embeddings, expected a ranker"):
        with_contributions(embedded, raw)


def contributed(
    found: DataFrame, column: str = "contributions"
) -> tuple[Float, list[dict[str, float]]]:
    """Scores and contributions; rows without a score have none."""
    table = found.toArrow()
    lists = table[column].to_pylist()
    rows = [row if row is None else {p["feature"]: p["value"] for p in row} for row in lists]
    return table["rawPrediction"].to_numpy(), rows


def unscored(found: DataFrame, column: str) -> DataFrame:
    """The rows with the contributions under another name, to be scored again."""
    return found.withColumnRenamed("contributions", column).drop("rawPrediction", "prediction")


def test_contributions_less_their_means(raw: DataFrame, model: RankerPipelineModel) -> None:
    """Tokens that a row does not have count, too: less than the mean."""
    some = raw.filter("code < 5")
    mean = model.transform(some).agg(F.avg("rawPrediction")).first()[0]
    _, of_some = contributed(with_contributions(model, some, 100))
    ages = np.mean([row.get("age", 0.0) for row in of_some])
    plain = unscored(with_contributions(model, raw, 100), "plain")
    found = with_contributions(model, plain, 100, centre=some).localCheckpoint()
    scores, rows = contributed(found)
    np.testing.assert_allclose([sum(row.values()) for row in rows], scores - mean, atol=1e-13)
    before = [row.get("age", 0.0) - ages for row in contributed(found, "plain")[1]]
    np.testing.assert_allclose([row["age"] for row in rows], before, atol=1e-13)
    sizes = [[abs(value) for value in row.values()] for row in rows]
    assert all(size == sorted(size, reverse=True) for size in sizes)
    with pytest.raises(DataError, match="found no rows, expected rows to measure"):
        with_contributions(model, raw, 1, centre=raw.filter("code < 0"))


@pytest.fixture(scope="module")
def numeric(spark: SparkSession) -> tuple[DataFrame, Float]:
    draw = np.random.default_rng(3)
    X = np.round(draw.normal(size=(600, 3)), 2) * (draw.random((600, 3)) < 0.7)
    y = X[:, 0] - X[:, 2] + draw.normal(size=600) > 0.5
    columns = dict(zip("abc", X.T, strict=True)) | {"label": y.astype(float)}
    frame = spark.createDataFrame(pa.table(columns)).coalesce(1)

    def vector(*row: float) -> SparseVector:
        return Vectors.sparse(3, {k: v for k, v in enumerate(row) if v})

    return frame.withColumn("x", F.udf(vector, VectorUDT())("a", "b", "c")).cache(), X


@pytest.mark.parametrize("pipeline", [False, True])
@pytest.mark.parametrize("form", ["columns", "vector"])
def test_a_ranker_without_a_recipe(
    numeric: tuple[DataFrame, Float], form: str, pipeline: bool
) -> None:
    rows, X = numeric
    columns = ["a", "b", "c"] if form == "columns" else "x"
    ranker = MBAClassifier(featuresCol=columns, regParam=0.1)
    model = RankerPipeline([ranker]).fit(rows) if pipeline else ranker.fit(rows)
    w = (model.ranker if pipeline else model).scorer.w
    names = "abc" if form == "columns" else "012"
    values = X * w
    for centre in (None, rows):
        own = values if centre is None else values - values.mean(axis=0)
        for count in (1, 3):
            _, found = contributed(with_contributions(model, rows, count, centre))
            for row, each in zip(found, own, strict=True):
                places = np.argsort(-np.abs(each), kind="stable")[:count]
                expected = {names[j]: each[j] for j in places if each[j]}
                assert list(row) == list(expected)
                np.testing.assert_allclose(list(row.values()), list(expected.values()), atol=1e-12)
    measured = {row.column: row for row in importances(model, rows).collect()}
    assert list(measured) == [names[j] for j in np.argsort(-values.std(axis=0))]
    for name, column in zip(names, values.T, strict=True):
        assert measured[name].importance == pytest.approx(column.std(), rel=1e-9)
        assert measured[name].meanContribution == pytest.approx(column.mean(), abs=1e-12)
    weights = feature_weights(model, rows).collect()
    assert [(row.feature, row.weight) for row in weights] == list(zip(names, w, strict=True))


def test_many_sparse_features(spark: SparkSession) -> None:
    """Only what rows have is looked at, unless the centre is elsewhere."""
    size, draw = 1 << 18, np.random.default_rng(4)
    rows = [
        (float(k % 3 == 0), Vectors.sparse(size, sorted(draw.choice(size, 5, False)), [1.0] * 5))
        for k in range(300)
    ]
    frame = spark.createDataFrame(rows, ["label", "features"]).coalesce(1)
    model = MBAClassifier(regParam=0.1).fit(frame)
    w = model.scorer.w
    _, found = contributed(with_contributions(model, frame, 9))
    for (_, x), row in zip(rows, found, strict=True):
        assert row == {str(j): w[j] for j in x.indices if w[j]}


def test_rows_that_cannot_be_scored_have_no_contributions(numeric: tuple[DataFrame, Float]) -> None:
    rows, _ = numeric
    model = MBAClassifier(featuresCol=["a", "b"], regParam=0.1).fit(rows)
    holes = rows.withColumn("b", F.when(F.col("b") < 1.0, F.col("b")))
    known = holes.filter("b is not null")
    model.setHandleInvalid("keep")
    found = with_contributions(model, holes, 2)
    assert found.filter("rawPrediction is null").count() == 600 - known.count() > 0
    scores, rows_found = contributed(found)
    assert [row is None for row in rows_found] == np.isnan(scores).tolist()
    kept = [row for row in rows_found if row is not None]
    model.setHandleInvalid("skip")
    assert contributed(with_contributions(model, holes, 2))[1] == kept
    model.setHandleInvalid("error")
    assert contributed(with_contributions(model, known, 2))[1] == kept
    with pytest.raises(Exception, match="nulls in column 'b'"):
        with_contributions(model, holes, 2).collect()


@pytest.mark.parametrize("recipe", [False, True])
def test_contributions_to_scores_of_segments(raw: DataFrame, recipe: bool) -> None:
    rows = raw.selectExpr(
        "*",
        "double(code) AS x",
        "double(pmod(hash(age, code), 7)) AS z",
        # Codes have opposite effects in two segments.
        "double(if(city = 'a', code > 4, code < 3)) AS y",
    )
    ranker = MBAClassifier(labelCol="y", regParam=0.1, segmentCol="city")
    small = FeatureRecipe(spline=["age"], tokens=["code"], auto=False, numKnots=5, dimension=32)
    stages = [small, ranker] if recipe else [ranker.setFeaturesCol(["x", "z"])]
    model = RankerPipeline(stages).fit(rows)
    segments = model.ranker.scorer.segments
    assert segments is not None
    mean = model.transform(rows).agg(F.avg("rawPrediction")).first()[0]
    plain = unscored(with_contributions(model, rows, 100), "plain")
    found = with_contributions(model, plain, 100, centre=rows).localCheckpoint()
    scores, centred = contributed(found)
    np.testing.assert_allclose([sum(row.values()) for row in centred], scores - mean, atol=1e-12)
    _, whole = contributed(found, "plain")
    np.testing.assert_allclose([sum(row.values()) for row in whole], scores, atol=1e-12)
    intercepts = {name for row in whole for name in row if "segment" in name}
    own = {f"segment city={value}" for value in segments.weights.values}
    assert intercepts <= {*own, "no segment of city"}
    assert "segment city=a" in intercepts
