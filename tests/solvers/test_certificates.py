"""What a certificate says, against the rows themselves in extended precision."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.moments.operator import operator_quadratic, pair_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import ConvergenceError
from spark_auc.solvers import path as path_module
from spark_auc.solvers import ridge as ridge_module
from spark_auc.solvers import ridge_path
from spark_auc.solvers.path import path, solve
from tests.solvers.rows import long_quadratic, violations

PENALTIES = [
    ElasticNet(0.0, 0.0),
    ElasticNet(0.0, 1e-3),
    ElasticNet(0.01, 0.0),
    ElasticNet(0.02, 0.1),
]


def large(monkeypatch, *, direct=True):
    """Let few features be too many for what is done with few."""
    for module in (path_module, ridge_module):
        monkeypatch.setattr(module, "LARGEST_FACTORISED", 0)
    for module in (ridge_module, ridge_path) if not direct else ():
        monkeypatch.setattr(module, "LARGEST_DIRECT", 0)


def made(offset, n=300, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    y = rng.random(n) < 0.3
    X[y] += rng.normal(size=d) / 2
    # Both mantissas are those of the moved rows.
    return X + offset, y, rng.uniform(0.5, 2, n)


@pytest.mark.parametrize("form", ["tiles", "dense rows", "sparse rows"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_residual_is_that_of_the_rows(form, penalty, offset):
    X, y, u = made(offset)
    X[::50, 3] = 0.0
    X[:, 5] *= np.random.default_rng(1).random(len(y)) < 0.1
    shape = sparse.csr_matrix if form == "sparse rows" else np.asarray
    rows = ArrayRows([Batch(shape(X[i::3]), y[i::3], u[i::3]) for i in range(3)], X.shape[1])
    scale = np.random.default_rng(2).uniform(0.5, 2, X.shape[1]) * X.std(axis=0)
    quadratic = (
        pair_moments(rows).quadratic(scale) if form == "tiles" else operator_quadratic(rows, scale)
    )
    solution = solve(quadratic, penalty, tol=1e-6, max_iter=5000)
    violation, objective = violations(*long_quadratic(X, y, u, scale), penalty, solution.w)
    certificate = solution.certificate
    assert certificate.reason == "converged"
    assert violation.max() <= certificate.kkt
    assert certificate.objective == pytest.approx(float(objective), abs=1e-8)


def far_and_light(seed=0):
    """Sparse rows about 1e5, of which one that weighs next to nothing stores no value."""
    X, y, u = made(0.0, d=3, seed=seed)
    X[:, 1] += 1e5
    X[0, 1], u[0] = 0.0, 1e-9
    return PairMoments.of(sparse.csr_matrix(X), y, u), (X, y, u)


def next_to_nothing(seed=0):
    """What is left when rows that vary 1e6 times as much are subtracted."""
    X, y, u = made(0.0, d=3, seed=seed)
    others = PairMoments.of(1e6 * np.random.default_rng(1).normal(size=(50, 3)), np.arange(50) < 25)
    return PairMoments.of(X, y, u).merge(others).subtract(others), (X, y, u)


@pytest.mark.parametrize("lossy", [far_and_light, next_to_nothing])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("seed", range(3))
def test_moments_without_their_digits_certify_nothing(lossy, penalty, seed):
    """The origin 0 of sparse rows, and a subtraction, leave sums larger than the variance."""
    moments, rows = lossy(seed)
    scale = moments.columns().standard_deviation()
    solution = solve(moments.quadratic(scale), penalty, tol=1e-8, max_iter=1000)
    violation, _ = violations(*long_quadratic(*rows, scale), penalty, solution.w)
    assert violation.max() <= solution.certificate.kkt


@pytest.mark.parametrize("shape", [np.asarray, sparse.csr_matrix])
def test_means_without_their_digits_certify_nothing(shape):
    """At an offset of 1e11 a class's mean is known to 1e-5 of the standard deviation.

    Pair moments know the mean from an origin beside it, and certify what they know.
    """
    X, y, u = made(1e11)
    rows, penalty = ArrayRows([Batch(shape(X), y, u)], 8), ElasticNet(0.0, 1e-3)
    solution = solve(operator_quadratic(rows, None), penalty, tol=1e-6, max_iter=100)
    assert solution.certificate.reason == "stalled"
    assert "subtract a number near its mean" in solution.certificate.problem()
    solution = solve(pair_moments(rows).quadratic(), penalty, tol=1e-6, max_iter=100)
    assert solution.converged
    violation, _ = violations(*long_quadratic(X, y, u), penalty, solution.w)
    assert violation.max() <= solution.certificate.kkt


def test_rows_moved_together_have_the_same_products():
    X, y, u = made(0.0)
    Sigma, _ = long_quadratic(X + 1e6, y, u)
    for shape in (np.asarray, sparse.csr_matrix):
        operator = operator_quadratic(ArrayRows([Batch(shape(X + 1e6), y, u)], 8), None).Sigma
        found = operator.matmat(np.eye(8))
        np.testing.assert_allclose(found, Sigma.astype(float), atol=1e-9)


@pytest.mark.parametrize("way", ["one", "many", "steps", "krylov", "sparse", "rows"])
def test_the_stop_does_not_depend_on_units(way, monkeypatch):
    """Columns of units from 1e-8 to 1e8, with no penalty: least objective as with units of 1."""
    rng = np.random.default_rng(8)
    X, y, u = made(0.0, d=20, seed=8)
    X = X @ rng.normal(size=(20, 20))
    units = 2.0 ** rng.permutation(np.linspace(-27, 27, 20).round())
    monkeypatch.setattr(ridge_module, "_BLOCK", 1)
    Sigma, mu = long_quadratic(X, y, u)
    w = np.linalg.solve(Sigma.astype(float), mu.astype(float))
    w += np.linalg.solve(Sigma.astype(float), (mu - Sigma @ w).astype(float))
    _, least = violations(Sigma, mu, ElasticNet(0.0, 0.0), w)
    l1 = 1e-18 if way == "sparse" else 0.0
    if way in ("steps", "krylov", "rows"):
        large(monkeypatch, direct=False)
    quadratic = PairMoments.of(X * units, y, u).quadratic()
    if way == "rows":
        quadratic = operator_quadratic(ArrayRows([Batch(X * units, y, u)], 20), None)
    repeats = 10 if way in ("many", "krylov") else 1
    for solution in path(quadratic, [ElasticNet(l1, 0.0)] * repeats, tol=1e-6, max_iter=5000):
        certificate = solution.certificate
        violation, objective = violations(
            *long_quadratic(X * units, y, u), ElasticNet(l1, 0.0), solution.w
        )
        assert certificate.reason == "converged"
        assert violation.max() <= certificate.kkt
        assert float(objective) == pytest.approx(float(least), abs=1e-5)


def test_units_leave_the_certificate_as_it_is():
    X, y, u = made(0.0)
    units = 2.0 ** np.arange(-20, 20, 5)
    for penalty in (ElasticNet(0.0, 0.1), ElasticNet(0.02, 0.1)):
        ours, theirs = (
            solve(PairMoments.of(X * s, y, u).quadratic(s), penalty, tol=1e-6, max_iter=1000)
            for s in (np.ones(8), units)
        )
        assert ours.certificate == theirs.certificate
        np.testing.assert_array_equal(ours.w, theirs.w)


def with_eigenvalue(value, d=40, seed=3):
    """A quadratic with one negative eigenvalue, in a direction that mu hardly has."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    values = np.geomspace(1, 1e-3, d)
    mu = Q[:, :-1] @ (values[:-1] * rng.normal(size=d - 1)) / d
    values[-1] = value
    Sigma = (Q * values) @ Q.T
    return Quadratic(SymmetricTiles.of((Sigma + Sigma.T) / 2), mu + 1e-9 * Q[:, -1])


