"""Training on the rows that grew the trees, against the library and dense systems."""

import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError, DataError, ResourceError
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.training.prior import Prior
from spark_auc.training.same_rows import GrownRows, train_on_same_rows
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling
from spark_auc.training.train import train
from spark_auc.trees.grow import grow
from spark_auc.trees.leaves import leaves
from spark_auc.trees.lightgbm_models import from_lightgbm
from tests.trees.forests import random_forest

SAMPLE = KeySample(0.8, 3)
NAMES = ("a", "b", "c", "d")


def table(seed, n=1500, noise=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 6, n)
    y = X[:, 0] * X[:, 1] + X[:, 2] + np.isin(X[:, 3], [1, 4]) + rng.normal(size=n) > 0.5
    return X, rng.permutation(y) if noise else y


class Growth:
    """Grows trees of LightGBM and maps the rows; remembers the forests and samples."""

    def __init__(self, X, y, trees=20):
        self.X, self.y, self.trees = X, y, trees
        self.groups = np.arange(y.size).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self.forests, self.samples = [], []

    def inside(self, sample):
        return np.ones(self.y.size, bool) if sample is None else sample.of(self.groups)

    def __call__(self, sample):
        rows = self.inside(sample)
        forest = grow(self.X[rows], self.y[rows], numTrees=self.trees, numLeaves=6)
        self.forests.append(forest)
        self.samples.append(sample)
        batch = Batch(leaves(forest, self.X), self.y, group=self.groups)
        halves = tuple(batch.take(part) for part in np.array_split(np.arange(self.y.size), 2))
        return GrownRows(ArrayRows(halves, forest.leaves), Prior(forest.values, forest.leaves))


def dense(L, y, reg, w0=None, standardize=True):
    """Weights by class means and covariances of the rows, and the trace of the scaled Sigma."""
    X = L.toarray()
    mu = X[y].mean(axis=0) - X[~y].mean(axis=0)
    Sigma = sum(np.cov(X[side], rowvar=False, ddof=0) for side in (y, ~y)) + np.outer(mu, mu)
    scale = X.std(axis=0, ddof=1) if standardize else np.ones(mu.size)
    Sigma, mu = Sigma / np.outer(scale, scale), mu / scale
    if w0 is not None:
        c = (w0 * scale) @ mu / ((w0 * scale) @ Sigma @ (w0 * scale))
        u0 = c * w0 * scale
    else:
        u0 = np.zeros(mu.size)
    w = u0 + np.linalg.solve(Sigma + reg * np.eye(mu.size), mu - Sigma @ u0)
    return w / scale, np.trace(Sigma)


@pytest.mark.parametrize("standardize", [True, False])
def test_a_strong_penalty_ranks_as_the_library_does(standardize):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    X, y = table(0)
    X[::7, 0] = np.nan
    settings = {"verbose": -1, "objective": "binary", "num_leaves": 6, "num_threads": 1}
    model = lightgbm.train(settings, lightgbm.Dataset(X, y), 15)
    trees = TreeLeaves.of(from_lightgbm(model.model_to_string()), dict.fromkeys(NAMES, "float"))
    recipe = Recipe((Spline("a", "float", (-1.0, 0.0, 1.0)),), trees=trees, unit=False)
    columns = {name: Numbers(values) for name, values in zip(NAMES, X.T, strict=True)}
    features = recipe.transform(columns)
    prior = Prior.of_trees(recipe)
    raw = model.predict(X, raw_score=True)
    np.testing.assert_allclose(np.ptp(features @ prior.w - raw), 0, atol=1e-12)
    assert (prior.w.size, prior.shared, np.count_nonzero(prior.w)) == (
        recipe.size,
        trees.size,
        trees.size,
    )
    # With a unit norm, leaves alone keep the ranking: each row has the norm sqrt(T).
    alone = Recipe(trees=trees)
    unit = alone.transform(columns) @ Prior.of_trees(alone).w * np.sqrt(15)
    np.testing.assert_allclose(np.ptp(unit - raw), 0, atol=1e-12)

    rows = ArrayRows((Batch(features, y),), recipe.size)
    strong = TrainingSettings(reg_params=(1e12,), prior=prior, standardize=standardize)
    result = train(rows, strong)
    scores = features @ result.w / result.prior["scale"]
    np.testing.assert_allclose(scores - scores.mean(), raw - raw.mean(), atol=1e-6)
    assert result.prior["new"] == recipe.size - trees.size


def test_a_recipe_without_leaf_values_is_no_prior():
    types = dict.fromkeys(NAMES, "float")
    none = random_forest(0, sizes=(1,), columns=4)
    none.values[:] = 0
    for trees in (None, TreeLeaves.of(none, types)):
        spline = Spline("a", "float", (-1.0, 0.0, 1.0))
        with pytest.raises(ConfigError, match="found a recipe without values of leaves"):
            Prior.of_trees(Recipe((spline,), trees=trees))


