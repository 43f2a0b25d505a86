"""Head and low-rank moments against dense matrices and loops over rows."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.head_moments import HeadAccumulator, HeadMatrix, largest_columns
from spark_auc.core.moments.low_rank_moments import FactoredMatrix, LowRankAccumulator
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.noise import fill_normal
from spark_auc.errors import DataError
from spark_auc.solvers.path import path, solve

N, D, RANK, SEED = 400, 30, 6, 3
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, D)) @ RNG.normal(size=(D, D)) * np.geomspace(3, 0.05, D)
X[RNG.random((N, D)) < 0.4] = 0.0
X[:, 7] += 20.0
X[:, 11] = 0.0
Y, U = RNG.random(N) < 0.3, RNG.uniform(0.5, 2.0, N)
KEYS = RNG.integers(0, 2**63, N).astype(np.uint64)
HEAD = np.array([0, 2, 3, 7, 12, 29])
FORMS = {"dense": np.asarray, "sparse": sparse.csr_matrix}
each_form = pytest.mark.parametrize("form", FORMS)


def rows(numbers=slice(None), form="dense", weight=U):
    return Batch(FORMS[form](X[numbers]), Y[numbers], weight[numbers], KEYS[numbers])


def head_moments(numbers=slice(None), form="dense", head=HEAD):
    made = HeadAccumulator(D, head)
    made.add(rows(numbers, form))
    return made.finish()


def low_rank_moments(numbers=slice(None), form="dense", weight=U, seed=SEED):
    made = LowRankAccumulator(D, RANK, seed)
    made.add(rows(numbers, form, weight))
    return made.finish()


def class_covariances():
    """Mean and covariance of each class, the positive one first."""
    return [
        (np.average(X[own], axis=0, weights=U[own]), np.cov(X[own].T, aweights=U[own], ddof=0))
        for own in (Y, ~Y)
    ]


def check_matrix(Sigma, expected):
    """All operations of a matrix."""
    size = np.abs(expected).max()
    V = np.random.default_rng(0).normal(size=(D, 4))
    assert Sigma.dimension == D
    for found, wanted in (
        (Sigma.matmat(V), expected @ V),
        (Sigma.matvec(V[:, 0]), expected @ V[:, 0]),
        (Sigma.diagonal(), np.diag(expected)),
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11 * size)
    for features in (np.arange(D), np.array([1, 2, 3, 12, 28]), HEAD, np.array([5])):
        part = Sigma.restricted(features)
        assert isinstance(part, SymmetricTiles)
        wanted = expected[np.ix_(features, features)]
        np.testing.assert_allclose(part.toarray(), wanted, rtol=0, atol=1e-11 * size)


@each_form
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("head", [HEAD, np.arange(D), np.arange(0)], ids=["some", "all", "none"])
def test_the_head_is_exact_and_the_tail_its_diagonal(form, scaled, head):
    moments = head_moments(form=form, head=head)
    scale = np.linspace(0.5, 2.0, D) if scaled else None
    quadratic = moments.quadratic(scale)
    (c_p, C_p), (c_n, C_n) = class_covariances()
    mask = np.eye(D, dtype=bool)
    mask[np.ix_(head, head)] = True
    mu = (c_p - c_n) / (1.0 if scale is None else scale)
    C = (C_p + C_n) * mask / (1.0 if scale is None else np.outer(scale, scale))
    np.testing.assert_allclose(quadratic.mu, mu, atol=1e-12 * np.abs(mu).max())
    assert isinstance(quadratic.Sigma, HeadMatrix)
    check_matrix(quadratic.Sigma, C + np.outer(mu, mu))
    share = np.diag(C + np.outer(mu, mu))
    facts = moments.facts(scale)
    assert facts["headSize"] == head.size
    assert facts["exactTraceShare"] == pytest.approx(share[head].sum() / share.sum(), rel=1e-9)


def test_a_head_of_all_columns_is_the_matrix_of_all_pairs():
    found = head_moments(head=np.arange(D)).quadratic()
    exact = PairMoments.of(X, Y, U).quadratic()
    penalties = [ElasticNet(0.0, l2) for l2 in (1e-3, 1e-1, 10.0)] + [ElasticNet(0.05, 0.1)]
    for penalty in penalties:
        mine, theirs = (solve(q, penalty, tol=1e-8, max_iter=5000) for q in (found, exact))
        assert mine.converged
        np.testing.assert_allclose(mine.w, theirs.w, atol=1e-6 * np.abs(theirs.w).max())


@pytest.mark.parametrize("kind", ["head", "lowRank"])
def test_solutions_are_those_of_the_dense_matrix(kind):
    moments = head_moments() if kind == "head" else low_rank_moments()
    scale = moments.divisors()
    quadratic = moments.quadratic(scale)
    dense = quadratic.Sigma.matmat(np.eye(D))
    factors = np.geomspace(1e-4, 10.0, 9)
    for l2, solution in zip(
        factors,
        path(quadratic, [ElasticNet(0.0, l2) for l2 in factors], tol=1e-8, max_iter=1000),
        strict=True,
    ):
        assert solution.converged
        expected = np.linalg.solve(dense + l2 * np.eye(D), quadratic.mu)
        np.testing.assert_allclose(solution.w, expected, atol=1e-6 * np.abs(expected).max())


def test_merged_heads_keep_the_columns_of_both(caplog):
    other = np.array([2, 3, 5, 29])
    with caplog.at_level("INFO", "spark_auc"):
        found = head_moments(slice(0, 250)).merge(head_moments(slice(250, None), head=other))
    assert "merging heads of 6 and 4 columns: the state keeps the 3 columns of both" in caplog.text
    expected = head_moments(head=np.array([2, 3, 29]))
    np.testing.assert_array_equal(found.head, expected.head)
    np.testing.assert_allclose(
        found.quadratic().Sigma.matmat(np.eye(D)), expected.quadratic().Sigma.matmat(np.eye(D))
    )


def test_the_largest_columns_have_the_largest_second_moments():
    second = (U[:, None] * X**2).sum(axis=0)
    columns = ColumnMoments.of(rows())
    np.testing.assert_array_equal(largest_columns(columns, 5), np.sort(np.argsort(-second)[:5]))
    # The column of zeros is in no head; equal columns come in their order.
    assert 11 not in largest_columns(columns, D)
    equal = ColumnMoments.of(Batch(np.eye(6), np.arange(6) < 3))
    np.testing.assert_array_equal(largest_columns(equal, 4), np.arange(4))


def test_divisors_of_a_head_are_at_least_its_median():
    moments = head_moments()
    deviation = moments.columns.standard_deviation()
    expected = np.maximum(deviation, np.median(deviation[HEAD]))
    np.testing.assert_array_equal(moments.divisors(), expected)


def sketched():
    """The sums of each class, row by row."""
    Z, s = np.zeros((2, D, RANK)), np.zeros((2, RANK))
    for i in range(N):
        r = np.empty(RANK)
        fill_normal(SEED, KEYS[i], r)
        r *= np.sqrt(U[i] / RANK)
        Z[0 if Y[i] else 1] += np.outer(X[i], r)
        s[0 if Y[i] else 1] += r
    return Z, s


@each_form
def test_sketches_are_those_of_a_loop(form):
    moments = low_rank_moments(form=form)
    Z, s = sketched()
    np.testing.assert_allclose(moments.sketch, Z, atol=1e-10)
    np.testing.assert_allclose(moments.sums, s, atol=1e-10)
    (c_p, _), (c_n, _) = class_covariances()
    mu = c_p - c_n
    expected = np.outer(mu, mu)
    for k, (c, own) in enumerate(((c_p, Y), (c_n, ~Y))):
        A = Z[k] - np.outer(c, s[k])
        expected += A @ A.T / U[own].sum()
    quadratic = moments.quadratic()
    assert isinstance(quadratic.Sigma, FactoredMatrix)
    check_matrix(quadratic.Sigma, expected)
    assert moments.facts(None) == {"covarianceRank": RANK, "exactTraceShare": 0.0}


def test_the_expectation_of_sketches_is_the_covariance():
    (c_p, C_p), (c_n, C_n) = class_covariances()
    exact = C_p + C_n + np.outer(c_p - c_n, c_p - c_n)
    draws = [low_rank_moments(seed=s).quadratic().Sigma.matmat(np.eye(D)) for s in range(300)]
    error = np.linalg.norm(np.mean(draws, axis=0) - exact)
    one = np.sqrt(np.mean([np.linalg.norm(draw - exact) ** 2 for draw in draws]))
    assert error < 1.5 * one / np.sqrt(300)
    # The size of the noise that its formula gives.
    noise = sum(np.trace(C @ C) + np.trace(C) ** 2 for C in (C_p, C_n)) / RANK
    assert one == pytest.approx(np.sqrt(noise), rel=0.15)


def test_sketches_scale_and_refuse_others():
    whole = low_rank_moments()
    scaled, weighted = whole.scale(0.3), low_rank_moments(weight=0.3 * U)
    for name in ("sketch", "sums"):
        np.testing.assert_allclose(getattr(scaled, name), getattr(weighted, name), atol=1e-10)
    np.testing.assert_allclose(scaled.columns.variance, weighted.columns.variance, rtol=1e-9)
    with pytest.raises(DataError, match="a sketch of rank 6 and seed 4, expected rank 6 and seed"):
        whole.merge(low_rank_moments(seed=4))


@pytest.mark.parametrize("made", [head_moments, low_rank_moments])
def test_one_class_has_no_quadratic(made):
    with pytest.raises(DataError, match=r"found [1-9]\d+ positive and 0 negative rows"):
        made(np.flatnonzero(Y)).quadratic()
