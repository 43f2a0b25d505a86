"""Solvers against scikit-learn and skglm, and certificates against the truth."""

import importlib

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.errors import ConfigError, ConvergenceError
from spark_auc.solvers import ridge as ridge_module
from spark_auc.solvers import ridge_path
from spark_auc.solvers.banded import Banded
from spark_auc.solvers.candidates import default_grid
from spark_auc.solvers.path import path, solve
from spark_auc.solvers.ridge import ridge
from spark_auc.solvers.ridge_path import ridges
from spark_auc.solvers.solution import certified
from tests.data import libsvm
from tests.solvers.rows import violations

path_module = importlib.import_module("spark_auc.solvers.path")


def problem(seed=0, n=400, d=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / np.sqrt(d)
    y = X @ rng.normal(size=d) + rng.normal(size=n) > 1.0
    moments = PairMoments.of(X, y)
    return moments.quadratic(moments.columns().standard_deviation())


@pytest.fixture(scope="module")
def a9a():
    X, y = libsvm("a9a", 123)
    moments = PairMoments.of(X, y > 0)
    return moments.quadratic(moments.columns().standard_deviation())


def objective(quadratic: Quadratic, penalty, w):
    Sigma = quadratic.Sigma.toarray()
    return (
        w @ Sigma @ w / 2
        - w @ quadratic.mu
        + penalty.l1 * np.abs(w).sum()
        + penalty.l2 / 2 * (w @ w)
    )


def scikit_learn(quadratic, penalty):
    """The same objective as a lasso on a square root of Sigma + l2 I."""
    from sklearn.linear_model import Lasso

    d = quadratic.dimension
    values, vectors = np.linalg.eigh(quadratic.Sigma.toarray() + penalty.l2 * np.eye(d))
    keep = values > 1e-12 * values.max()
    root = np.sqrt(values[keep])
    A = root[:, None] * vectors[:, keep].T
    b = (vectors[:, keep].T @ quadratic.mu) / root
    rows = len(b)
    model = Lasso(alpha=penalty.l1 / rows, fit_intercept=False, tol=1e-14, max_iter=1_000_000)
    return model.fit(A, b).coef_


def skglm_solution(quadratic, penalty):
    from skglm.datafits import QuadraticHessian
    from skglm.penalties import L1_plus_L2
    from skglm.solvers import AndersonCD

    Sigma = np.asfortranarray(quadratic.Sigma.toarray())
    alpha = penalty.l1 + penalty.l2
    term = L1_plus_L2(alpha, penalty.l1 / alpha)
    solver = AndersonCD(tol=1e-12, fit_intercept=False, max_iter=1000, max_epochs=100_000)
    w, *_ = solver.solve(Sigma, -quadratic.mu, QuadraticHessian(), term)
    return w


PENALTIES = [(0.3, 1.0), (0.1, 0.5), (0.03, 0.9), (0.003, 1.0), (0.001, 0.5)]


@pytest.mark.parametrize(("reg", "mix"), PENALTIES)
def test_elastic_net_on_a9a_equals_the_peers(a9a, reg, mix):
    penalty = ElasticNet.of(reg * a9a.lambda1_max, mix)
    solution = solve(a9a, penalty, tol=1e-9, max_iter=10_000)
    mine = solution.certificate.objective
    assert mine == pytest.approx(objective(a9a, penalty, solution.w), abs=1e-12)
    assert solution.certificate.kkt <= 1e-8
    for peer in (scikit_learn, skglm_solution):
        assert abs(objective(a9a, penalty, peer(a9a, penalty)) - mine) <= 1e-9
    assert solution.certificate.gap <= 1e-8


@pytest.mark.parametrize(
    ("l1", "l2"), [(0.05, 0.0), (0.05, 0.3), (0.0, 0.3), (0.2, 1e-8), (1e-4, 1.0)]
)
def test_gap_bounds_the_true_suboptimality_of_any_point(l1, l2):
    quadratic, penalty = problem(), ElasticNet(l1, l2)
    best = solve(quadratic, penalty, tol=1e-13, max_iter=100_000)
    least = best.certificate.objective
    rng = np.random.default_rng(1)
    tight = []
    for distance in (0.0, 1e-6, 1e-3, 0.1, 1.0, 10.0):
        w = best.w + distance * rng.normal(size=best.w.size)
        c = certified(quadratic, penalty, w, iterations=0, tolerance=0, stopped="maxIter")
        suboptimality = c.certificate.objective - least
        assert c.certificate.gap >= suboptimality - 1e-13
        tight.append(c.certificate.gap)
    assert tight[0] < 1e-9
    none = certified(quadratic, penalty, 0 * best.w, iterations=0, tolerance=0, stopped="maxIter")
    assert none.certificate.gap >= -least - 1e-13


def test_gap_holds_at_every_iterate():
    quadratic = problem(2)
    for penalty in (ElasticNet(0.02, 0.0), ElasticNet(0.02, 0.05)):
        best = solve(quadratic, penalty, tol=1e-13, max_iter=100_000).certificate.objective
        for k in range(1, 30):
            c = solve(quadratic, penalty, tol=1e-13, max_iter=k).certificate
            assert c.gap >= c.objective - best - 1e-13
    best = solve(quadratic, ElasticNet(0.0, 0.1), tol=1e-13, max_iter=10_000)
    penalty = ElasticNet(0.0, 0.1)
    precondition = ridge_module._preconditioner(quadratic.Sigma, 0.1)
    for k in range(1, 30):
        w, *_ = ridge_module._conjugate_gradients(quadratic, penalty, precondition, 1e-13, k, None)
        c = certified(
            quadratic, penalty, w, iterations=k, tolerance=0, stopped="maxIter"
        ).certificate
        assert c.gap >= c.objective - best.certificate.objective - 1e-13


def one(quadratic, l2, **given):
    return ridge(quadratic, l2, **given)


def many(quadratic, l2, **given):
    return ridges(quadratic, [1.0, l2], **given)[1]


WAYS = pytest.mark.parametrize("way", [one, many])


@pytest.mark.parametrize("l2", [0.0, 1e-4, 0.3])
@WAYS
@pytest.mark.parametrize("factored", ["first", "after steps", "never"])
def test_ridge_is_the_linear_system(l2, factored, way, monkeypatch):
    if factored != "first":
        monkeypatch.setattr(ridge_module, "LARGEST_FACTORISED", 0)
        monkeypatch.setattr(ridge_module, "STEPS", 5)
    if factored == "never":
        for module in (ridge_module, ridge_path):
            monkeypatch.setattr(module, "LARGEST_DIRECT", 0)
    quadratic = problem(3)
    w = np.linalg.solve(quadratic.Sigma.toarray() + l2 * np.eye(30), quadratic.mu)
    solution = way(quadratic, l2, tol=1e-12, max_iter=1000)
    np.testing.assert_allclose(solution.w, w, rtol=1e-7)
    assert solution.certificate.reason == "converged"


@WAYS
def test_ridge_of_a_singular_quadratic(way):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(50, 6))
    X = np.hstack([X, X[:, :3], np.zeros((50, 1))])
    quadratic = PairMoments.of(X, X[:, 0] > 0).quadratic()
    solution = way(quadratic, 0.0, tol=1e-8, max_iter=1000)
    assert solution.certificate.reason == "converged"
    assert solution.certificate.gap == np.inf


