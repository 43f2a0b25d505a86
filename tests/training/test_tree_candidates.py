"""Candidates of trees, against LightGBM's own leaves and scores, and dense systems."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.training.method_result import MethodComparison
from spark_auc.training.prior import Prior
from spark_auc.training.raw_rows import RawRows
from spark_auc.training.tree_candidates import (
    TreeCandidate,
    measured,
    train_grown,
    tree_candidates,
)
from tests.training.test_same_rows import dense, table

lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")

TYPES = dict.fromkeys("abcd", "float")
SPLINE = Recipe((Spline("a", "float", (-1.0, 0.0, 1.0)),), unit=False)
TAUGHT = KeySample(0.3, 4)
SMALL = TreeCandidate(12, 6, 0.1)


def raw(seed, n=900, noise=False, weight=None):
    X, y = table(seed, n, noise)
    columns = {name: Numbers(values) for name, values in zip(TYPES, X.T, strict=True)}
    groups = np.arange(n).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return X, RawRows(columns, y, weight, groups)


def fold_of(rows, folds):
    return folds.of(Batch(np.empty((rows.y.size, 0)), rows.y, group=rows.groups))


def booster(X, y, candidate, weight=None):
    settings = {
        "objective": "binary",
        "num_leaves": candidate.leaves,
        "learning_rate": candidate.rate,
        "feature_fraction": candidate.share,
        "verbose": -1,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "seed": 0,
    }
    return lightgbm.train(settings, lightgbm.Dataset(X, y, weight=weight), candidate.trees)


class OneHot:
    """LightGBM's leaves as columns, with the values of the leaves."""

    def __init__(self, model):
        self.model = model
        self.sizes = [tree["num_leaves"] for tree in model.dump_model()["tree_info"]]
        self.values = np.array(
            [model.get_leaf_output(t, k) for t, n in enumerate(self.sizes) for k in range(n)]
        )

    def __call__(self, X):
        found = self.model.predict(X, pred_leaf=True)
        starts = np.append(0, np.cumsum(self.sizes)[:-1])
        L = np.zeros((len(X), sum(self.sizes)))
        np.put_along_axis(L, (found + starts).astype(int), 1.0, axis=1)
        return L


class Rows:
    """A dense matrix as the sparse one that `dense` takes."""

    def __init__(self, X):
        self.X = X

    def toarray(self):
        return self.X


@pytest.mark.parametrize("beside", [None, SPLINE], ids=["leaves", "beside a spline"])
def test_held_out_aucs_are_those_of_dense_systems_on_the_leaves_of_the_library(beside):
    X, rows = raw(0)
    folds = Folds(3, 1, never_held_out=TAUGHT)
    (result,) = measured(
        [replace(SMALL, beside=beside is not None, read_as=beside)], rows, TYPES, folds
    )
    fold = fold_of(rows, folds)
    assert set(fold) == {0, 1, 2, 3}
    selection = result.selection
    assert {c.prior for c in selection.candidates} == {False, True}
    chosen = [i for i, c in enumerate(selection.candidates) if 1e-3 < c.regParam < 1e2]
    for k in range(3):
        fit, test = fold != k, fold == k
        onehot = OneHot(booster(X[fit], rows.y[fit], SMALL))
        parts = [onehot(X)]
        if beside:
            spline = beside.transform(rows.columns).toarray()
            parts.insert(0, spline[:, np.abs(spline[fit]).max(axis=0) > 0])
        D = np.concatenate(parts, axis=1)
        prior = np.zeros(D.shape[1])
        prior[-onehot.values.size :] = onehot.values
        for i in chosen:
            candidate = selection.candidates[i]
            w0 = prior if candidate.prior else None
            w, _ = dense(Rows(D[fit]), rows.y[fit], candidate.regParam, w0, standardize=False)
            expected = roc_auc_score(rows.y[test], D[test] @ w)
            # Sums of leaves tie where their rounding differs.
            assert selection.auc[i, k] == pytest.approx(expected, abs=2e-4)


