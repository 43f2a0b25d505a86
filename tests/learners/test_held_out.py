"""What a learner's next rows say of it: figures, when it is warned of, and that nothing changes."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from spark_auc.core.batch import Batch
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.learners import held_out
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.held_out import Doubling, HeldOut, Sample, Thirds
from spark_auc.learners.nsauc import NSAUC
from spark_auc.learners.solam import SOLAM
from spark_auc.learners.stages import joining_shares
from spark_auc.learners.steps import Lengths


def rows(n=6000, d=12, seed=0, condition=1.0):
    """Gaussian classes whose best direction lies where the rows vary least."""
    rng = np.random.default_rng(seed)
    spread = np.geomspace(1.0, condition, d)
    X, y = rng.normal(size=(n, d)) / spread, rng.random(n) < 0.3
    X[y] += 0.5 / spread
    return X, y


def solam(X, y, share=0.5):
    squares = (X**2).sum(axis=1)
    lengths = Lengths(ColumnMoments.of(Batch(squares[:, None], y)), float(np.sqrt(squares.max())))
    n = y.size
    return SOLAM(X.shape[1], lengths.step(share) * np.sqrt(n), 100.0, lengths.longest, n)


def test_the_radius_is_that_of_pairs():
    rng = np.random.default_rng(0)
    P, N = rng.normal(size=(40, 3)) * 2, rng.exponential(size=(70, 4))
    X = np.zeros((110, 7))
    X[:40, :3], X[40:, 3:] = P, N
    y = np.arange(110) < 40
    squares = (X**2).sum(axis=1)
    lengths = Lengths(ColumnMoments.of(Batch(squares[:, None], y)), 1.0)
    pairs = ((X[y][:, None] - X[~y][None]) ** 2).sum(axis=2)
    assert lengths.radius == pytest.approx((pairs**2).mean() / pairs.mean(), rel=1e-12)
    assert lengths.step(0.5) == pytest.approx(0.5 / lengths.radius)
    none = Lengths(ColumnMoments.of(Batch(np.zeros((4, 1)), np.arange(4) < 2)), 0.0)
    assert none.step(0.5) == 0.5


def test_figures_are_those_of_the_rows():
    X, y = rows(3000)
    found = Thirds(3000).learn(solam(X, y), [Batch(X, y)], 700)
    half, most = solam(X, y), solam(X, y)
    half.learn(X[:1000], y[:1000])
    most.learn(X[:2000], y[:2000])
    last = X[2000:], y[2000:]
    assert found.rows == 1000
    assert found.before == pytest.approx(roc_auc_score(last[1], last[0] @ half.w), abs=1e-12)
    assert found.auc == pytest.approx(roc_auc_score(last[1], last[0] @ most.w), abs=1e-12)
    assert found.rival == "ridge"
    assert found.gap == pytest.approx(found.rival_auc - found.auc, abs=1e-12)
    # Of the same rows, so that it is far below that of two independent AUCs.
    assert 0 < found.error < 0.005


@pytest.mark.parametrize("seed", range(4))
def test_good_steps_are_not_warned_of(seed):
    X, y = rows(seed=seed)
    found = Thirds(y.size).learn(solam(X, y), [Batch(X, y)], 1000)
    assert not found.short
    assert abs(found.gap) < 0.005


@pytest.mark.parametrize("seed", range(4))
def test_what_falls_short_of_ridge_is_warned_of(seed):
    X, y = rows(seed=seed, condition=30.0)
    learner = solam(X, y, 1e-3)
    found = Thirds(y.size).learn(learner, [Batch(X, y)], 1000)
    delta = X[y].mean(axis=0) - X[~y].mean(axis=0)
    Sigma = np.cov(X[y].T) + np.cov(X[~y].T)
    truth = (roc_auc_score(y, X @ w) for w in (np.linalg.solve(Sigma, delta), learner.w))
    lack = next(truth) - next(truth)
    assert lack > 0.05
    assert found.short
    assert found.gap == pytest.approx(lack, abs=0.03)


def test_without_a_matrix_what_is_still_gained_is_warned_of(monkeypatch):
    X, y = rows(condition=30.0)
    monkeypatch.setattr(held_out, "_RIDGE_FEATURES", 4)
    found = Thirds(y.size).learn(solam(X, y, 1e-3), [Batch(sparse.csr_matrix(X), y)], 1000)
    assert found.rival == "diagonal"
    assert found.short
    easy, labels = rows()
    found = Thirds(y.size).learn(solam(easy, labels), [Batch(easy, labels)], 1000)
    assert not found.short


def test_being_watched_changes_nothing():
    X, y = rows(2000)
    for make, apart, block in (
        (lambda: solam(X, y), False, 2000),
        (lambda: NSAUC(12, 0.1, seed=3), True, 700),
    ):
        alone, watched = make(), make()
        for start in range(0, 2000, block):
            alone.learn(X[start : start + block], y[start : start + block])
        assert Thirds(2000, apart).learn(watched, [Batch(X, y)], block)
        assert watched.to_bytes() == alone.to_bytes()


@pytest.mark.parametrize("count", [1000, 3000])
def test_more_or_fewer_rows_than_told_do_no_harm(count):
    X, y = rows(count)
    found = Thirds(2000).learn(solam(X, y), [Batch(X, y)], 600)
    assert (found is None) == (count == 1000)


def test_one_class_or_broken_weights_say_nothing():
    X, y = rows(300)
    ordered = np.argsort(y, kind="stable")
    assert Thirds(300).learn(solam(X, y), [Batch(X[ordered], y[ordered])], 100) is None
    sample = Sample(0.5)
    for part in range(3):
        sample.add(Batch(X, y), part)
    assert sample.compared(np.full(12, np.nan), np.ones(12)) is None
    assert sample.compared(np.ones(12), np.ones(12)) is not None


def test_new_rows_of_a_stage():
    X, y = rows(4000)
    batch = Batch(X, y)
    shares = joining_shares(batch, 5)
    early, late = np.ones(12), np.arange(12.0)
    found = Doubling(early, late, 0.5, 5).learn(DSGD(12, 0.01, seed=5), [batch], 900)
    new = shares >= 0.5
    assert found.rows == new.sum()
    assert found.before == pytest.approx(roc_auc_score(y[new], X[new] @ early), abs=1e-12)
    assert found.auc == pytest.approx(roc_auc_score(y[new], X[new] @ late), abs=1e-12)


def test_learners_of_different_rows_are_averaged():
    a = HeldOut(100, 0.7, 0.6, "ridge", 0.8, 0.1, 0.02)
    b = HeldOut(300, 0.9, 0.8, "ridge", 0.9, 0.0, 0.01)
    mean = HeldOut.mean([a, b])
    assert (mean.rows, mean.auc, mean.gap) == (400, pytest.approx(0.85), pytest.approx(0.025))
    assert mean.error == pytest.approx(np.hypot(0.25 * 0.02, 0.75 * 0.01))
    assert HeldOut.from_bytes(a.to_bytes()) == a
    assert HeldOut.mean([]) is None