def test_path_equals_cold_starts_and_is_empty_at_lambda1_max():
    quadratic = problem(5)
    factors = quadratic.lambda1_max * np.geomspace(1, 1e-3, 12)
    penalties = [ElasticNet(f, 0.01) for f in factors]
    solutions = list(path(quadratic, penalties, tol=1e-11, max_iter=10_000))
    assert not solutions[0].w.any()
    for penalty, solution in zip(penalties, solutions, strict=True):
        cold = solve(quadratic, penalty, tol=1e-11, max_iter=10_000)
        np.testing.assert_allclose(solution.w, cold.w, atol=1e-9)


def test_matrix_products_of_many_tiles():
    rng = np.random.default_rng(6)
    X = sparse.random(3000, 1300, 0.01, "csr", random_state=rng)
    quadratic = PairMoments.of(X, rng.random(3000) < 0.5).quadratic()
    Sigma = quadratic.Sigma.toarray()
    v = rng.normal(size=1300)
    np.testing.assert_allclose(quadratic.Sigma.matvec(v), Sigma @ v, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(Sigma, Sigma.T)
    np.testing.assert_array_equal(quadratic.Sigma.diagonal(), np.diag(Sigma))
    some = np.array([1299, 0, 512, 7])
    np.testing.assert_array_equal(quadratic.Sigma.columns(some), Sigma[:, some])


def test_not_converging_is_never_silent(caplog):
    quadratic = problem(7)
    solution = solve(quadratic, ElasticNet(1e-4, 0.0), tol=1e-12, max_iter=1)
    assert solution.certificate.reason == "maxIter"
    with pytest.raises(ConvergenceError, match="after 1 iterations"):
        solution.checked("raise")
    solution.checked("warn")
    assert "KKT residual" in caplog.text


def test_negative_penalty():
    with pytest.raises(ConfigError, match="regParam >= 0"):
        solve(problem(), ElasticNet(-0.1, 0.0), tol=1e-6, max_iter=10)


@pytest.mark.parametrize("factor", [0.1, 0.003])
def test_lasso_with_equal_columns(factor):
    """Hashed rows have columns that are equal, and more of them than rows."""
    rng = np.random.default_rng(2)
    X = (rng.random((60, 40)) < 0.2).astype(float)
    X = np.hstack([X, X, X[:, ::-1] * 2])
    moments = PairMoments.of(X, X[:, 3] + X[:, 5] + rng.normal(size=60) > 0.8)
    quadratic = moments.quadratic()
    penalty = ElasticNet(factor * quadratic.lambda1_max, 0.0)
    solution = solve(quadratic, penalty, tol=1e-10, max_iter=1000)
    assert solution.certificate.reason == "converged"
    theirs = objective(quadratic, penalty, scikit_learn(quadratic, penalty))
    assert solution.certificate.objective == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("direct", [True, False])
def test_a_default_grid_on_an_ill_conditioned_quadratic(direct, monkeypatch):
    """Eigenvalues from 1 to 1e-14, as of features of an embedding: every penalty is solved."""
    monkeypatch.setattr(ridge_module, "LARGEST_FACTORISED", 0)
    if not direct:
        for module in (ridge_module, ridge_path):
            monkeypatch.setattr(module, "LARGEST_DIRECT", 0)
    rng = np.random.default_rng(8)
    d = 600
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    root = Q * np.sqrt(np.geomspace(1, 1e-14, d))
    Sigma = SymmetricTiles.of(root @ root.T)
    quadratic = Quadratic(Sigma, root @ rng.normal(size=d) / np.sqrt(2 * d))
    penalties = [ElasticNet(0.0, l2) for l2 in default_grid(quadratic, 0.0)[::-1]]
    found = list(path(quadratic, penalties, tol=1e-6, max_iter=1000))
    long = Sigma.toarray().astype(np.longdouble)
    for penalty, solution in zip(penalties, found, strict=True):
        violation, _ = violations(long, quadratic.mu.astype(np.longdouble), penalty, solution.w)
        assert solution.certificate.reason == "converged"
        assert violation.max() <= solution.certificate.kkt
        assert solution.certificate.gap >= 0


@pytest.mark.parametrize("l2", [0.0, 1e-12])
def test_what_one_decomposition_cannot_solve_is_solved_by_steps(l2):
    """Columns of units that one decomposition rounds away, and rank deficient ones."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(60, 12)) * np.geomspace(1e-8, 1e8, 12)
    X = np.hstack([X, X[:, :3]])
    quadratic = PairMoments.of(X, rng.random(60) < 0.5).quadratic()
    penalties = [ElasticNet(0.0, l2 * 10.0**-k) for k in range(7)]
    for solution in path(quadratic, penalties, tol=1e-6, max_iter=1000):
        assert solution.certificate.reason == "converged"


def test_what_is_not_there_has_no_weight():
    """Rows of empty columns, without a mean difference."""
    quadratic = PairMoments.of(np.zeros((9, 5)), np.arange(9) < 4).quadratic()
    for penalty in (ElasticNet(0.0, 0.0), ElasticNet(0.0, 1.0), ElasticNet(0.1, 0.0)):
        for solution in path(quadratic, [penalty] * 7, tol=1e-6, max_iter=10):
            assert solution.certificate.reason == "converged"
            assert not solution.w.any()


@pytest.mark.parametrize("d", [1, 2, 95, 96, 97, 193, 300, 513])
def test_a_band_solves_for_every_factor(d):
    rng = np.random.default_rng(d)
    A = rng.normal(size=(d, d // 2 + 1))
    if d > 2:
        A[1] = 0.0
    Sigma, vectors, factors = A @ A.T, rng.normal(size=(d, 3)), [0.1, 1.0, 0.0]
    band = Banded(SymmetricTiles.of(Sigma))
    assert not band.indefinite(0.0)
    found = band.solved(vectors, factors)
    for i in range(2):
        expected = np.linalg.solve(Sigma + factors[i] * np.eye(d), vectors[:, i])
        np.testing.assert_allclose(found[:, i], expected, rtol=1e-9, atol=1e-9)
    assert np.isfinite(found).all()
    shifted = SymmetricTiles.of(Sigma - 1e-6 * np.abs(Sigma).max() * np.eye(d))
    assert Banded(shifted).indefinite(0.0) == (d > 2)


@pytest.mark.parametrize("rank", [1, 40, 200])
def test_the_band_of_a_low_rank_ends_early(rank):
    rng, d = np.random.default_rng(rank), 700
    A = rng.normal(size=(d, rank)) * np.exp(2 * rng.normal(size=(d, 1)))
    Sigma, v = A @ A.T, A @ rng.normal(size=(rank, 1))
    band = Banded(SymmetricTiles.of(Sigma))
    assert len(band._reflections) <= rank // 128 + 2
    assert not band.indefinite(0.0)
    for l2 in (1e-7 * np.trace(Sigma), 1.0):
        # By the matrix of the smaller size, A'A.
        expected = A @ np.linalg.solve(A.T @ A + l2 * np.eye(rank), np.linalg.lstsq(A, v)[0])
        found = band.solved(v, [l2])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("first", [128, 150])
def test_features_of_a_small_scale_are_no_rounding(first):
    diagonal = np.r_[np.full(first, 1e14), np.ones(300 - first)]
    v = np.random.default_rng(0).normal(size=(300, 1))
    found = Banded(SymmetricTiles.of(np.diag(diagonal))).solved(v, [0.1])
    np.testing.assert_allclose(found[:, 0], v[:, 0] / (diagonal + 0.1), rtol=1e-12)


def test_eigenvalues_that_cancel_are_no_end_of_a_band():
    Sigma = np.diag(np.r_[np.ones(140), np.zeros(160)])
    for first in range(140, 300, 2):
        Sigma[first : first + 2, first : first + 2] = [[0.0, 0.5], [0.5, 0.0]]
    band = Banded(SymmetricTiles.of(Sigma))
    assert band.indefinite(0.0)
    v = np.arange(300.0)[:, None]
    expected = np.linalg.solve(Sigma + 1.0 * np.eye(300), v)
    np.testing.assert_allclose(band.solved(v, [1.0]), expected, rtol=1e-9)


@pytest.mark.parametrize("diverged", [1e9, 1e100])
@pytest.mark.parametrize("penalties", [((0.0, 0.0), (0.0, 0.1)), ((0.0, 0.0), (0.05, 0.05))])
def test_a_ridge_that_diverged_starts_no_other(diverged, penalties, monkeypatch):
    """The weights of a solver that diverged are no start; those of a solved one are."""
    quadratic = problem(5)
    starts, solve_ridge = [], path_module.ridge

    def diverging(quadratic, l2, *, start, **given):
        starts.append(start)
        solution = solve_ridge(quadratic, l2, start=start, **given)
        if l2:
            return solution
        with np.errstate(all="ignore"):
            return certified(
                quadratic,
                ElasticNet(0.0, l2),
                np.full(quadratic.dimension, diverged),
                iterations=1,
                tolerance=1e-9,
                stopped="maxIter",
            )

    monkeypatch.setattr(path_module, "ridge", diverging)
    given = [ElasticNet(*factors) for factors in penalties]
    _, after = path(quadratic, given, tol=1e-9, max_iter=100)
    assert after.converged
    monkeypatch.setattr(path_module, "ridge", solve_ridge)
    [alone] = path(quadratic, given[1:], tol=1e-9, max_iter=100)
    np.testing.assert_array_equal(after.w, alone.w)
    first, _ = path(quadratic, given, tol=1e-9, max_iter=100)
    np.testing.assert_array_equal(first.start(given[0], given[1]), first.w)
