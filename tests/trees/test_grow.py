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
    "setting",
    [
        {"numTrees": 0},
        {"numLeaves": 1},
        {"learningRate": 0.0},
        {"columnShare": 1.1},
        {"leafRows": 0},
        {"seed": -1},
    ],
)
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match=f"found {next(iter(setting))} = "):
        grow(X, Y, **setting)


def test_a_leaf_has_its_least_number_of_rows():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    for least in (5, 60):
        forest = grow(X, Y, numTrees=20, numLeaves=31, leafRows=least)
        counts = np.asarray(leaves(forest, X).sum(axis=0)).ravel()
        # LightGBM estimates numbers of rows from second derivatives.
        assert 0.7 * least <= counts.min() < 3 * least


def test_rows_of_one_class_are_refused():
    with pytest.raises(DataError, match="found 3 rows of one class"):
        grow(X[:3], np.ones(3, bool))


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (-1.0, "found weight -1.0 of row 2, expected weights from 0 to 3.4e"),
        (np.nan, "found weight nan of row 2"),
        (np.inf, "found weight inf of row 2"),
        (1e39, r"found weight 1e\+39 of row 2"),
    ],
)
def test_weights_that_lightgbm_would_take_silently_are_refused(weight, said):
    weights = np.ones(len(X))
    weights[2] = weight
    with pytest.raises(DataError, match=said):
        grow(X, Y, weights)


def test_rows_without_weight_are_of_no_class():
    with pytest.raises(DataError, match="rows of one class"):
        grow(X, Y, np.where(Y, 1.0, 0.0))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((X, Y[:-1]), "labels and weights of shapes"),
        ((X, Y, np.ones(3)), "labels and weights of shapes"),
        ((X[:, 0], Y), r"found rows of shape \(3000,\)"),
    ],
)
def test_rows_of_other_shapes_are_refused(rows, said):
    with pytest.raises(DataError, match=said):
        grow(*rows)


@pytest.mark.parametrize("column", [4, -1])
def test_columns_of_categories_that_the_rows_have_not_are_refused(column):
    with pytest.raises(DataError, match=f"found column {column} of .* from 0 to 3; name"):
        grow(X, Y, categorical=[3, column])


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


def test_random_thresholds_are_those_of_the_library():
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rng = np.random.default_rng(8)
    X = rng.normal(size=(500, 3))
    y = X[:, 0] * X[:, 1] > 0
    found = [grow(X, y, numTrees=5, extraTrees=extra) for extra in (True, True, False)]
    np.testing.assert_array_equal(found[0].threshold, found[1].threshold)
    assert not np.array_equal(found[0].threshold, found[2].threshold)
    settings = {"objective": "binary", "extra_trees": True, "seed": 0, "verbose": -1}
    settings |= {"num_leaves": 15, "cat_smooth": 50.0, "cat_l2": 50.0}
    model = lightgbm.train(settings, lightgbm.Dataset(X, y.astype(float)), 5)
    values = [
        model.get_leaf_output(tree, k)
        for tree, info in enumerate(model.dump_model()["tree_info"])
        for k in range(info["num_leaves"])
    ]
    np.testing.assert_allclose(np.sort(found[0].values), np.sort(values), atol=1e-12)
