"""The Gram update of sparse rows against dense products."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.moments import accumulator
from spark_auc.core.moments.accumulator import Accumulator
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.sparse_gram import FREQUENT, add_sparse_gram, survey_columns
from spark_auc.core.moments.tiles import Tiling


def rows_of(n, d, density, seed=0):
    """Rows whose first columns are the likeliest and the last is full, in any order in a row."""
    rng = np.random.default_rng(seed)
    likely = np.minimum(1.0, density * d / np.arange(1, d + 1))
    dense = rng.normal(size=(n, d)) * (rng.random((n, d)) < likely)
    dense[:, d - 1] = 5.0 + np.arange(n)
    X = sparse.csr_matrix(dense)
    for r in range(n):
        part = slice(X.indptr[r], X.indptr[r + 1])
        mixed = rng.permutation(part.stop - part.start)
        X.indices[part], X.data[part] = X.indices[part][mixed], X.data[part][mixed]
    X.has_sorted_indices = False
    return X


def lower(gram, tiling):
    """The lower triangle ``(d, d)`` of strips."""
    d = tiling.dimension
    out = np.zeros((d, d))
    for i, strip in enumerate(tiling.strips(gram)):
        rows = tiling.span(i)
        out[rows, : rows.stop] = strip[: rows.stop - rows.start, : rows.stop]
    return np.tril(out)


def test_strips_and_where_their_rows_start():
    for d in (1, 3, 512, 513, 1300):
        tiling = Tiling(d)
        values = np.arange(tiling.count * tiling.tile**2, dtype=float)
        strips = tiling.strips(values)
        assert [s.shape[1] for s in strips] == [(i + 1) * tiling.tile for i in range(tiling.blocks)]
        firsts = np.concatenate([s[:, 0] for s in strips])[:d]
        np.testing.assert_array_equal(tiling.row_starts(), firsts.astype(np.uint64))


def ranks(d, rng):
    """Places of which the first `FREQUENT` belong to any columns, in ascending order both."""
    often = np.sort(rng.permutation(d)[:FREQUENT])
    order = np.concatenate([often, np.setdiff1d(np.arange(d), often)])
    return np.argsort(order).astype(np.uint32)


def add(parts, rank, starts, gram):
    """Add products of columns whose unit is 1."""
    unit = np.ones(rank.size)
    columns = survey_columns(parts, rank, unit, False)
    return add_sparse_gram(parts, columns, rank, unit, starts, gram)


@pytest.mark.parametrize("kind", ["numbers", "indicators", "normalised"])
@pytest.mark.parametrize(("d", "density"), [(40, 0.3), (700, 0.02), (FREQUENT + 300, 0.004)])
def test_products_about_the_means_of_full_columns(d, density, kind):
    X = rows_of(60, d, density)
    X.sort_indices()
    if kind != "numbers":
        # Without full columns, whose centred values are unlike the others.
        X = X.multiply(np.random.default_rng(2).random((60, d)) < 0.8).tocsr()
        X.eliminate_zeros()
        # Some of the rows have an entry that is not like the others.
        X.data[:] = 1.0 if kind == "indicators" else np.repeat(X.getnnz(1) ** -0.5, X.getnnz(1))
        X.data[X.indptr[10:40] + np.arange(30) % 4] *= 2.0
    rng = np.random.default_rng(1)
    rank, tiling = ranks(d, rng), Tiling(d)
    u, gram = rng.uniform(0.5, 2.0, 60), np.zeros(tiling.count * tiling.tile**2)
    parts = [(X[a:b], u[a:b]) for a, b in ((0, 1), (1, 20), (20, 20), (20, 60))]
    origin, total, _ = add(parts, rank, tiling.row_starts(), gram)

    dense = X.toarray()
    mean = np.where((X.getnnz(axis=0) == 60), u @ dense / u.sum(), 0.0)
    assert np.count_nonzero(mean) or kind != "numbers"
    stored = np.where(dense != 0, dense - mean, 0.0)
    by_place = np.empty_like(stored)
    by_place[:, rank] = stored
    expected = np.tril((by_place * u[:, None]).T @ by_place)
    np.testing.assert_allclose(lower(gram, tiling), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(origin[rank], mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(total[rank], u @ stored, rtol=0, atol=1e-10)


def test_places_beyond_sixteen_bits():
    d = 70_000
    X = sparse.csr_matrix(([2.0, 3.0], ([0, 0], [3, d - 1])), (2, d))
    starts = np.zeros(d, np.uint64)
    starts[-1] = d
    gram = np.zeros(2 * d)
    add([(X, np.ones(2))], np.arange(d, dtype=np.uint32), starts, gram)
    expected = np.zeros(2 * d)
    expected[[3, d + 3, 2 * d - 1]] = 4.0, 6.0, 9.0
    np.testing.assert_array_equal(gram, expected)


@pytest.mark.parametrize("dense_first", [False, True])
def test_dense_and_sparse_rows_together(dense_first):
    d = FREQUENT + 200
    X = rows_of(90, d, 8 / d, seed=4)
    made, parts = Accumulator(d), np.split(np.arange(90), 3)
    for k, part in enumerate(parts):
        rows = X[part].toarray() if (k == 0) == dense_first else X[part]
        made.add(rows, np.arange(30), None)
        made.finish()
    found, dense = ClassMoments(d, tuple(made.tiles())), X.toarray()
    centred = dense - dense.mean(axis=0)
    np.testing.assert_allclose(found.scatter(), centred.T @ centred, rtol=0, atol=1e-9)


def test_columns_that_a_row_stores_twice_are_summed():
    d = FREQUENT + 200
    indices = np.concatenate([np.arange(d), np.arange(d), np.arange(d)])
    X = sparse.csr_matrix((np.ones(3 * d), indices, [0, 3 * d, 3 * d]), (2, d))
    made = Accumulator(d)
    made.add(X, np.arange(2), None)
    found = ClassMoments(d, tuple(made.tiles()))
    np.testing.assert_allclose(found.mean, 1.5)
    np.testing.assert_allclose(found.scatter(), 4.5)
    assert X.nnz == 3 * d


def test_rows_without_entries_and_a_single_one():
    tiling, rank = Tiling(3), np.arange(3, dtype=np.uint32)
    gram, starts = np.zeros(9), tiling.row_starts()
    X = sparse.csr_matrix((4, 3))
    assert not add([(X, np.ones(4))], rank, starts, gram)[1].any()
    assert not gram.any()
    nothing = ClassMoments.of(sparse.csr_matrix((4, 0)))
    assert (nothing.rows, nothing.mean.size) == (4, 0)
    X = sparse.csr_matrix([[0.0, 0, 0], [2.0, 0, 3.0]])
    add([(X, np.array([1.0, 0.5]))], rank, starts, gram)
    np.testing.assert_array_equal(gram.reshape(3, 3), [[2.0, 0, 0], [0, 0, 0], [3.0, 0, 4.5]])


@pytest.mark.parametrize("together", [1, 30, 700, 1 << 22])
@pytest.mark.parametrize("d", [30, FREQUENT + 200])
def test_how_rows_are_cut_does_not_matter(monkeypatch, together, d):
    monkeypatch.setattr(accumulator, "_LEAST", together)
    monkeypatch.setattr(accumulator, "_MOST", together)
    X = rows_of(200, d, 8 / d, seed=2)
    u = np.random.default_rng(3).uniform(0.5, 2.0, 200)
    parts = np.split(np.arange(200), [1, 2, 90, 95])
    made = Accumulator(d)
    for part in parts:
        chosen = part[part % 3 > 0]
        made.add(X, chosen, u[chosen])
    found = ClassMoments(d, tuple(made.tiles()))
    kept = np.flatnonzero(np.arange(200) % 3 > 0)
    dense, v = X.toarray()[kept], u[kept]
    mean = v @ dense / v.sum()
    assert found.rows == kept.size
    assert found.weight == pytest.approx(v.sum(), rel=1e-14)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-13, atol=1e-13)
    expected = ((dense - mean) * v[:, None]).T @ (dense - mean)
    size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert np.all(np.abs(found.scatter() - expected) <= 1e-12 * size)
