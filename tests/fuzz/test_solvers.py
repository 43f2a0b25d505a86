"""Certificates of random quadratics, against the rows in extended precision and scikit-learn."""

from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Lasso

from spark_auc.core.batch import Batch
from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.moments.operator import operator_quadratic, pair_moments
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.row_source import ArrayRows
from spark_auc.solvers import path as path_module
from spark_auc.solvers import ridge as ridge_module
from spark_auc.solvers import ridge_path
from spark_auc.solvers.path import path
from tests.fuzz.inputs import inputs
from tests.solvers.rows import long_quadratic, violations

pytestmark = pytest.mark.fuzz

TOL = 1e-6
WAYS = ["one", "many", "steps", "krylov"]
SEEN = Counter()


def made(rng):
    """Rows: deficient, ill conditioned, of columns far from 0, rare, equal, empty, of any unit."""
    d, n = int(rng.integers(1, 13)), int(rng.integers(4, 60))
    X = rng.normal(size=(n, d)) @ (
        np.eye(d) + rng.choice([0.0, 0.3, 3.0]) * rng.normal(size=(d, d))
    )
    spread = rng.choice([0.0, 2.0, 6.0])
    if spread:
        X = X * np.geomspace(1, 10**-spread, d) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    y = rng.random(n) < rng.choice([0.1, 0.5])
    y[:2] = True, False
    X[y] += rng.choice([0.0, 0.5, 3.0]) * rng.normal(size=d) * X.std(axis=0)
    if rng.random() < 0.3:
        X[rng.random((n, d)) < 0.7] = 0.0
    if rng.random() < 0.3:
        X = X.round(1)
    if rng.random() < 0.3:
        X[:, rng.integers(d)] = X[:, rng.integers(d)]
    if rng.random() < 0.3:
        X[:, rng.integers(d)] = 0.0
    if rng.random() < 0.3:
        X += 10.0 ** rng.integers(0, 7) * (X != 0)
    units = 10.0 ** rng.uniform(-8, 8, d) if rng.random() < 0.4 else np.ones(d)
    weight = rng.uniform(0.1, 3.0, n) if rng.random() < 0.5 else None
    return X * units, y, weight


def penalty_of(rng, quadratic):
    """None, one of both, or both, from far too weak to far too strong."""
    l1 = quadratic.lambda1_max * 10.0 ** rng.uniform(-6, 0.3)
    l2 = float(np.abs(quadratic.diagonal).mean()) * 10.0 ** rng.uniform(-12, 2)
    return ElasticNet(*[(0.0, 0.0), (0.0, l2), (l1, 0.0), (l1, l2)][rng.integers(4)])


def solved(quadratic, penalty, way):
    """By what is done with few features, and with too many for that."""
    most = 0 if way in ("steps", "krylov") else 10_000
    with (
        mock.patch.object(path_module, "LARGEST_FACTORISED", most),
        mock.patch.object(ridge_module, "LARGEST_FACTORISED", most),
        mock.patch.object(ridge_module, "LARGEST_DIRECT", most),
        mock.patch.object(ridge_path, "LARGEST_DIRECT", most),
    ):
        # The same penalty again and again: a ridge then goes by what serves many.
        repeats = 7 if way in ("many", "krylov") else 1
        return list(path(quadratic, [penalty] * repeats, tol=TOL, max_iter=2000))[-1]


def by_scikit_learn(Sigma, mu, penalty, units):
    """The same objective as a lasso on a root of ``Sigma + l2 I``, in columns of unit curvature."""
    matrix = (Sigma + penalty.l2 * np.eye(len(mu))) / np.outer(units, units)
    values, vectors = np.linalg.eigh(matrix)
    keep = values > 1e-13 * values.max()
    root = np.sqrt(values[keep])
    b = (vectors[:, keep].T @ (mu / units)) / root
    # One l1 factor for each column: a column of another unit.
    A = root[:, None] * vectors[:, keep].T * units
    model = Lasso(alpha=penalty.l1 / len(b), fit_intercept=False, tol=1e-10, max_iter=20_000)
    return model.fit(A, b).coef_


@inputs(2000)
@given(st.integers(0, 2**63 - 1), st.sampled_from(WAYS), st.booleans())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_certificate_is_never_better_than_the_rows(seed, way, in_rows):
    rng = np.random.default_rng(seed)
    X, y, weight = made(rng)
    shape = sparse.csr_matrix if rng.random() < 0.5 else np.asarray
    rows = ArrayRows([Batch(shape(X), y, weight)], X.shape[1])
    quadratic = operator_quadratic(rows, None) if in_rows else pair_moments(rows).quadratic()
    penalty = penalty_of(rng, quadratic)
    solution = solved(quadratic, penalty, way)
    c = solution.certificate
    SEEN[c.reason] += 1
    assert c.reason != "indefinite"
    assert np.isfinite(solution.w).all()
    Sigma, mu = long_quadratic(X, y, weight)
    violation, objective = violations(Sigma, mu, penalty, solution.w)
    assert violation.max(initial=0.0) <= c.kkt
    assert abs(float(objective) - c.objective) <= max(c.gap, 1e-9) if np.isfinite(c.gap) else True
    if penalty.l1 and X.shape[1] > 1:
        units = quadratic.units(penalty)
        theirs = by_scikit_learn(Sigma.astype(float), mu.astype(float), penalty, units)
        least = violations(Sigma, mu, penalty, theirs)[1]
        assert float(objective - least) <= c.gap


@inputs(500)
@given(st.integers(0, 2**63 - 1), st.sampled_from(WAYS))
def test_negative_curvature_is_never_certified(seed, way):
    """A direction of curvature -1e-9 to -100, beside others from 1 down to 1e-6."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 30))
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    values = np.geomspace(1, 1e-6, d)
    values[rng.integers(d)] = -(10.0 ** rng.uniform(-9, 2))
    Sigma = (Q * values) @ Q.T
    quadratic = Quadratic(SymmetricTiles.of((Sigma + Sigma.T) / 2), Sigma @ rng.normal(size=d))
    few_steps = way in ("steps", "krylov")
    if few_steps and values.min() > -1e-3:
        return
    # Many features are not looked at as a whole; without a penalty all directions are met.
    penalty = ElasticNet(0.0, 0.0) if few_steps else penalty_of(rng, quadratic)
    assert solved(quadratic, penalty, way).certificate.reason != "converged"


def test_most_are_solved():
    """What the inputs above came to; a solver that gives up certifies nothing wrong either."""
    assert SEEN["converged"] >= 0.9 * sum(SEEN.values())
