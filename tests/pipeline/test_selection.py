"""Selection from one pass against refitting each fold by itself."""

import tracemalloc
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from spark_auc import local
from spark_auc.core.memory import ProcessMemory
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds, GroupCounts
from spark_auc.errors import ConfigError
from spark_auc.pipeline.estimators import MBAEstimator, MBASelectingEstimator
from spark_auc.solvers.path import solve
from spark_auc.training import penalty, problem
from spark_auc.training.cross_validation import CrossValidation
from tests import data
from tests.pipeline.test_sampling import read, table, vectors

N, D, K = 500, 4, 3
RNG = np.random.default_rng(6)
Y = RNG.random(N) < 0.3
X = RNG.normal(size=(N, D)) + Y[:, None] * [1.0, 0.5, 0.0, 0.0]
U = RNG.uniform(0.5, 2, N)
GRID = [1e-3, 0.1, 1.0]


@pytest.fixture(scope="module")
def rows():
    return table(vectors(X, Y, u=U), 130)


def fold_of(seed, count):
    """The fold of each row by its id, from what threads compute."""
    found = {}
    ids = np.arange(N)[:, None].astype(float)
    local = read(table(vectors(ids, Y, u=U), 130), "id").gathered()
    counts = reduce(GroupCounts.update, local.batches, GroupCounts.zero(2048))
    dealt = Folds(count, seed).assigned(counts)
    for batch in local.batches:
        found |= dict(zip(batch.X[:, 0].astype(int), dealt.of(batch), strict=True))
    return found


@pytest.mark.parametrize("mixes", [[0.0], [0.0, 0.6]])
def test_the_same_as_refitting_each_fold(rows, mixes):
    selector = MBASelectingEstimator(
        regParams=GRID, elasticNetParams=mixes, numFolds=K, weightCol="u", keyCol="id", seed=9
    )
    model = selector.fitted(rows)
    table = model.summary.selection
    dealt = fold_of(9, K)
    fold = np.array([dealt[i] for i in range(N)])
    for candidate in table["candidates"]:
        for k in range(K):
            given = {name: candidate[name] for name in ("regParam", "elasticNetParam")}
            others, mine = fold != k, fold == k
            fitted = local.MBAClassifier(**given).fit(X[others], Y[others], U[others])
            scores = fitted.decision_function(X[mine])
            auc = roc_auc_score(Y[mine], scores, sample_weight=U[mine])
            assert candidate["folds"][k] == pytest.approx(auc, abs=1e-9)
    means = [c["auc"] for c in table["candidates"]]
    assert table["chosen"] == int(np.argmax(means))
    assert table["uncertainty"] == 0
    chosen = table["candidates"][table["chosen"]]
    whole = MBAEstimator(
        regParam=chosen["regParam"], elasticNetParam=chosen["elasticNetParam"], weightCol="u"
    ).fitted(rows)
    np.testing.assert_allclose(model.scorer.w, whole.scorer.w, rtol=1e-7, atol=1e-9)
    assert model.values()["regParam"] == chosen["regParam"]


def test_one_standard_error(rows):
    table = MBASelectingEstimator(numFolds=5, selectionRule="oneStandardError", keyCol="id").fitted(
        rows
    )
    table = table.summary.selection
    candidates = table["candidates"]
    best = max(candidates, key=lambda c: c["auc"])
    near = [c for c in candidates if c["auc"] >= best["auc"] - best["standardError"]]
    assert candidates[table["chosen"]]["regParam"] == max(c["regParam"] for c in near)
    folds_of_best = np.array(best["folds"])
    assert best["standardError"] == pytest.approx(folds_of_best.std(ddof=1) / np.sqrt(5))


def test_without_a_penalty_one_is_chosen(rows):
    model = MBAEstimator(keyCol="id", seed=2).fitted(rows)
    selected = MBASelectingEstimator(keyCol="id", seed=2).fitted(rows)
    assert model.summary.selection == selected.summary.selection
    np.testing.assert_array_equal(model.scorer.w, selected.scorer.w)
    assert len(model.summary.selection["candidates"]) == 25


@pytest.fixture(scope="module")
def exact(rows):
    return (
        MBASelectingEstimator(regParams=GRID, numFolds=K, keyCol="id")
        .fitted(rows)
        .summary.selection
    )


@pytest.mark.parametrize("estimator", ["complete", "paired"])
def test_selection_on_draws(rows, exact, estimator):
    model = MBASelectingEstimator(
        regParams=GRID, numFolds=K, keyCol="id", estimator=estimator, numPairs=2048
    ).fitted(rows)
    assert model.summary.estimator == estimator
    for ours, theirs in zip(
        model.summary.selection["candidates"], exact["candidates"], strict=True
    ):
        assert ours["auc"] == pytest.approx(theirs["auc"], abs=0.02)


