"""Columns that do not vary: exactly, for whatever weights, forms, merges and deletions."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments import tiles
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.operator import operator_quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import DataError
from spark_auc.solvers.path import solve
from spark_auc.training.stream_statistics import StreamStatistics

N, D = 2000, 5
RNG = np.random.default_rng(3)
Y = RNG.random(N) < 0.3
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.5) + Y[:, None] * [1.0, 0.5, 0, 0, 0]
FORMS = [np.asarray, sparse.csr_matrix]
WEIGHTS = [0.1, 1 / 3, 1e-3, 1e12]


def with_column(values):
    return np.column_stack([X, np.broadcast_to(values, N)])


@pytest.fixture(params=[512, 2], ids=["one tile", "many tiles"])
def tile_side(request, monkeypatch):
    monkeypatch.setattr(tiles, "LARGEST_TILE", request.param)


def cut(rows, u, form, size=300):
    parts = np.split(np.arange(N), range(size, N, size))
    return [Batch(form(rows[p]), Y[p], u[p]) for p in parts]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weight", [*WEIGHTS, "mixed"])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e6 + 0.1])
@pytest.mark.usefixtures("tile_side")
def test_a_constant_column_is_exactly_constant(form, weight, value):
    u = RNG.choice(WEIGHTS, N) if weight == "mixed" else np.full(N, weight)
    rows = with_column(value)
    parts = cut(rows, u, form)
    moments = PairMoments.fold(parts, D + 1)
    others = PairMoments.zero(D + 1)
    for part in parts:
        others = others.merge(PairMoments.of(*part[:3]).scale(0.3))
    for found in (moments, others):
        assert found.columns().standard_deviation()[D] == 1.0
        assert (found.columns().mean[:, D] == value).all()
        assert not found.columns().scatter[:, D].any()
        quadratic = found.quadratic()
        assert not quadratic.Sigma.toarray()[D].any()
        assert quadratic.mu[D] == 0.0
    for columns in (ColumnMoments.fold(parts, D + 1), ColumnMoments.of(Batch(form(rows), Y, u))):
        assert columns.standard_deviation()[D] == 1.0
        assert (columns.mean[:, D] == value).all()
    operator = operator_quadratic(ArrayRows(tuple(parts), D + 1), None)
    assert operator.Sigma.matvec(np.ones(D + 1))[D] == 0.0
    for quadratic in (moments.quadratic(), operator):
        solution = solve(quadratic, ElasticNet(0.0, 0.0), tol=1e-8, max_iter=100)
        assert solution.certificate.reason == "converged"
        assert solution.w[D] == 0.0


@pytest.mark.parametrize("form", FORMS)
def test_a_column_that_is_constant_in_each_class_separates_them(form):
    rows, u = with_column(np.where(Y, 0.3, 0.1)), np.full(N, 0.1)
    moments = PairMoments.fold(cut(rows, u, form), D + 1)
    assert moments.columns().varies().all()
    quadratic = moments.quadratic()
    assert quadratic.mu[D] == pytest.approx(0.2, rel=1e-14)
    assert quadratic.Sigma.diagonal()[D] == pytest.approx(0.04, rel=1e-14)
    share = Y.mean()
    exact = 0.2 * np.sqrt(share * (1 - share) * N / (N - 1))
    assert moments.columns().standard_deviation()[D] == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_variation_of_the_last_places_is_none(form):
    """Scores of such a column would be rounding; from 1e-6 of the values on it is variation."""
    for step, varies in ((np.spacing(1e8), False), (1e-6 * 1e8, True)):
        rows = with_column(1e8 + step * (np.arange(N) % 2))
        moments = PairMoments.fold(cut(rows, np.full(N, 0.1), form), D + 1)
        assert moments.columns().varies()[D] == varies
        assert bool(moments.quadratic().Sigma.toarray()[D].any()) == varies
        assert (moments.columns().standard_deviation()[D] == 1.0) != varies


@pytest.mark.parametrize("form", FORMS)
def test_a_light_row_is_no_variation(form):
    u = np.where(np.arange(N) == 7, 1e-300, 1.0)
    rows = with_column(np.where(np.arange(N) == 7, 0.0, 5.0))
    parts = cut(rows, u, form)
    moments = PairMoments.fold(parts, D + 1)
    for columns in (moments.columns(), ColumnMoments.fold(parts, D + 1)):
        assert not columns.varies()[D]
        assert columns.standard_deviation()[D] == 1.0
    assert not moments.quadratic().Sigma.toarray()[D].any()


def test_the_weight_of_few_absent_rows_is_no_difference():
    """All rows but one store 5: its weight is 1e-9 of theirs, which a difference loses."""
    u = RNG.uniform(0.5, 1.5, N)
    u[11], u[Y] = 1e-9, 1.0
    one = np.arange(N) == 11
    rows, y = sparse.csr_matrix(with_column(np.where(one, 0.0, 5.0))), Y & ~one
    columns = ColumnMoments.of(Batch(rows, y, u))
    share = 1e-9 / u[~y].sum()
    assert columns.variance[1, D] == pytest.approx(25 * share * (1 - share), rel=1e-9)


def test_columns_stored_in_two_parts_are_summed():
    X = sparse.csr_matrix(([1.0, 2.0, 3.0], [0, 0, 0], [0, 2, 3]), (2, 1))
    columns = ColumnMoments.of(Batch(X, np.array([True, True]), np.array([0.1, 0.7])))
    assert columns.mean[0, 0] == 3.0
    assert columns.scatter[0, 0] == 0.0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("tile_side")
def test_a_column_that_is_constant_outside_one_fold(form):
    fold = RNG.integers(0, 5, N)
    rows = with_column(np.where(fold == 2, RNG.normal(size=N), 0.1))
    u = np.full(N, 1 / 3)
    own = [PairMoments.of(form(rows[fold == k]), Y[fold == k], u[fold == k]) for k in range(5)]
    exact = [
        PairMoments.of(rows[fold != k], Y[fold != k], u[fold != k]).quadratic() for k in range(5)
    ]
    for k, others in enumerate(PairMoments.complements(own)):
        scale = others.columns().standard_deviation()
        quadratic = others.quadratic(scale)
        assert (scale[D] == 1.0) == (k == 2)
        S = quadratic.Sigma.toarray()
        assert np.linalg.eigvalsh(S)[0] >= -1e-12
        wanted = exact[k].Sigma.toarray() / np.outer(scale, scale)
        np.testing.assert_allclose(S, wanted, rtol=0, atol=1e-11)
        np.testing.assert_allclose(quadratic.mu, exact[k].mu / scale, rtol=0, atol=1e-12)


def test_complements_are_the_same_bits_as_merges():
    fold = RNG.integers(0, 4, N)
    own = [PairMoments.of(X[fold == k], Y[fold == k]) for k in range(4)]
    a, b, c, d = own
    merged = [b.merge(c.merge(d)), a.merge(c.merge(d)), a.merge(b).merge(d), a.merge(b).merge(c)]
    for found, wanted in zip(PairMoments.complements(own), merged, strict=True):
        assert found.to_bytes() == wanted.to_bytes()
    assert own == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("tile_side")
def test_what_a_deletion_leaves_constant_is_so(form):
    gone = RNG.random(N) < 0.4
    for value in (0.0, 0.1, 1e6 + 0.1):
        rows = with_column(np.where(gone, RNG.normal(size=N) + 3.0, value))
        u = RNG.uniform(0.1, 2.0, N)
        whole = PairMoments.of(form(rows), Y, u)
        left = whole.subtract(PairMoments.of(form(rows[gone]), Y[gone], u[gone]))
        rest = PairMoments.of(form(rows[~gone]), Y[~gone], u[~gone])
        for found in (left, left.merge(rest), left.scale(0.1), rest.merge(left.scale(0.5))):
            columns = PairMoments.from_bytes(found.to_bytes()).columns()
            assert not columns.varies()[D]
            assert columns.standard_deviation()[D] == 1.0
            assert (found.positive.spread()[0][D], found.negative.spread()[0][D]) == (0.0, 0.0)
            assert columns.mean[:, D] == pytest.approx(value, rel=1e-9, abs=1e-9)
            assert not found.quadratic().Sigma.toarray()[D].any()
            assert not found.positive.scatter()[D].any()
        assert left.columns().varies()[:D].all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("tile_side")
def test_what_was_never_added_is_not_subtracted(form):
    whole = ClassMoments.of(form(with_column(0.1)))
    for wrong in (
        with_column(np.arange(N) % 2 + 0.0)[:50],
        with_column(0.2)[:50],
        with_column(0.1)[:50] * 100,
        with_column(0.1) + 1e-3 * np.eye(D + 1)[4],
    ):
        with pytest.raises(DataError, match=r"to subtract that are no part of the .* rows"):
            whole.subtract(ClassMoments.of(form(wrong)))
    light = ClassMoments.of(form(X), np.where(np.arange(N) < 3, 1e-300, 1.0))
    with pytest.raises(
        DataError, match="expected the remaining rows to weigh more than the rounding error"
    ):
        light.subtract(ClassMoments.of(form(X[3:])))


def test_a_forgetting_stream_keeps_constants():
    rows, u = with_column(0.1), RNG.choice(WEIGHTS[:3], N)
    total = StreamStatistics.zero(D + 1)
    for part in cut(rows, u, sparse.csr_matrix, 50):
        batch = StreamStatistics.zero(D + 1)
        batch = StreamStatistics(PairMoments.of(*part[:3]), batch.labels, batch.scores)
        total = total.faded(0.9).merge(batch)
    assert total.moments.columns().standard_deviation()[D] == 1.0
    assert not total.moments.quadratic().Sigma.toarray()[D].any()


@pytest.mark.parametrize("form", FORMS)
def test_classes_at_a_large_offset_differ_to_the_last_place(form):
    rows = with_column(1e8 + np.where(Y, 2.0**-10, 0.0) * (1 + np.arange(N) % 2))
    found = PairMoments.fold(cut(rows, np.full(N, 0.1), form), D + 1).quadratic()
    exact = 2.0**-10 * (1 + (np.arange(N) % 2)[Y].mean())
    assert found.mu[D] == pytest.approx(exact, rel=1e-12)
