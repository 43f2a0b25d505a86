"""OPAUC's statistics, and what its sketches and projections keep of them."""

import numpy as np
import pytest
from scipy import sparse

from experiments.comparators.opauc_projected import opauc_of_components, opauc_of_projection
from spark_auc.core.noise import fill_normal
from spark_auc.errors import ConvergenceError
from spark_auc.learners.opauc import OPAUC
from spark_auc.learners.opauc_low_rank import OPAUCr
from tests.learners.test_learners import rows


def test_statistics_are_those_of_the_batch():
    X, y = rows()
    X += 5.0
    learner = OPAUC(11, 1e-6)
    learner.learn(X, y)
    for k, mine in enumerate((~y, y)):
        assert learner.rows[k] == mine.sum()
        np.testing.assert_allclose(learner.mean[k], X[mine].mean(0), rtol=0, atol=1e-10)
        expected = np.cov(X[mine].T, bias=True)
        np.testing.assert_allclose(learner.covariance[k], expected, rtol=0, atol=1e-10)


def test_many_steps_reach_the_ridge_solution_of_all_pairs():
    X, y = rows(4000)
    learner = OPAUC(11, 0.002, 0.1)
    for _ in range(10):
        learner.learn(X, y)
    delta = X[y].mean(0) - X[~y].mean(0)
    Sigma = np.cov(X[y].T, bias=True) + np.cov(X[~y].T, bias=True) + np.outer(delta, delta)
    expected = np.linalg.solve(Sigma + 0.1 * np.eye(11), delta)
    assert np.abs(learner.w - expected).max() < 0.05 * np.abs(expected).max()


def test_steps_too_long_are_said():
    X, y = rows()
    learner = OPAUC(11, 1000.0)
    learner.learn(X, y)
    with pytest.raises(ConvergenceError, match="reduce the step size"):
        learner.score(X)


def sketched(X, y, tau, seed):
    learner = OPAUCr(X.shape[1], 1e-6, 0.0, tau, seed)
    learner.learn(X, y)
    Z, s = learner.sketch[:, 1, :-1], learner.sums[1, :-1]
    A = Z - np.outer(learner.sketch[:, 1, -1] / learner.sums[1, -1], s)
    return A @ A.T / learner.sums[1, -1]


def test_sketched_covariance_is_unbiased_and_positive_semidefinite():
    X, y = rows(60, 5)
    S = np.cov(X[y].T, bias=True)
    estimates = np.array([sketched(X, y, 4, seed) for seed in range(1000)])
    assert np.linalg.eigvalsh(estimates).min() > -1e-12
    error = estimates.mean(0) - S
    assert np.abs(error / (estimates.std(0) / np.sqrt(1000))).max() < 4


def test_sketch_of_large_rank_is_opauc():
    X, y = rows(500, 5)
    whole, sketch = OPAUC(5, 0.02, 0.01), OPAUCr(5, 0.02, 0.01, 500)
    for learner in (whole, sketch):
        learner.learn(X, y)
    assert np.abs(sketch.w - whole.w).max() < 0.1 * np.abs(whole.w).max()


def test_products_stay_true_over_many_rows():
    X, y = rows(20000, 30)
    learner = OPAUCr(30, 0.05, 1e-3, 5)
    learner.learn(sparse.csr_matrix(X), y)
    B = learner.sketch.transpose(1, 2, 0)
    np.testing.assert_allclose(learner.products, B @ learner.w, rtol=0, atol=1e-9)
    gram = np.einsum("kcj,lfj->klcf", B, B)
    np.testing.assert_allclose(learner.gram, gram, rtol=1e-9, atol=1e-6)


def test_normal_draws():
    draws = np.empty((400, 101))
    for stream in range(400):
        fill_normal(7, stream, draws[stream])
    moments = [np.mean(draws**k) for k in (1, 2, 3, 4)]
    np.testing.assert_allclose(moments, [0, 1, 0, 3], atol=0.1)
    assert np.abs(np.corrcoef(draws.T) - np.eye(101)).max() < 0.25
    again = np.empty(101)
    fill_normal(7, 5, again)
    np.testing.assert_array_equal(again, draws[5])


def test_map_of_the_projection_is_not_stored_and_keeps_lengths():
    X = sparse.random(40, 5000, 0.01, "csr", random_state=0)
    learner = opauc_of_projection(5000, 400, 0.1, 0.1)
    ratio = (learner.mapped(X) ** 2).sum(1) / X.multiply(X).sum(1).A1
    assert 0.9 < ratio.mean() < 1.1
    np.testing.assert_array_equal(learner.mapped(X)[7:8], learner.mapped(X[7:8]))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_components_are_those_of_the_covariance(form):
    X = rows(300, 8)[0]
    learner = opauc_of_components(form(X), 3, 0.1, 0.1)
    H = learner.mapped(np.eye(8))
    vectors = np.linalg.eigh(np.cov(X.T, bias=True))[1]
    cosines = np.abs(np.sum(H * vectors[:, :-4:-1], axis=0))
    np.testing.assert_allclose(cosines, 1, atol=1e-8)
