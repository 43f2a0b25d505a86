"""Training on the rows that grew the trees: a DataFrame beside arrays of the same rows."""

from dataclasses import replace

import numpy as np
import pytest

from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_trees import TreeLeaves
from spark_auc.features.row_groups import row_groups
from spark_auc.spark.data.columns import TrainingColumns
from spark_auc.spark.data.raw_features import RawFeatures
from spark_auc.spark.data.rows import DistributedRows
from spark_auc.training.prior import Prior
from spark_auc.training.same_rows import GrownRows, train_on_same_rows
from spark_auc.training.settings import TrainingSettings
from spark_auc.trees.grow import grow

TYPES = {"a": "float", "b": "float"}


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
        features = replace(RawFeatures.of(df, recipe), by_values=True)
        source = DistributedRows.of(df, TrainingColumns.resolve(df, features, "label"))
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