@pytest.mark.parametrize("standardize", [True, False])
def test_penalties_are_measured_on_rows_that_grew_nothing(standardize):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    X, y = table(1)
    growth = Growth(X, y)
    values = (1e-2, 1.0, 1e3)
    settings = TrainingSettings(reg_params=values, standardize=standardize)
    result = train_on_same_rows(growth, SAMPLE, settings)
    assert growth.samples == [SAMPLE, None]
    inside = growth.inside(SAMPLE)
    assert 0.75 < inside.mean() < 0.85
    first, last = growth.forests
    L = leaves(first, X)
    found = result.selection
    for candidate, (auc,) in zip(found.candidates, found.auc, strict=True):
        w0 = first.values if candidate.prior else None
        w, _ = dense(L[inside], y[inside], candidate.regParam, w0, standardize)
        assert auc == pytest.approx(roc_auc_score(y[~inside], L[~inside] @ w), abs=1e-9)
    chosen, w0 = found.candidate, last.values if found.candidate.prior else None
    w, _ = dense(leaves(last, X), y, chosen.regParam, w0, standardize)
    np.testing.assert_allclose(result.w, w, rtol=1e-6, atol=1e-9)
    told = json.loads(json.dumps(result.summary().as_dict()))
    assert told["selection"]["candidates"][0]["standardError"] is None
    assert told["prior"]["shared"] == last.leaves
    assert (told["prior"]["scale"] is not None) == chosen.prior
    assert {"select", "moments", "solve"} <= set(told["seconds"])


def test_default_penalties_are_relative_to_the_growth():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    X, y = table(2)
    growth = Growth(X, y)
    result = train_on_same_rows(growth, SAMPLE, TrainingSettings(standardize=False))
    inside = growth.inside(SAMPLE)
    L = leaves(growth.forests[0], X[inside])
    _, before = dense(L, y[inside], 1.0, standardize=False)
    _, after = dense(leaves(growth.forests[1], X), y, 1.0, standardize=False)
    assert before != pytest.approx(after, rel=1e-4)
    chosen = result.selection.candidate
    assert result.penalty.regParam / after == pytest.approx(chosen.regParam / before, rel=1e-9)
    assert result.penalty.prior == chosen.prior


def test_noise_is_not_believed():
    """Of the rows that grew trees for noise the leaves have an AUC far above 0.5."""
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    X, y = table(3, noise=True)
    growth = Growth(X, y, trees=60)
    selection = train_on_same_rows(growth, SAMPLE, TrainingSettings()).selection
    inside, first = growth.inside(SAMPLE), growth.forests[0]
    assert roc_auc_score(y[inside], leaves(first, X[inside]) @ first.values) > 0.7
    assert np.abs(selection.mean - 0.5).max() < 0.08


@pytest.mark.slow
def test_the_trees_remain_unless_others_are_better_by_an_error():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    differences, kept = [], 0
    for seed in range(6):
        X, y = table(10 + seed)
        growth = Growth(X, y)
        result = train_on_same_rows(growth, SAMPLE, TrainingSettings())
        others, labels = table(50 + seed, 6000)
        L, last = leaves(growth.forests[1], others), growth.forests[1]
        own = roc_auc_score(labels, L @ last.values)
        differences.append(roc_auc_score(labels, L @ result.w) - own)
        strongest = max(result.selection.candidates, key=lambda c: (c.regParam, c.prior))
        if result.selection.candidate == strongest:
            kept += 1
            assert differences[-1] == pytest.approx(0.0, abs=2e-4)
    assert kept > 0
    assert np.mean(differences) > -5e-4


def test_a_single_penalty_grows_once():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    X, y = table(4)
    growth = Growth(X, y)
    result = train_on_same_rows(growth, SAMPLE, TrainingSettings(reg_params=(0.5,)))
    assert growth.samples == [None]
    assert result.penalty.prior
    assert result.selection is None
    forest = growth.forests[0]
    w, _ = dense(leaves(forest, X), y, 0.5, forest.values)
    np.testing.assert_allclose(result.w, w, rtol=1e-6, atol=1e-9)


def test_what_is_refused():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    X, y = table(5, 300)
    growth = Growth(X, y)
    draws, other = Sampling("paired", 10), Prior(np.ones(3), 3)
    for settings in (TrainingSettings(sampling=draws), TrainingSettings(prior=other)):
        with pytest.raises(ConfigError, match="found a prior, or draws of pairs"):
            train_on_same_rows(growth, SAMPLE, settings)
    assert not growth.samples
    growth.y = growth.inside(SAMPLE) & y
    with pytest.raises(DataError, match="of one class outside of the sample"):
        train_on_same_rows(growth, SAMPLE, TrainingSettings())


def test_scores_that_do_not_fit_in_memory_are_refused(monkeypatch):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    monkeypatch.setattr(ArrayRows, "gathered_within", lambda rows, limit: None)
    with pytest.raises(ResourceError, match="scores of 50 penalties for the rows outside"):
        train_on_same_rows(Growth(*table(5, 300)), SAMPLE, TrainingSettings())