def test_a_penalty_has_one_unit_on_draws(rows, monkeypatch):
    """Half of the draws are positive, few of all rows: deviations of both differ."""
    scales = []

    plain = CrossValidation.select

    def recorded(self, candidates, training, *others):
        training = list(training)
        scales.extend(scale for _, scale in training)
        return plain(self, candidates, training, *others)

    monkeypatch.setattr(CrossValidation, "select", recorded)
    selector = MBASelectingEstimator(
        regParams=GRID, numFolds=K, keyCol="id", estimator="complete", numPairs=2048
    )
    selector.fitted(rows)
    assert len(scales) == K
    for scale in scales:
        np.testing.assert_allclose(scale, X.std(axis=0, ddof=1), rtol=1e-9)


def test_folds_in_turn_and_histograms_that_bound(rows, exact, monkeypatch):
    selector = MBASelectingEstimator(regParams=GRID, numFolds=K, keyCol="id")
    exactly = penalty.cross_validation_of

    def little(*given):
        return replace(exactly(*given), at_once=1)

    monkeypatch.setattr(penalty, "cross_validation_of", little)
    monkeypatch.setattr(penalty, "histogram_bins", lambda *given: 64)
    bounded = selector.fitted(rows).summary.selection
    assert 0 < bounded["uncertainty"] < 0.02
    for ours, theirs in zip(bounded["candidates"], exact["candidates"], strict=True):
        np.testing.assert_allclose(ours["folds"], theirs["folds"], atol=bounded["uncertainty"])


def test_rows_in_memory_and_passes_give_the_same(rows, monkeypatch):
    selector = MBASelectingEstimator(
        regParams=GRID, elasticNetParams=[0.0, 0.5], numFolds=K, keyCol="id"
    )
    expected = selector.fitted(rows).summary.selection
    monkeypatch.setattr(problem, "fits_in_matrix", lambda _: False)
    model = selector.fitted(rows)
    assert model.summary.form == "rows"
    passes = selector.fitted(replace(rows, memory=ProcessMemory(2, rows_limit=0.0)))
    assert passes.summary.form == "passes"
    for form in (model, passes):
        found = form.summary.selection
        assert found["chosen"] == expected["chosen"]
        for ours, theirs in zip(found["candidates"], expected["candidates"], strict=True):
            np.testing.assert_allclose(ours["folds"], theirs["folds"], atol=1e-9)
    np.testing.assert_allclose(passes.scorer.w, model.scorer.w, rtol=1e-5)


@pytest.mark.parametrize("chosen", [True, False])
def test_few_rows_of_many_features_take_no_matrix_of_them(chosen):
    d = 6_000
    X = sparse.random(60, d, 0.3, format="csr", rng=np.random.default_rng(0))
    y = np.arange(60) % 3 == 0
    few = replace(table(vectors(X, y), 30), memory=ProcessMemory(2))
    estimator = MBASelectingEstimator(numFolds=K) if chosen else MBAEstimator(regParam=0.1)
    tracemalloc.start()
    model = estimator.fitted(few)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.summary.form == "rows"
    assert peak < PairMoments.nbytes(d) / 4


def test_what_cannot_be_chosen_from(rows):
    for wrong in ({"regParams": []}, {"regParams": [-1.0]}, {"elasticNetParams": [2.0]}):
        with pytest.raises(ConfigError, match="expected"):
            MBASelectingEstimator(**wrong).fitted(rows)


def test_a9a():
    """The same choice and AUCs as refitting, at the size of real data."""
    rows = table(vectors(*data.libsvm("a9a", 123)), 8000)
    grid = np.logspace(-4, 1, 6).tolist()
    model = MBASelectingEstimator(regParams=grid, numFolds=5, seed=1).fitted(rows)
    candidates = model.summary.selection["candidates"]
    batch = read(rows, weight=None).gathered().batches
    held = [Folds(5, 1).of(b) for b in batch]
    for k in (0, 3):
        parts = [b.take(np.flatnonzero(f != k)) for b, f in zip(batch, held, strict=True)]
        own = [b.take(np.flatnonzero(f == k)) for b, f in zip(batch, held, strict=True)]
        moments = PairMoments.fold(parts, 123)
        scale = moments.columns().standard_deviation()
        for i in (1, 4):
            w = solve(moments.quadratic(scale), ElasticNet(0.0, grid[i]), tol=1e-6, max_iter=9).w
            y = np.concatenate([b.y for b in own])
            scores = np.concatenate([b.X @ (w / scale) for b in own])
            assert candidates[i]["folds"][k] == pytest.approx(roc_auc_score(y, scores), abs=1e-9)
