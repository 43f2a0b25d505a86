"""A prior as the centre of the penalty, against all pairs of the rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model

from spark_auc.core.batch import Batch
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.operator import operator_quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.solvers.path import path, solve
from spark_auc.solvers.prior import centred
from spark_auc.solvers.solution import certified
from tests.solvers.rows import Long, long_quadratic, violations
from tests.solvers.test_certificates import far_and_light, large, made

PENALTIES = [
    ElasticNet(0.0, 0.0),
    ElasticNet(0.0, 1e-3),
    ElasticNet(0.0, 5.0),
    ElasticNet(0.05, 0.0),
    ElasticNet(0.02, 0.1),
]


def prior(Sigma, mu, seed=1):
    """Weights near those of the rows, of a length of their own."""
    w = np.linalg.solve(Sigma.astype(float), mu.astype(float))
    return 7 * w * (1 + 0.5 * np.random.default_rng(seed).normal(size=w.size))


def quadratic_of(form, X, y, u, scale):
    if form == "tiles":
        return PairMoments.of(X, y, u).quadratic(scale)
    X = sparse.csr_matrix(X) if form == "sparse rows" else X
    return operator_quadratic(ArrayRows([Batch(X, y, u)], X.shape[1]), scale)


@pytest.mark.parametrize("form", ["tiles", "dense rows", "sparse rows"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("standardized", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_weights_and_certificate_are_those_of_the_rows(form, offset, standardized, penalty):
    X, y, u = made(offset)
    X = X * np.geomspace(0.1, 10, X.shape[1])
    scale = X.std(axis=0) if standardized else None
    Sigma, mu = long_quadratic(X, y, u, scale)
    w0 = prior(Sigma, mu)
    target, c = centred(quadratic_of(form, X, y, u, scale), w0)
    solution = solve(target, penalty, tol=1e-6, max_iter=5000)
    assert solution.converged
    assert c == pytest.approx(float(w0 @ mu / (w0 @ Sigma @ w0)), rel=1e-8)
    p = Long(c) * w0.astype(Long)
    violation, shifted = violations(Sigma, mu - Sigma @ p, penalty, solution.w - target.origin.w)
    assert violation.max() <= solution.certificate.kkt <= solution.certificate.tolerance
    objective = shifted + p @ Sigma @ p / 2 - p @ mu
    assert solution.certificate.objective == pytest.approx(float(objective), abs=1e-8)
    if not penalty.l1:
        matrix = (Sigma + penalty.l2 * np.eye(8)).astype(float)
        dense = np.linalg.solve(matrix, (mu + penalty.l2 * p).astype(float))
        size = np.sqrt(np.diag(matrix))
        np.testing.assert_allclose(size * solution.w, size * dense, atol=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES[1:])
def test_regression_of_pairs_on_targets_less_the_priors_scores(penalty):
    X, y, _ = made(0.0, n=80)
    D = (X[y][:, None] - X[~y]).reshape(-1, 8)
    w0 = prior(D.T @ D / len(D), D.mean(axis=0))
    c = (D @ w0).sum() / ((D @ w0) ** 2).sum()
    assert c > 0
    alpha = penalty.l1 + penalty.l2
    model = linear_model.ElasticNet(
        alpha, l1_ratio=penalty.l1 / alpha, fit_intercept=False, tol=1e-14, max_iter=100_000
    )
    if not penalty.l1:
        model = linear_model.Ridge(penalty.l2 * len(D), fit_intercept=False)
    expected = model.fit(D, 1 - D @ (c * w0)).coef_ + c * w0
    target, scale = centred(PairMoments.of(X, y).quadratic(), w0)
    assert scale == pytest.approx(c, rel=1e-12)
    solution = solve(target, penalty, tol=1e-11, max_iter=5000)
    np.testing.assert_allclose(solution.w, expected, atol=1e-8)
    if penalty.l1:
        unchanged = model.coef_ == 0
        assert unchanged.any()
        np.testing.assert_array_equal(solution.w[unchanged], target.origin.w[unchanged])


@pytest.mark.parametrize("way", ["band", "krylov", "screening"])
def test_many_penalties_are_solved_as_one(way, monkeypatch):
    if way != "band":
        large(monkeypatch, direct=False)
    X, y, u = made(0.0, d=20)
    Sigma, mu = long_quadratic(X, y, u)
    quadratic = quadratic_of("tiles" if way == "band" else "sparse rows", X, y, u, None)
    target, _ = centred(quadratic, prior(Sigma, mu))
    p = target.origin.w
    l1 = 1e-3 if way == "screening" else 0.0
    penalties = [ElasticNet(l1, 10.0**-k) for k in range(-2, 7)]
    for penalty, solution in zip(
        penalties, path(target, penalties, tol=1e-8, max_iter=1000), strict=True
    ):
        violation, _ = violations(Sigma, mu - Sigma @ p, penalty, solution.w - p)
        assert solution.converged
        assert violation.max() <= solution.certificate.kkt
        if not l1:
            matrix = Sigma.astype(float) + penalty.l2 * np.eye(20)
            dense = np.linalg.solve(matrix, mu.astype(float) + penalty.l2 * p)
            np.testing.assert_allclose(solution.w, dense, atol=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES[1:])
def test_gap_bounds_the_suboptimality_of_any_point(penalty):
    X, y, u = made(0.0)
    Sigma, mu = long_quadratic(X, y, u)
    target, _ = centred(PairMoments.of(X, y, u).quadratic(), prior(Sigma, mu))
    p = target.origin.w
    best = solve(target, penalty, tol=1e-13, max_iter=10_000)
    rng, gaps = np.random.default_rng(3), []
    for distance in (0.0, 1e-6, 1e-3, 0.1, 1.0, 10.0):
        departure = best.w - p + distance * rng.normal(size=8)
        at = certified(target, penalty, departure, iterations=0, tolerance=0, stopped="maxIter")
        at = at.from_zero(target)
        excess = at.certificate.objective - best.certificate.objective
        assert at.certificate.gap >= excess - 1e-13
        gaps.append(at.certificate.gap)
    assert gaps[0] < 1e-9


@pytest.mark.parametrize("penalty", PENALTIES)
def test_moments_without_their_digits_certify_nothing(penalty):
    moments, rows = far_and_light()
    scale = moments.columns().standard_deviation()
    Sigma, mu = long_quadratic(*rows, scale)
    target, _ = centred(moments.quadratic(scale), prior(Sigma, mu))
    p = target.origin.w.astype(Long)
    solution = solve(target, penalty, tol=1e-8, max_iter=1000)
    violation, _ = violations(Sigma, mu - Sigma @ p, penalty, solution.w - target.origin.w)
    assert violation.max() <= solution.certificate.kkt


def test_a_prior_of_no_use_is_left_out():
    """Of zeros, of constant columns, of scores that are rounding, or backwards: today's bits."""
    X, y, u = made(0.0)
    X[:, 3] = 5.0
    X[:, 4] = X[:, 5]
    quadratic = PairMoments.of(X, y, u).quadratic()
    useful = np.linalg.lstsq(quadratic.Sigma.toarray(), quadratic.mu, rcond=None)[0]
    constant, none = np.zeros(8), np.zeros(8)
    constant[3] = 2.0
    none[4], none[5] = 1e3, -1e3
    for w0 in (np.zeros(8), constant, none, -useful):
        target, c = centred(quadratic, w0)
        assert target is quadratic
        assert c == 0.0
    target, c = centred(quadratic, useful)
    assert c > 0
    # The best of all lengths, and the same centre for every length of the prior.
    values = [
        quadratic.value(f * w, quadratic.Sigma.matvec(f * w))
        for w, f in [(useful, c), (useful, 0.99 * c), (useful, 1.01 * c), (useful, 0.0)]
    ]
    assert values[0] == min(values)
    longer, _ = centred(quadratic, 100 * useful)
    np.testing.assert_allclose(longer.origin.w, target.origin.w, rtol=1e-12)


