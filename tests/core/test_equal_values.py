"""Rows of few distinct values, whose equal products are all rounded in one direction.

The oracle counts equal rows and works on the distinct ones, in extended precision.
"""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.operator import operator_quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.solvers.path import solve
from tests.core.frames import counted_pairs, exact_pairs
from tests.data import libsvm
from tests.stored import of_version

EPS = float(np.finfo(float).eps)
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])


def one_hot(n, values, seed=0, d=2):
    """Rows with one value each, drawn from ``values``."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, d))
    X[np.arange(n), rng.integers(0, d, n)] = rng.choice(values, n)
    return X, rng.random(n) < 0.3


def errors(moments, X, y, u=None):
    """Errors of ``Sigma`` and ``mu`` in units of its deviations, and as shares of their bounds."""
    mu, Sigma = counted_pairs(X, y, u)
    root = np.sqrt(np.diag(Sigma).astype(float))
    found = moments.quadratic()
    of_sigma = np.abs(found.Sigma.toarray() - Sigma).astype(float) / np.outer(root, root)
    of_mu = np.abs(found.mu - mu).astype(float) / root
    blur = np.sqrt(np.outer(found.blur, found.blur))
    return of_sigma.max(), (of_sigma / blur).max(), (of_mu / found.mu_rounding).max()


@FORMS
@pytest.mark.parametrize("values", [[0.1], [0.1, 0.3], [0.1, 0.2, 0.7]])
def test_the_error_of_sigma_does_not_grow_with_the_rows(form, values):
    X, y = one_hot(100_000, values)
    parts = np.array_split(np.arange(len(y)), 7)
    whole = PairMoments.fold((Batch(form(X[p]), y[p]) for p in parts), 2)
    apart = PairMoments.zero(2)
    for p in parts:
        apart = apart.merge(PairMoments.of(form(X[p]), y[p]))
    for moments in (whole, apart, whole.scale(1 / 3)):
        error, of_bound, mu_of_bound = errors(moments, X, y)
        assert error < 100 * EPS
        assert of_bound < 1
        assert mu_of_bound < 1


def test_a_column_of_one_value_is_an_exact_count():
    X, y = one_hot(100_000, [0.1], d=600)
    moments = PairMoments.of(sparse.csr_matrix(X), y)
    counts = np.count_nonzero(X[y], axis=0)
    tiles = [moments.positive.tiles[k] for k in (0, 2)]
    found = np.concatenate([t.gram.diagonal() for t in tiles])[:600]
    np.testing.assert_allclose(found, counts * 0.01, rtol=2 * EPS)
    some = np.arange(6)
    assert errors(moments.of_columns(some), X[:, some], y)[0] < 8 * EPS


def test_a_value_that_comes_late_ends_the_counts(monkeypatch):
    """In a later batch: another value, values of dense rows, or a column that all rows store."""
    from spark_auc.core.moments import accumulator

    monkeypatch.setattr(accumulator, "_LEAST", 1)
    monkeypatch.setattr(accumulator, "_MOST", 1)
    rng = np.random.default_rng(3)
    n, d = 400, 600
    y = rng.random(n) < 0.4
    X = (rng.random((n, d)) < 0.1) * rng.choice([0.1, 0.3, 1.0, 1e-150], d)
    X[200:, 5] *= 3.0
    X[300:, 7:9] = 0.7
    X[:100, 9] = 0.1
    for dense in (None, 0, 3):
        forms = [sparse.csr_matrix] * 4
        if dense is not None:
            forms[dense] = np.asarray
        parts = zip(forms, np.split(np.arange(n), 4), strict=True)
        moments = PairMoments.fold((Batch(form(X[p]), y[p]) for form, p in parts), d)
        some = np.flatnonzero(np.abs(X).max(axis=0) > 1e-100)
        error, of_bound, mu_of_bound = errors(moments.of_columns(some), X[:, some], y)
        assert error < 100 * EPS
        assert max(of_bound, mu_of_bound) < 1


@pytest.mark.parametrize("penalty", [ElasticNet(0.0, 0.1), ElasticNet(0.05, 0.05)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("standardized", [False, True])
def test_sparse_rows_of_one_value_are_fitted_as_dense_rows_are(penalty, seed, standardized):
    """A column of one value in each of two categories: ``Sigma`` is singular."""
    X, y = one_hot(10_000, [0.1], seed)
    found = []
    for form in (np.asarray, sparse.csr_matrix):
        moments = PairMoments.of(form(X), y)
        scale = moments.columns().standard_deviation() if standardized else None
        solution = solve(moments.quadratic(scale), penalty, tol=1e-6, max_iter=1000)
        assert solution.converged
        found.append(solution.w)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


def test_unit_rows_of_ten_categories_are_fitted():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        n, d = 10_000, 50
        X = np.zeros((n, d))
        for k in range(10):
            X[np.arange(n), 5 * k + rng.integers(0, 5, n)] = 10**-0.5
        y = rng.random(n) < 0.3
        moments = PairMoments.of(sparse.csr_matrix(X), y)
        for penalty in (ElasticNet(0.0, 0.1), ElasticNet(0.01, 0.01)):
            assert solve(moments.quadratic(), penalty, tol=1e-6, max_iter=1000).converged


@pytest.mark.parametrize("weighted", [False, True])
def test_certificates_count_the_rounding_of_the_moments(weighted):
    """The residual with the exact ``Sigma`` and ``mu`` is at most that of the certificate."""
    X, y = one_hot(50_000, [0.1, 0.3], d=5)
    u = np.random.default_rng(0).choice([0.1, 0.7], len(y)) if weighted else None
    mu, Sigma = counted_pairs(X, y, u)
    for form in (np.asarray, sparse.csr_matrix):
        quadratic = PairMoments.of(form(X), y, u).quadratic()
        solution = solve(quadratic, ElasticNet(0.0, 1e-3), tol=1e-10, max_iter=1000)
        gradient = (Sigma @ solution.w - mu + 1e-3 * solution.w).astype(float)
        units = np.sqrt(np.diag(Sigma).astype(float) + 1e-3)
        assert np.abs(gradient / units).max() <= solution.certificate.kkt


@FORMS
def test_certificates_count_the_rounding_of_products_by_passes(form):
    """Sums of equal products row by row, without a matrix."""
    X, _ = one_hot(200_000, [0.1], d=2)
    y = np.random.default_rng(1).random(len(X)) < np.where(X[:, 0] > 0, 0.2, 0.6)
    mu, Sigma = counted_pairs(X, y)
    quadratic = operator_quadratic(ArrayRows([Batch(form(X), y)], 2), None)
    for l2 in (1e-3, 1e-2):
        solution = solve(quadratic, ElasticNet(0.0, l2), tol=1e-8, max_iter=100)
        assert solution.converged
        gradient = (Sigma @ solution.w - mu + l2 * solution.w).astype(float)
        units = np.sqrt(np.diag(Sigma).astype(float) + l2)
        assert np.abs(gradient / units).max() <= solution.certificate.kkt < 1e-9


@FORMS
def test_sums_of_single_columns(form):
    X, y = one_hot(100_000, [0.1, 0.3])
    mu, Sigma = counted_pairs(X, y)
    total = ColumnMoments.zero(2)
    for p in np.array_split(np.arange(len(y)), 7):
        total = total.merge(ColumnMoments.of(Batch(form(X[p]), y[p])))
    root = np.sqrt(np.diag(Sigma).astype(float))
    assert (np.abs(total.delta - mu) / root).max() < 20 * EPS
    spread = total.variance.sum(axis=0) + total.delta**2
    assert (np.abs(spread - np.diag(Sigma)) / root**2).max() < 20 * EPS
    assert (total.rounding < 1e-12 * total.scatter).all()


def test_tiles_of_version_1_have_the_error_of_sums_one_by_one():
    X, y = one_hot(1000, [0.1])
    tile = PairMoments.of(sparse.csr_matrix(X), y).positive.tiles[0]
    earlier = MomentsTile.from_bytes(of_version(tile.to_bytes(), 1))
    sums = 2 * EPS * tile.rows * tile.gram.diagonal()
    np.testing.assert_array_equal(earlier.rounding, tile.rounding + sums)
    np.testing.assert_array_equal(earlier.gram, tile.gram)


def test_scaled_a9a_is_fitted_at_every_penalty():
    """One-hot columns, each divided by its deviation: the usual benchmark."""
    X, labels = libsvm("a9a", 123)
    y = labels > 0
    deviation = X.toarray().std(axis=0, ddof=1)
    X = sparse.csr_matrix(X.multiply(1 / np.where(deviation > 0, deviation, 1.0)))
    moments = PairMoments.of(X, y)
    mu, Sigma = exact_pairs(X.toarray(), y)
    for scale in (None, moments.columns().standard_deviation()):
        quadratic = moments.quadratic(scale)
        for l2 in (1e-8, 1e-6, 1e-4, 1e-2, 0.5, 10.0):
            solution = solve(quadratic, ElasticNet(0.0, l2), tol=1e-6, max_iter=1000)
            assert solution.converged
            if scale is None:
                gradient = Sigma @ solution.w - mu + l2 * solution.w
                units = np.sqrt(np.diag(Sigma) + l2)
                assert float(np.abs(gradient / units).max()) <= solution.certificate.kkt
        for reg in (1e-2, 0.1, 0.5):
            penalty = ElasticNet.of(reg, 0.5)
            assert solve(quadratic, penalty, tol=1e-6, max_iter=1000).converged
