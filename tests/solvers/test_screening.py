"""Solvers on rows instead of a matrix, against the same solvers on the matrix."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.operator import column_moments, operator_quadratic, pair_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows, batchwise, rows_where
from spark_auc.solvers import screening
from spark_auc.solvers.path import path, solve


def made(form, n=400, d=60, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)
    X[:, 0] += 2.0
    y = rng.random(n) < 0.3
    X[y, :5] += 0.5
    u = rng.uniform(0.5, 2, n)
    cuts = (0, 1, 150, n)
    batches = [Batch(form(X[a:b]), y[a:b], u[a:b]) for a, b in itertools.pairwise(cuts)]
    return ArrayRows(batches, d)


FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])


@FORMS
@pytest.mark.parametrize("scaled", [False, True])
def test_the_operator_is_the_matrix(form, scaled):
    rows = made(form)
    moments = pair_moments(rows)
    scale = moments.columns().standard_deviation() if scaled else None
    matrix, operator = moments.quadratic(scale), operator_quadratic(rows, scale)
    np.testing.assert_allclose(operator.mu, matrix.mu, atol=1e-13)
    full = matrix.Sigma.toarray()
    rng = np.random.default_rng(0)
    for v in rng.normal(size=(3, rows.dimension)):
        np.testing.assert_allclose(operator.Sigma.matvec(v), full @ v, atol=1e-11)
    np.testing.assert_allclose(operator.Sigma.diagonal(), full.diagonal(), atol=1e-12)
    some_features = np.array([7, 2, 50])
    np.testing.assert_allclose(
        operator.Sigma.restricted(some_features).toarray(),
        full[np.ix_(some_features, some_features)],
        atol=1e-12,
    )


@FORMS
def test_column_moments_are_those_of_the_matrix(form):
    rows = made(form)
    ours, theirs = column_moments(rows), pair_moments(rows).columns()
    for name in ("rows", "weight", "mean", "scatter"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-10)
    np.testing.assert_allclose(ours.standard_deviation(), theirs.standard_deviation())


def test_column_moments_under_a_large_offset():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(500, 3)), rng.random(500) < 0.4
    plain = ColumnMoments.fold([Batch(X, y)], 3).standard_deviation()
    for form in (np.asarray, sparse.csr_matrix):
        moved = [Batch(form(X[i::7] + 1e6), y[i::7]) for i in range(7)]
        np.testing.assert_allclose(
            ColumnMoments.fold(moved, 3).standard_deviation(), plain, rtol=1e-9
        )


@FORMS
@pytest.mark.parametrize("l2", [1e-3, 0.3])
def test_ridge_without_a_matrix(form, l2, monkeypatch):
    monkeypatch.setattr("spark_auc.solvers.ridge.LARGEST_FACTORISED", 0)
    monkeypatch.setattr("spark_auc.solvers.ridge._BLOCK", 8)
    rows = made(form)
    operator, matrix = operator_quadratic(rows, None), pair_moments(rows).quadratic()
    ours = solve(operator, ElasticNet(0.0, l2), tol=1e-10, max_iter=500)
    exact = np.linalg.solve(matrix.Sigma.toarray() + l2 * np.eye(rows.dimension), matrix.mu)
    assert ours.certificate.reason == "converged"
    np.testing.assert_allclose(ours.w, exact, atol=1e-7)


def test_columns_of_half_the_trace_precondition_passes(monkeypatch):
    monkeypatch.setattr("spark_auc.solvers.ridge.LARGEST_FACTORISED", 0)
    monkeypatch.setattr("spark_auc.solvers.ridge._BLOCK", 2)
    monkeypatch.setattr("spark_auc.solvers.ridge._WIDE_BLOCK", 10)
    # As if the rows were elsewhere.
    monkeypatch.setattr("spark_auc.solvers.ridge.ArrayRows", type(None))
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(400, 20)), rng.random(400) < 0.3
    X[:, :10] = 3.0 * X[:, :10] @ rng.normal(size=(10, 10))
    passes = {}
    for scale in (None, X.std(axis=0)):
        rows = ArrayRows([Batch(X, y)], 20)
        operator = operator_quadratic(rows, scale)
        found = []
        for worth in (0.8, 1.1):
            monkeypatch.setattr("spark_auc.solvers.ridge._WORTH_IT", worth)
            solution = solve(operator, ElasticNet(0.0, 1e-3), tol=1e-9, max_iter=500)
            assert solution.converged
            found.append(solution.certificate.iterations)
        passes[scale is None] = found
    assert passes[True][0] < passes[True][1]
    # Columns of equal variance: the block is the small one in both.
    assert passes[False][0] == passes[False][1]


@FORMS
def test_screened_path_is_the_path_on_the_matrix(form, monkeypatch):
    monkeypatch.setattr(screening, "_FEWEST_ENTERING", 4)
    rows = made(form)
    operator, matrix = operator_quadratic(rows, None), pair_moments(rows).quadratic()
    penalties = [
        ElasticNet(share * matrix.lambda1_max, 1e-3) for share in (1.0, 0.5, 0.2, 0.05, 0.01)
    ]
    ours = list(path(operator, penalties, tol=1e-9, max_iter=10_000))
    theirs = list(path(matrix, penalties, tol=1e-9, max_iter=10_000))
    assert not ours[0].w.any()
    for a, b in zip(ours, theirs, strict=True):
        assert a.certificate.reason == "converged"
        assert a.certificate.kkt <= a.certificate.tolerance
        np.testing.assert_allclose(a.w, b.w, atol=1e-6)
        assert a.certificate.objective == pytest.approx(b.certificate.objective, abs=1e-12)
    alone = solve(operator, penalties[-1], tol=1e-9, max_iter=10_000)
    np.testing.assert_allclose(alone.w, ours[-1].w, atol=1e-6)


def test_what_screening_leaves_out_wrongly_comes_back(monkeypatch):
    """Even where each round lets in but one feature."""
    monkeypatch.setattr(screening, "_FEWEST_ENTERING", 1)
    rows = made(np.asarray, d=12)
    operator, matrix = operator_quadratic(rows, None), pair_moments(rows).quadratic()
    penalty = ElasticNet(0.02 * matrix.lambda1_max, 0.0)
    ours = solve(operator, penalty, tol=1e-9, max_iter=10_000)
    theirs = solve(matrix, penalty, tol=1e-9, max_iter=10_000)
    np.testing.assert_allclose(ours.w, theirs.w, atol=1e-6)


def test_screening_that_is_cut_short_says_so():
    quadratic = operator_quadratic(made(np.asarray), None)
    found = solve(quadratic, ElasticNet(0.01 * quadratic.lambda1_max, 0.0), tol=1e-12, max_iter=1)
    assert found.certificate.reason == "maxIter"


def test_changed_rows():
    rows = made(sparse.csr_matrix)
    half = rows.changed(rows_where(lambda batch: batch.keys() % 2 == 0))
    other = rows.changed(rows_where(lambda batch: batch.keys() % 2 == 1))
    whole = pair_moments(half).merge(pair_moments(other))
    expected = PairMoments.fold(rows.batches, rows.dimension).quadratic().Sigma.toarray()
    np.testing.assert_allclose(whole.quadratic().Sigma.toarray(), expected, atol=1e-12)
    one = rows.changed(batchwise(lambda batch: batch._replace(X=batch.X[:, :1])), 1)
    assert column_moments(one).mean.shape == (2, 1)