def test_a_constant_column_keeps_the_weight_of_the_prior():
    X, y, u = made(0.0)
    X[:, 3] = 5.0
    quadratic = PairMoments.of(X, y, u).quadratic()
    w0 = np.linalg.lstsq(quadratic.Sigma.toarray(), quadratic.mu, rcond=None)[0]
    w0[3] = 2.0
    target, c = centred(quadratic, w0)
    for penalty in PENALTIES:
        solution = solve(target, penalty, tol=1e-8, max_iter=1000)
        assert solution.converged
        assert solution.w[3] == c * 2.0


def test_a_strong_penalty_leaves_the_prior_and_none_forgets_it():
    X, y, u = made(0.0)
    quadratic = PairMoments.of(X, y, u).quadratic()
    w0 = prior(*long_quadratic(X, y, u))
    target, c = centred(quadratic, w0)
    strong = solve(target, ElasticNet(0.0, 1e12), tol=1e-6, max_iter=100).checked("raise")
    np.testing.assert_allclose(strong.w, c * w0, rtol=1e-9)
    exact = solve(target, ElasticNet(target.lambda1_max, 0.0), tol=1e-6, max_iter=100)
    np.testing.assert_array_equal(exact.w, c * w0)
    free = solve(target, ElasticNet(0.0, 0.0), tol=1e-10, max_iter=100)
    plain = solve(quadratic, ElasticNet(0.0, 0.0), tol=1e-10, max_iter=100)
    np.testing.assert_allclose(free.w, plain.w, rtol=1e-7)


@pytest.mark.parametrize("penalty", PENALTIES[:2])
def test_the_solution_itself_as_the_prior_converges(penalty):
    """What it leaves of mu is rounding; the tolerance is relative to the mu of the loss."""
    X, y, u = made(1e6)
    quadratic = PairMoments.of(X, y, u).quadratic()
    before = solve(quadratic, ElasticNet(0.0, 0.0), tol=1e-6, max_iter=100)
    target, c = centred(quadratic, before.w)
    assert c == pytest.approx(1.0, abs=1e-6)
    for repeats in (1, 7):
        for solution in path(target, [penalty] * repeats, tol=1e-6, max_iter=100):
            assert solution.converged
            np.testing.assert_allclose(solution.w, before.w, rtol=1e-5)
