"""Trees that LightGBM grows."""

import sys

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.errors import ConfigError, DataError, MissingPackageError
from spark_auc.trees.forest import CATEGORICAL
from spark_auc.trees.grow import grow
from spark_auc.trees.leaves import leaves
from tests.trees.forests import same


def rows(seed, n=3000):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 9, n)
    y = X[:, 0] * X[:, 1] + np.isin(X[:, 3], [1, 4, 6]) + rng.normal(size=n) / 2 > 0.5
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y


X, Y = rows(0)


def test_trees_rank_other_rows():
    """Neither the product nor the set of categories is linear in the columns."""
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    forest = grow(X, Y, categorical=[3], numTrees=50, numLeaves=8)
    assert (forest.trees, forest.leaves) == (50, 400)
    assert set(forest.column[(forest.rule & CATEGORICAL) != 0].tolist()) == {3}
    others, labels = rows(1)
    assert roc_auc_score(labels, leaves(forest, others) @ forest.values) > 0.85


def test_equal_arguments_give_equal_trees():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    weight = np.where(Y, 2.0, 1.0)
    forest = grow(X, Y, weight, categorical=[3], numTrees=9, learningRate=0.2)
    again = grow(np.asfortranarray(X), Y, weight, categorical=[3], numTrees=9, learningRate=0.2)
    assert same(forest, again)
    settings = {"categorical": [3], "numTrees": 9, "learningRate": 0.2}
    assert same(forest, grow(X, Y, weight, threads=2, **settings))
    assert not same(forest, grow(X, Y, **settings))


@pytest.mark.parametrize(
    "setting", [{"numTrees": 0}, {"numLeaves": 1}, {"learningRate": 0.0}, {"seed": -1}]
)
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match=f"found {next(iter(setting))} = "):
        grow(X, Y, **setting)


def test_rows_of_one_class_are_refused():
    with pytest.raises(DataError, match="found 3 rows of one class"):
        grow(X[:3], np.ones(3, bool))


@pytest.mark.parametrize("largest", [383_457.0, np.inf])
def test_categories_whose_sets_fill_the_memory_are_refused(largest):
    some = X.copy()
    some[0, 3] = largest
    with pytest.raises(DataError, match=r"expected at most 383456 .* number the categories"):
        grow(some, Y, categorical=[3])


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr("spark_auc.errors.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'spark-auc\[trees\]'"):
        grow(X, Y)