def test_large_trees_rank_as_the_library_does(monkeypatch):
    monkeypatch.setattr("spark_auc.training.tree_candidates._MOST_FEATURES", 50)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, 900)
    X, rows = raw(1, weight=weight)
    large = replace(SMALL, share=0.5)
    assert large.as_grown
    folds = Folds(4, 0)
    (result,) = measured([large], rows, TYPES, folds)
    fold = fold_of(rows, folds)
    for k in range(4):
        fit, test = fold != k, fold == k
        scores = booster(X[fit], rows.y[fit], large, weight[fit]).predict(X[test], raw_score=True)
        expected = roc_auc_score(rows.y[test], scores, sample_weight=weight[test])
        assert result.selection.auc[:, k] == pytest.approx([expected], abs=1e-9)
    told = MethodComparison((result,), folds).as_dict()
    assert json.loads(json.dumps(told, allow_nan=False))["candidates"][0]["auc"] > 0.7

    recipe = large.recipe(large.grow(rows, TYPES))
    batch = Batch(recipe.transform(rows.columns), rows.y, weight)
    trained = train_grown(
        ArrayRows((batch,), recipe.size), large, result.selection.candidate, Prior.of_trees(recipe)
    )
    own = booster(X, rows.y, large, weight).predict(X, raw_score=True)
    scores = batch.X @ trained.w / trained.prior["scale"]
    np.testing.assert_allclose(scores - scores.mean(), own - own.mean(), atol=1e-9)
    assert trained.prior["scale"] > 0
    assert trained.summary().nonzeros == np.count_nonzero(recipe.trees.forest.values)


@pytest.mark.parametrize("prior", [False, True])
def test_the_final_weights_are_those_of_a_dense_system(prior):
    X, rows = raw(2)
    recipe = SMALL.recipe(SMALL.grow(rows, TYPES))
    batch = Batch(recipe.transform(rows.columns), rows.y)
    (result,) = measured([SMALL], rows, TYPES, Folds(3, 0))
    penalty = next(c for c in result.selection.candidates if c.prior == prior and c.regParam > 1)
    trained = train_grown(ArrayRows((batch,), recipe.size), SMALL, penalty, Prior.of_trees(recipe))
    onehot = OneHot(booster(X, rows.y, SMALL))
    w0 = onehot.values if prior else None
    w, _ = dense(Rows(onehot(X)), rows.y, penalty.regParam, w0, standardize=False)
    ours, theirs = batch.X @ trained.w, onehot(X) @ w
    np.testing.assert_allclose(ours, theirs, atol=1e-6 * np.ptp(theirs))


def test_labels_of_noise_have_no_auc():
    _, rows = raw(3, 1500, noise=True)
    for candidate in (SMALL, replace(SMALL, leaves=20)):
        (result,) = measured([candidate], rows, TYPES, Folds(5, 0))
        assert np.abs(result.selection.mean - 0.5).max() < 0.06


def test_candidates_that_are_left_out(monkeypatch):
    _, rows = raw(4, 300)
    constant = rows._replace(columns={name: Numbers(np.ones(300)) for name in TYPES})
    (result,) = measured([SMALL], constant, TYPES, Folds(3, 0))
    assert result.left_out == "its trees have no split in fold 1"
    monkeypatch.setattr("spark_auc.training.tree_candidates._MOST_FEATURES", 73)
    (result,) = measured([replace(SMALL, beside=True, read_as=SPLINE)], rows, TYPES, Folds(3, 0))
    assert "features, expected at most 73" in result.left_out


def test_the_declared_candidates():
    candidates = tree_candidates(SPLINE)
    assert [c.as_grown for c in candidates] == [False, False, True, True, True, False]
    assert [c.blocks for c in candidates] == [("leaves",)] * 5 + [("leaves", "additive")]
    assert len({c.name for c in candidates}) == 6


def test_candidates_behind_on_two_folds_are_left_out():
    (_, rows), folds = raw(1), Folds(5, 0)
    (alone,) = measured([SMALL], rows, TYPES, folds)
    higher = replace(alone.selection, auc=alone.selection.auc + 0.01)
    better = replace(alone, name="a better one", selection=higher)
    (result,) = measured([SMALL], rows, TYPES, folds, better)
    assert result.selection is None
    assert "on 2 folds, that of a better one" in result.left_out
    (result,) = measured([SMALL], rows, TYPES, folds, replace(alone, name="as good"))
    np.testing.assert_array_equal(result.selection.auc, alone.selection.auc)
    assert result.left_out is None
