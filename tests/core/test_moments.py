"""Pair moments against all pairs, one by one, and under large offsets."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments import tiles
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import DataError
from spark_auc.solvers.path import solve


def all_pairs(X, y, u):
    """Weighted mean of D and D D' by forming every pair."""
    mu, Sigma, total = 0.0, 0.0, 0.0
    for i in np.flatnonzero(y):
        for j in np.flatnonzero(~y):
            D = X[i] - X[j]
            mu = mu + u[i] * u[j] * D
            Sigma = Sigma + u[i] * u[j] * np.outer(D, D)
            total += u[i] * u[j]
    return mu / total, Sigma / total


def rows(seed, n=60, d=7, density=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    X[:, 0] += 3.0
    y = rng.random(n) < 0.3
    y[:2] = True, False
    return X, y, rng.uniform(0.1, 4.0, n)


def assert_close_sigma(found, expected, rtol=1e-12):
    size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert (np.abs(found - expected) <= rtol * size + 1e-300).all()


@pytest.fixture(params=[512, 3], ids=["one tile", "many tiles"])
def tile_side(request, monkeypatch):
    monkeypatch.setattr(tiles, "LARGEST_TILE", request.param)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("tile_side")
def test_sigma_and_mu_are_those_of_all_pairs(form, weighted):
    X, y, u = rows(1)
    u = u if weighted else np.ones(len(y))
    mu, Sigma = all_pairs(X, y, u)
    moments = PairMoments.zero(X.shape[1])
    for part in np.array_split(np.arange(len(y)), 5):
        moments = moments.update(form(X[part]), y[part], u[part] if weighted else None)
    quadratic = moments.quadratic()
    assert_close_sigma(quadratic.Sigma.toarray(), Sigma)
    np.testing.assert_allclose(quadratic.mu, mu, rtol=1e-12, atol=1e-13)


@pytest.mark.usefixtures("tile_side")
def test_fold_of_many_batches_equals_one_batch():
    X, y, u = rows(2, n=4000)
    parts = np.array_split(np.arange(len(y)), 100)
    for form in (np.asarray, sparse.csr_matrix):
        one = PairMoments.of(form(X), y, u).quadratic()
        many = PairMoments.fold(
            (Batch(form(X[p]), y[p], u[p]) for p in parts), X.shape[1]
        ).quadratic()
        assert_close_sigma(many.Sigma.toarray(), one.Sigma.toarray())


def test_scaled_quadratic_and_standard_deviation():
    X, y, u = rows(3)
    s = np.sqrt(np.average((X - np.average(X, axis=0, weights=u)) ** 2, axis=0, weights=u))
    moments = PairMoments.of(X, y, u)
    # A row of weight 2 is a row twice.
    n = max(len(y), u.sum())
    np.testing.assert_allclose(moments.columns().standard_deviation(), s * np.sqrt(n / (n - 1)))
    mu, Sigma = all_pairs(X / s, y, u)
    quadratic = moments.quadratic(s)
    assert_close_sigma(quadratic.Sigma.toarray(), Sigma)
    np.testing.assert_allclose(quadratic.mu, mu, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("batch", [1, 7, 500])
def test_objective_is_stable_under_a_large_offset(form, batch):
    X, y, u = rows(4, n=500)
    w = np.random.default_rng(0).normal(size=X.shape[1])
    values = []
    for offset in (0.0, 1e6):
        moved = form(X + offset)
        moments = PairMoments.fold(
            (
                Batch(moved[i : i + batch], y[i : i + batch], u[i : i + batch])
                for i in range(0, 500, batch)
            ),
            X.shape[1],
        )
        quadratic = moments.quadratic()
        values.append(quadratic.value(w, quadratic.Sigma.matvec(w)) + ElasticNet(0.1, 0.1).value(w))
    assert abs(values[1] / values[0] - 1) < 1e-6


def test_variance_along_a_direction():
    X, y, u = rows(5)
    w = np.arange(X.shape[1], dtype=float)
    moments = PairMoments.of(X, y, u).positive
    s = (X @ w)[y]
    expected = np.average((s - np.average(s, weights=u[y])) ** 2, weights=u[y])
    assert moments.variance_along(w) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(moments.mean, np.average(X[y], axis=0, weights=u[y]), rtol=1e-12)


def test_a_constant_column_has_no_scale():
    X, y, _ = rows(6)
    X[:, 2] = 1e6 + 0.1
    assert PairMoments.of(X, y).columns().standard_deviation()[2] == 1.0


def test_sparse_rows_stay_sparse():
    rng = np.random.default_rng(7)
    X = sparse.random(5000, 200, 0.01, "csr", random_state=rng)
    y = rng.random(5000) < 0.5
    moments = PairMoments.fold(
        (Batch(X[i : i + 50], y[i : i + 50]) for i in range(0, X.shape[0], 50)), 200
    )
    co_occur = ((X != 0).T.astype(int) @ (X != 0)).toarray() > 0
    assert (moments.positive.tiles[0].gram[~co_occur] == 0).all()


def test_dimension_and_class_errors():
    X, y, _ = rows(8)
    with pytest.raises(DataError, match=r"found vectors of 3 features, expected 7"):
        PairMoments.fold([Batch(X, y), Batch(X[:, :3], y)], 7)
    with pytest.raises(DataError, match="0 positive and 60 negative rows"):
        PairMoments.of(X, np.zeros(60, bool)).quadratic()
    small, large = PairMoments.of(X[:10], y[:10]), PairMoments.of(X, y)
    with pytest.raises(DataError, match="to subtract"):
        small.subtract(large)


@pytest.mark.usefixtures("tile_side")
def test_sparse_and_dense_batches_mix():
    X, y, u = rows(9)
    X[:, 4:] *= np.random.default_rng(1).random((60, 3)) < 0.2
    forms = [sparse.csr_matrix, np.asarray, sparse.csr_array, np.asarray]
    for turned in (forms, forms[::-1]):
        parts = zip(turned, np.array_split(np.arange(60), 4), strict=True)
        folded = PairMoments.fold((Batch(form(X[p]), y[p], u[p]) for form, p in parts), 7)
        assert_close_sigma(folded.quadratic().Sigma.toarray(), all_pairs(X, y, u)[1])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("offset", [1e8, 1e9, 1.7e9, 1e12])
def test_columns_far_from_0_are_solved_as_precisely_as_their_values(form, offset):
    """The oracle has the same values, from which the offset is subtracted without rounding."""
    X, y, u = rows(12, n=400)
    X[:, :2] = np.random.default_rng(1).normal(size=(400, 2)) + y[:, None]
    X[:, 0] += offset
    centred = X.copy()
    centred[:, 0] -= offset
    parts = np.array_split(np.arange(400), 3)
    found, expected = (
        PairMoments.fold((Batch(form(Z[p]), y[p], u[p]) for p in parts), 7) for Z in (X, centred)
    )
    scale = found.columns().standard_deviation()
    found, expected = found.quadratic(scale), expected.quadratic(scale)
    assert_close_sigma(found.Sigma.toarray(), expected.Sigma.toarray())
    np.testing.assert_allclose(found.mu, expected.mu, rtol=0, atol=1e-13)
    solution = solve(found, ElasticNet(0.0, 0.1), tol=1e-9, max_iter=100)
    assert solution.converged
    assert solution.certificate.kkt < 1e-12