@pytest.mark.parametrize("value", [-140.0, -1e-6])
@pytest.mark.parametrize("way", ["one", "many", "krylov", "sparse"])
@pytest.mark.parametrize("l2", [0.0, 1e-3, 200.0])
def test_no_matrix_with_negative_curvature_is_certified(value, way, l2, monkeypatch, caplog):
    quadratic = with_eigenvalue(value)
    if way == "krylov":
        # A space of few steps, which is all that a strong penalty takes, sees large ones only.
        l2 = min(l2, 1e-3) if value > -1 else l2
        large(monkeypatch, direct=False)
    penalty = ElasticNet(0.01 if way == "sparse" else 0.0, l2)
    repeats = 8 if way in ("many", "krylov") else 1
    for solution in path(quadratic, [penalty] * repeats, tol=1e-6, max_iter=1000):
        assert solution.certificate.reason == "indefinite"
        assert solution.certificate.gap == np.inf
    with pytest.raises(ConvergenceError, match="negative curvature"):
        solution.checked("raise")
    solution.checked("warn")
    assert "negative curvature" in caplog.text


@pytest.mark.parametrize("way", ["steps", "sparse"])
def test_negative_curvature_is_seen_in_the_directions_taken(way, monkeypatch):
    large(monkeypatch, direct=False)
    quadratic = with_eigenvalue(-140.0)
    Sigma = quadratic.Sigma.toarray()
    quadratic = Quadratic(quadratic.Sigma, Sigma @ np.random.default_rng(0).normal(size=40))
    penalty = ElasticNet(0.01 if way == "sparse" else 0.0, 1e-3)
    solution = solve(quadratic, penalty, tol=1e-6, max_iter=1000)
    assert solution.certificate.reason == "indefinite"


def test_rounding_is_no_negative_curvature():
    """Rank deficient, ill conditioned, of many rows: eigenvalues of -1e-16 come of rounding."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(4000, 30)) * np.geomspace(1, 1e-6, 30) @ rng.normal(size=(30, 200))
    y = X[:, 0] > 0
    moments = PairMoments.of(X, y)
    for scale in (None, moments.columns().standard_deviation()):
        quadratic = moments.quadratic(scale)
        assert np.linalg.eigvalsh(quadratic.Sigma.toarray())[0] < 0
        for solution in path(
            quadratic,
            [ElasticNet(0.0, 0.1 * 10.0**-k) for k in range(8)],
            tol=1e-6,
            max_iter=1000,
        ):
            assert solution.certificate.reason == "converged"
