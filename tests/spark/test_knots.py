"""Numbers of knots to choose from, against pipelines that are fitted with each by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

from spark_auc import (
    FeatureRecipe,
    LinearRankerModel,
    MBAClassifier,
    MBASelector,
    NystroemEmbedding,
    RankerPipeline,
    RankerPipelineModel,
    RankSVMClassifier,
    SOLAMClassifier,
)
from spark_auc.core.batch import Batch
from spark_auc.core.sampling.folds import Folds, GroupCounts
from spark_auc.errors import ConfigError, ResourceError
from spark_auc.features.raw_columns import Numbers, Text
from spark_auc.features.recipe import Recipe
from spark_auc.features.row_groups import row_groups
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.features import Features

pytestmark = pytest.mark.slow

ROWS, KNOTS = 700, [2, 5, 24]
RAW = ["x", "z", "city"]


def table(shape: str) -> pa.Table:
    """Rows of a linear effect, or of one that needs many knots; a fifth of them are copies."""
    rng = np.random.default_rng(5)
    x, z = rng.uniform(0, 1, ROWS), rng.normal(0, 1, ROWS)
    effect = {"linear": 2.0 * x, "waves": 3.0 * np.sin(14 * x)}[shape]
    label = (effect + 0.3 * z + rng.logistic(0, 1, ROWS) > np.mean(effect)).astype(float)
    made = pa.table(
        {
            "x": x,
            "z": pa.array(z, mask=rng.random(ROWS) < 0.1),
            "city": rng.choice(["a", "b", ""], ROWS),
            "label": label,
        }
    )
    copied = pa.concat_tables([made, made.slice(0, ROWS // 5)])
    return copied.append_column("fold", pa.array(np.arange(copied.num_rows) % (ROWS // 5) % 4))


@pytest.fixture(scope="module", params=["linear", "waves"])
def rows(spark: SparkSession, request: pytest.FixtureRequest) -> DataFrame:
    return spark.createDataFrame(table(request.param)).coalesce(1).cache()


@pytest.fixture(scope="module")
def waves(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(table("waves")).coalesce(1).cache()


@pytest.fixture(scope="module")
def chosen(waves: DataFrame) -> RankerPipelineModel:
    return RankerPipeline([recipe(KNOTS), mba()]).fit(waves)


def recipe(knots: Any, **params: Any) -> FeatureRecipe:
    return FeatureRecipe(
        **{"numKnots": knots, "dimension": 16, "leaveOut": ["label", "fold"]} | params
    )


def mba(**params: Any) -> MBAClassifier:
    return MBAClassifier(standardization=False, **params)


def best_of(model: RankerPipelineModel) -> dict[str, Any]:
    table = model.ranker.summary.selection
    assert table is not None
    found: dict[str, Any] = table["candidates"][table["chosen"]]
    return found


def check(
    model: RankerPipelineModel, by_hand: dict[int, RankerPipelineModel]
) -> list[dict[str, Any]]:
    """The model is the best of those made by hand; returns the candidates."""
    selection = model.ranker.summary.selection
    assert selection is not None
    table = selection["numKnots"]
    found: list[dict[str, Any]] = table["candidates"]
    assert [c["numKnots"] for c in found] == list(by_hand)
    for candidate, expected in zip(found, map(best_of, by_hand.values()), strict=True):
        for name in ("auc", "standardError", "folds", "regParam", "elasticNetParam"):
            assert candidate[name] == expected[name], name
    aucs = [best_of(one)["auc"] for one in by_hand.values()]
    assert len(set(aucs)) == len(aucs)
    best = list(by_hand)[int(np.argmax(aucs))]
    assert found[table["chosen"]]["numKnots"] == best
    assert model.recipe == by_hand[best].recipe
    np.testing.assert_array_equal(model.ranker.coefficients, by_hand[best].ranker.coefficients)
    assert model.ranker.summary.largest_weights == by_hand[best].ranker.summary.largest_weights
    return found


def test_the_best_of_pipelines_with_folds_of_ones_own(rows: DataFrame) -> None:
    ranker = mba(foldCol="fold")
    model = RankerPipeline([recipe(KNOTS), ranker]).fit(rows)
    by_hand = {k: RankerPipeline([recipe(k), ranker]).fit(rows) for k in KNOTS}
    candidates = check(model, by_hand)
    # The AUC of a fold from a ranker of the other folds; its recipe is that of all rows.
    for candidate, one in zip(candidates, by_hand.values(), strict=True):
        fixed = one.stages[0]
        others = RankerPipeline([fixed, mba(regParam=candidate["regParam"])])
        scored = others.fit(rows.where("fold <> 2")).transform(rows.where("fold = 2"))
        scores = scored.select("label", "rawPrediction").toPandas()
        expected = roc_auc_score(scores["label"], scores["rawPrediction"])
        assert candidate["folds"][2] == pytest.approx(expected, abs=1e-6)


def test_each_effect_has_its_number(spark: SparkSession, chosen: RankerPipelineModel) -> None:
    linear = RankerPipeline([recipe(KNOTS), mba()]).fit(spark.createDataFrame(table("linear")))
    for model, best in ((linear, 2), (chosen, 24)):
        selection = model.ranker.summary.selection
        assert selection is not None
        table_of_knots = selection["numKnots"]
        assert KNOTS[table_of_knots["chosen"]] == best
        assert model.recipe is not None
        assert len(model.recipe.numeric[0].knots) == best


def own_folds(made: pa.Table) -> list[int]:
    """The folds of rows by their raw values, as the balanced assignment of 5 folds has them."""
    columns = {name: raw_column(name, made[name].combine_chunks()) for name in RAW}
    assert {type(c) for c in columns.values()} == {Numbers, Text}
    y = made["label"].to_numpy() == 1
    batch = Batch(np.empty((y.size, 0)), y, group=row_groups(columns))
    folds = Folds(5)
    folds = folds.assigned(GroupCounts.zero(folds.enough).update(batch))
    return folds.of(batch).tolist()


def test_all_numbers_have_the_same_folds(spark: SparkSession) -> None:
    """By default, folds are those of the raw rows: each number has them if this one has."""
    made = table("waves")
    folds = own_folds(made)
    of_row: dict[tuple[object, ...], int] = {}
    for row, fold in zip(made.select(RAW).to_pylist(), folds, strict=True):
        assert of_row.setdefault(tuple(row.values()), fold) == fold
    named = made.drop_columns(["fold"]).append_column("fold", pa.array(folds))
    df = spark.createDataFrame(named).coalesce(1).cache()
    model = RankerPipeline([recipe(KNOTS), mba()]).fit(df)
    by_hand = {k: RankerPipeline([recipe(k), mba(foldCol="fold")]).fit(df) for k in KNOTS}
    check(model, by_hand)
    # With one number, rows of equal features are in one fold, which are other folds.
    alone = RankerPipeline([recipe(KNOTS[0]), mba()]).fit(df)
    assert best_of(alone)["folds"] != best_of(by_hand[KNOTS[0]])["folds"]
    df.unpersist()


def test_tasks_that_read_parquet_make_the_same_choice(
    waves: DataFrame, chosen: RankerPipelineModel, spark: SparkSession, tmp_path: Path
) -> None:
    waves.write.parquet(str(tmp_path / "rows"))
    read = spark.read.parquet(str(tmp_path / "rows"))
    model = RankerPipeline([recipe(KNOTS), mba()]).fit(read)
    assert model.ranker.summary.selection == chosen.ranker.summary.selection


def test_embeddings_and_a_grid_of_ones_own(waves: DataFrame) -> None:
    waves = waves.dropDuplicates(RAW).coalesce(1).cache()
    nystroem = NystroemEmbedding(numLandmarks=12, landmarks="sample", bandwidth=2.0)
    ranker = MBASelector(regParams=[1e-4, 1e-2], foldCol="fold")
    model = RankerPipeline([recipe([2, 9]), nystroem, ranker]).fit(waves)
    by_hand = {k: RankerPipeline([recipe(k), nystroem, ranker]).fit(waves) for k in (2, 9)}
    check(model, by_hand)
    assert len(model.embeddings) == 1


def test_rank_svm_takes_the_choice_of_the_squared_loss(waves: DataFrame) -> None:
    model = RankerPipeline([recipe([2, 9]), RankSVMClassifier(standardization=False)]).fit(waves)
    squared = RankerPipeline([recipe([2, 9]), mba()]).fit(waves)
    assert model.ranker.summary.selection == squared.ranker.summary.selection
    assert model.recipe == squared.recipe
    penalty = best_of(model)["regParam"]
    fixed = RankSVMClassifier(standardization=False, regParam=penalty)
    expected = RankerPipeline([recipe(9), fixed]).fit(waves)
    np.testing.assert_array_equal(model.ranker.coefficients, expected.ranker.coefficients)


def test_equal_recipes_are_one(waves: DataFrame) -> None:
    tokens = {"tokens": ["city"], "auto": False}
    for params, knots, alone in (
        (tokens, [2, 16], 2),
        ({"spline": ["fold"], "auto": False}, [9, 16], 9),
        ({}, [16], 16),
    ):
        model = RankerPipeline([recipe(knots, **params), mba()]).fit(waves)
        expected = RankerPipeline([recipe(alone, **params), mba()]).fit(waves)
        assert model.ranker.summary.selection == expected.ranker.summary.selection
        assert model.recipe == expected.recipe
        np.testing.assert_array_equal(model.ranker.coefficients, expected.ranker.coefficients)
    few = RankerPipeline([recipe([2, 9, 16], spline=["fold"], auto=False), mba()]).fit(waves)
    assert few.ranker.summary.selection is not None
    table = few.ranker.summary.selection["numKnots"]["candidates"]
    assert [candidate["numKnots"] for candidate in table] == [2, 9]
    assert FeatureRecipe(numKnots=[9], leaveOut=["label"]).fit(waves).recipe.numeric


@pytest.mark.parametrize(
    "ranker",
    [
        mba(regParam=0.1),
        MBASelector(regParams=[0.1]),
        RankSVMClassifier(standardization=True, regParam=1e-3),
        SOLAMClassifier(),
    ],
)
def test_rankers_that_choose_no_penalty(waves: DataFrame, ranker: Any) -> None:
    found = rf"numKnots \[2, 5, 24\] and a {type(ranker).__name__} that chooses no penalty"
    with pytest.raises(ConfigError, match=found):
        RankerPipeline([recipe(KNOTS), ranker]).fit(waves)
    RankerPipeline([recipe([4]), ranker]).check()


def test_numbers_that_cannot_be(waves: DataFrame) -> None:
    for knots, sorted_ in (([16, 2], r"\[2, 16\]"), ([2, 2, 3], r"\[2, 3\]")):
        with pytest.raises(ConfigError, match=f"ascending order; set numKnots to {sorted_}"):
            RankerPipeline([recipe(knots), mba()]).fit(waves)
    for wrong in ([1, 2], [], 1, [2, float("inf")]):
        with pytest.raises((ConfigError, TypeError), match="a list of one or more whole numbers"):
            recipe(wrong)
    with pytest.raises(TypeError, match="whole number >= 2 or a list"):
        recipe("16")
    with pytest.raises(ConfigError, match=r"numKnots \[2, 5, 24\] of a recipe without a ranker"):
        recipe(KNOTS).fit(waves)


class OfFewFeatures(MBAClassifier):
    """An estimator whose memory suffices for few features."""

    most = 0

    def fitted(self, dataset: DataFrame, features: Features | None = None) -> LinearRankerModel:
        assert features is not None
        if features.dimension > self.most:
            raise ResourceError(f"found {features.dimension} features, expected fewer")
        return super().fitted(dataset, features)


def test_a_number_that_cannot_be_fitted_is_left_out(waves: DataFrame) -> None:
    def sizes(made: Recipe | None) -> int:
        assert made is not None
        return made.size

    by_hand = {k: RankerPipeline([recipe(k), mba(foldCol="fold")]).fit(waves) for k in (2, 5)}
    ranker = OfFewFeatures(standardization=False, foldCol="fold")
    pipeline = RankerPipeline([recipe(KNOTS), ranker])
    with pytest.raises(ResourceError, match="features, expected fewer"):
        pipeline.fit(waves)
    ranker.most = sizes(by_hand[5].recipe)
    model = pipeline.fit(waves)
    selection = model.ranker.summary.selection
    assert selection is not None
    table = selection["numKnots"]
    assert "expected fewer" in table["candidates"][2]["leftOut"]
    best = max(by_hand, key=lambda k: best_of(by_hand[k])["auc"])
    np.testing.assert_array_equal(model.ranker.coefficients, by_hand[best].ranker.coefficients)


def test_choice_and_numbers_are_saved(chosen: RankerPipelineModel, tmp_path: Path) -> None:
    chosen.save(str(tmp_path / "model"))
    loaded = RankerPipelineModel.load(str(tmp_path / "model"))
    assert loaded.ranker.summary == chosen.ranker.summary
    assert loaded.recipe == chosen.recipe
    recipe(KNOTS).save(str(tmp_path / "recipe"))
    assert FeatureRecipe.load(str(tmp_path / "recipe")).getNumKnots() == KNOTS
