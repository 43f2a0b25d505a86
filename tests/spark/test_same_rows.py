"""Training on the rows that grew the trees: a DataFrame beside arrays of the same rows."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc import (
    FeatureRecipe,
    MBAClassifier,
    MBASelector,
    NystroemEmbedding,
    RankerPipeline,
    RankSVMClassifier,
    SOLAMClassifier,
)
from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.row_groups import row_groups
from spark_auc.pipeline.estimators import (
    MBASelectingEstimator,
    MethodEstimator,
    PipelineEstimator,
    RecipeEstimator,
)
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.rows import TableRows
from spark_auc.training.prior import Prior
from spark_auc.training.same_rows import GrownRows, train_on_same_rows
from spark_auc.training.settings import TrainingSettings
from spark_auc.trees.grow import grow
from tests.pipeline.test_same_rows import settings, table

TYPES = {"a": "float", "b": "float"}


@pytest.fixture(scope="module")
def rows(spark):
    return spark.createDataFrame(table(0)).repartition(3).cache()


def recipe(**params):
    return FeatureRecipe(**settings(**params))


def test_leaves_beside_splines_and_tokens(rows, tmp_path):
    """Their weights are 0 in the prior; a saved model scores the same."""
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    columns = {"numKnots": 4, "dimension": 16, "crosses": "all", "crossBits": 6}
    given = settings(auto=True, leaveOut=["user"], **columns)
    penalties = {"regParams": [1e-2, 1.0, 1e4], "keyCol": "user", "weightCol": "weight"}
    model = RankerPipeline([FeatureRecipe(**given), MBASelector(**penalties)]).fit(rows)
    here = PipelineEstimator([RecipeEstimator(**given), MBASelectingEstimator(**penalties)])
    expected = here.fitted(ArrowTable.of(table(0), 500))
    assert model.recipe == expected.recipe
    np.testing.assert_allclose(model.ranker.coefficients, expected.ranker.scorer.w, atol=1e-9)
    assert model.recipe.numeric
    assert model.recipe.hashed
    assert not model.recipe.unit
    prior = model.ranker.summary.prior
    assert prior["shared"] == model.recipe.trees.size
    assert prior["new"] == model.recipe.size - model.recipe.trees.size > 16
    assert len(model.ranker.summary.selection["candidates"]) == 6
    model.save(str(tmp_path / "model"))
    again = type(model).load(str(tmp_path / "model"))
    both = [m.transform(rows).select("rawPrediction", "label").toArrow() for m in (model, again)]
    assert both[0] == both[1]
    assert roc_auc_score(both[0]["label"].to_numpy(), both[0]["rawPrediction"].to_numpy()) > 0.8


@pytest.mark.parametrize(
    ("params", "stages", "found"),
    [
        ({}, [RankSVMClassifier(regParam=0.1)], "a RankSVMClassifier"),
        ({}, [SOLAMClassifier()], "a SOLAMClassifier"),
        ({}, [NystroemEmbedding(), MBAClassifier()], "1 embeddings"),
        ({}, [MBAClassifier(prior="old")], "found prior with"),
        ({}, [MBAClassifier(estimator="paired")], "found estimator with"),
        ({}, [MBAClassifier(segmentCol="city")], "found segmentCol with"),
        ({}, [MBAClassifier(foldCol="user")], "found foldCol with"),
        ({}, [MBASelector(numFolds=3)], "found numFolds with"),
        ({}, [MBASelector(selectionRule="oneStandardError")], "found selectionRule with"),
        ({}, [MBAClassifier(seed=3)], "found seed with"),
        ({}, [MBAClassifier(keepMoments=True)], "found keepMoments with"),
        ({}, [MBAClassifier(maxFPR=0.1)], "found maxFPR with"),
        ({"pairs": 3}, [MBAClassifier()], "found pairs 3 with"),
        ({}, [MBAClassifier(standardization=True)], "found standardization with"),
        ({"unit": True}, [MBAClassifier()], "found unit with"),
        ({"crosses": "auto"}, [MBAClassifier()], "found crosses 'auto' with"),
        ({}, [MBAClassifier(smoothness="auto")], "found smoothness with"),
    ],
)
def test_other_stages_are_refused(spark, params, stages, found):
    pipeline = RankerPipeline([recipe(**params), *stages])
    for refused in (pipeline.check, lambda: pipeline.fit(None)):
        with pytest.raises(ConfigError, match=found) as error:
            refused()
        assert "growShare 1" in str(error.value)
        assert "\n" not in str(error.value)


def test_a_recipe_without_its_ranker_is_refused(rows):
    with pytest.raises(ConfigError, match="growShare 1 for a recipe that is fitted before"):
        recipe().fit(rows)
    with pytest.raises(ConfigError, match="growShare 1 for a choice of methods"):
        MethodEstimator(RecipeEstimator(**settings())).fitted(SparkTable(rows))


def test_a_dataframe_and_arrays_train_the_same_weights(spark):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2)).round(2)
    y = X[:, 0] * X[:, 1] + rng.normal(size=600) > 0.3
    df = spark.createDataFrame(
        [(*map(float, x), int(label)) for x, label in zip(X, y, strict=True)],
        ["a", "b", "label"],
    ).repartition(3)
    columns = {name: Numbers(values) for name, values in zip(TYPES, X.T, strict=True)}
    groups = row_groups(columns)

    def recipe_of(sample):
        inside = np.ones(y.size, bool) if sample is None else sample.of(groups)
        forest = grow(X[inside], y[inside], numTrees=8, numLeaves=5)
        return Recipe(trees=TreeLeaves.of(forest, TYPES), unit=False)

    def distributed(sample):
        recipe = recipe_of(sample)
        features = replace(RawFeatures.of(SparkTable(df), recipe), by_values=True)
        source = TableRows.of(
            SparkTable(df), TrainingColumns.resolve(SparkTable(df), features, "label")
        )
        return GrownRows(source, Prior.of_trees(recipe))

    def in_memory(sample):
        recipe = recipe_of(sample)
        batch = Batch(recipe.transform(columns), y, group=groups)
        return GrownRows(ArrayRows((batch,), recipe.size), Prior.of_trees(recipe))

    settings = TrainingSettings(reg_params=(1e-2, 1.0, 1e3), standardize=False)
    sample = KeySample(0.8, 1)
    theirs = train_on_same_rows(in_memory, sample, settings)
    ours = train_on_same_rows(distributed, sample, settings)
    np.testing.assert_allclose(ours.selection.auc, theirs.selection.auc, atol=1e-12)
    assert ours.selection.chosen == theirs.selection.chosen
    np.testing.assert_allclose(ours.w, theirs.w, rtol=1e-8, atol=1e-12)
    assert ours.labels.rows == {0: int((~y).sum()), 1: int(y.sum())}
