"""SOLAM's average, row weights and merging."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from spark_auc.errors import ConfigError, DataError
from spark_auc.learners.solam import SOLAM
from tests.learners import references
from tests.learners.test_learners import rows


def ridge_free(X, y):
    delta = X[y].mean(0) - X[~y].mean(0)
    C = np.cov(X[y].T, bias=True) + np.cov(X[~y].T, bias=True)
    return np.linalg.solve(C + np.outer(delta, delta), delta)


def test_average_approaches_the_optimum_over_all_pairs():
    X, y = rows(4000)
    learner = SOLAM(11, 1.0, 10.0, 4.0)
    for _ in range(50):
        learner.learn(X, y)
    best = ridge_free(X, y)
    assert roc_auc_score(y, X @ learner.w) > roc_auc_score(y, X @ best) - 0.002
    assert learner.w @ best > 0.99 * np.linalg.norm(learner.w) * np.linalg.norm(best)


def test_row_weights_multiply_gradients():
    X, y = rows()
    u = np.random.default_rng(1).uniform(0.2, 3, y.size)
    learner = SOLAM(11, 1.0, 2.0, 4.0)
    learner.learn(X, y, u)
    expected = references.solam(X, y, 1, 2, 4, u)
    np.testing.assert_allclose(learner.w, expected, rtol=0, atol=1e-9)
    ones, plain = SOLAM(11, 1.0, 2.0, 4.0), SOLAM(11, 1.0, 2.0, 4.0)
    ones.learn(X, y, np.ones(y.size))
    plain.learn(X, y)
    assert ones.to_bytes() == plain.to_bytes()


@pytest.mark.parametrize(("zeta", "radius"), [(1.0, 2.0), (10.0, 0.3)])
def test_averages_of_a_b_and_alpha(zeta, radius):
    X, y = rows()
    learner = SOLAM(11, zeta, radius, 4.0)
    assert learner.averages is None
    for half in (slice(None, 700), slice(700, None)):
        learner.learn(X[half], y[half])
    w, others = references.solam_averages(X, y, zeta, radius, 4)
    np.testing.assert_allclose(learner.w, w, rtol=0, atol=1e-9)
    assert list(learner.averages) == ["a", "b", "alpha"]
    np.testing.assert_allclose(list(learner.averages.values()), others, rtol=0, atol=1e-9)
    merged = learner.merge(SOLAM(11, zeta, radius, 4.0))
    assert merged.averages == pytest.approx(learner.averages)
    learner.sums = None
    old = SOLAM.from_bytes(learner.to_bytes())
    old.learn(X, y)
    assert old.averages is None
    assert old.merge(merged).averages is None


@pytest.mark.parametrize(("zeta", "radius"), [(0.1, 100.0), (100.0, 0.1)])
def test_length_and_average_stay_true_over_many_rows(zeta, radius):
    X, y = rows(20000, 30)
    learner, iterates = SOLAM(30, zeta, radius, 6.0), []
    for start in range(0, 20000, 100):
        learner.learn(sparse.csr_matrix(X[start : start + 100]), y[start : start + 100])
        iterates.append(np.linalg.norm(learner.iterate))
        assert learner.squared == pytest.approx(iterates[-1] ** 2, rel=1e-9)
    assert max(iterates) <= radius * (1 + 1e-9)
    if zeta < 1:
        expected = references.solam(X, y, zeta, radius, 6)
        np.testing.assert_allclose(learner.w, expected, rtol=0, atol=1e-9)


def test_rows_longer_than_kappa_are_refused():
    X, y = rows(50)
    X[20] *= 100
    learner, before = SOLAM(11, kappa=4.0), SOLAM(11, kappa=4.0)
    with pytest.raises(DataError, match=r"row 20 .*kappa = 4.0"):
        learner.learn(X, y)
    before.learn(X[:20], y[:20])
    assert learner.to_bytes() == before.to_bytes()


def test_merge_lies_between():
    X, y = rows(4000)
    make = lambda: SOLAM(11, 1.0, 10.0, 4.0)  # noqa: E731
    first, second = make(), make()
    first.learn(X[:3000], y[:3000])
    second.learn(X[3000:], y[3000:])
    merged = first.merge(second)
    np.testing.assert_allclose(merged.w, 0.75 * first.w + 0.25 * second.w, atol=1e-12)
    np.testing.assert_allclose(
        merged.iterate, 0.75 * first.iterate + 0.25 * second.iterate, atol=1e-12
    )
    assert (merged.rows, merged.positive) == (4000, y.sum())
    np.testing.assert_allclose(first.merge(make()).w, first.w, atol=1e-12)
    np.testing.assert_allclose(second.merge(first).w, merged.w, atol=1e-12)
    with pytest.raises(ConfigError, match="zeta"):
        first.merge(SOLAM(11, 2.0, 10.0, 4.0))


def test_rounds_from_one_start_count_it_once():
    X, y = rows(4000)
    learner = SOLAM(11, 1.0, 10.0, 4.0)
    for block in np.split(np.arange(4000), 10):
        parts = []
        for part in np.array_split(block, 3):
            here = SOLAM.from_bytes(learner.to_bytes())
            here.learn(X[part], y[part])
            parts.append(here)
        learner = parts[0].merge(parts[1], learner).merge(parts[2], learner)
    assert (learner.rows, learner.seen, learner.positive) == (4000, 4000, y.sum())
    alone = SOLAM(11, 1.0, 10.0, 4.0)
    alone.learn(X, y)
    assert roc_auc_score(y, X @ learner.w) > roc_auc_score(y, X @ alone.w) - 0.01
