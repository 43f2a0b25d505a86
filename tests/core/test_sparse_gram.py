"""The Gram update of sparse rows against dense products."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core import accumulator
from spark_auc.core.accumulator import Accumulator
from spark_auc.core.class_moments import ClassMoments
from spark_auc.core.sparse_gram import OFTEN, add_sparse_gram
from spark_auc.core.tiles import Tiling


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


def lower(gram, tiling, d):
    """The lower triangle ``(d, d)`` of tiles."""
    out = np.zeros((tiling.blocks * tiling.tile,) * 2)
    for k, (i, j) in enumerate(tiling.places()):
        t = tiling.tile
        out[i * t : (i + 1) * t, j * t : (j + 1) * t] = gram[k]
    return np.tril(out[:d, :d])


@pytest.mark.parametrize(("d", "density"), [(40, 0.3), (700, 0.02), (OFTEN + 300, 0.004)])
def test_products_about_the_means_of_full_columns(d, density):
    X = rows_of(60, d, density)
    rng = np.random.default_rng(1)
    rows, rank = np.flatnonzero(rng.random(60) < 0.7), rng.permutation(d).astype(np.uint32)
    u, tiling = rng.uniform(0.5, 2.0, rows.size), Tiling(d)
    gram = np.zeros((tiling.count, tiling.tile, tiling.tile))
    origin, total = add_sparse_gram(X, rows, u, rank, tiling.tile, gram.reshape(-1))

    dense = X.toarray()[rows]
    mean = np.where((X[rows].getnnz(axis=0) == rows.size), u @ dense / u.sum(), 0.0)
    assert np.count_nonzero(mean)
    stored = np.where(dense != 0, dense - mean, 0.0)
    by_place = np.empty_like(stored)
    by_place[:, rank] = stored
    expected = np.tril((by_place * u[:, None]).T @ by_place)
    np.testing.assert_allclose(lower(gram, tiling, d), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(origin[rank], mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(total[rank], u @ stored, rtol=0, atol=1e-10)


def test_rows_without_entries_and_a_single_one():
    tiling, rank = Tiling(3), np.arange(3, dtype=np.uint32)
    gram = np.zeros((1, 3, 3))
    X = sparse.csr_matrix((4, 3))
    assert not add_sparse_gram(X, np.arange(4), np.ones(4), rank, 3, gram.reshape(-1))[1].any()
    assert not gram.any()
    nothing = ClassMoments.of(sparse.csr_matrix((4, 0)))
    assert (nothing.rows, nothing.mean.size) == (4, 0)
    X = sparse.csr_matrix([[0.0, 0, 0], [2.0, 0, 3.0]])
    add_sparse_gram(X, np.arange(2), np.array([1.0, 0.5]), rank, tiling.tile, gram.reshape(-1))
    np.testing.assert_array_equal(gram[0], [[2.0, 0, 0], [0, 0, 0], [3.0, 0, 4.5]])


@pytest.mark.parametrize(("least", "most"), [(1, 1 << 19), (1, 700), (500, 700), (10**9, 10**9)])
@pytest.mark.parametrize("d", [30, OFTEN + 200])
def test_how_rows_are_cut_does_not_matter(monkeypatch, least, most, d):
    monkeypatch.setattr(accumulator, "_LEAST", least)
    monkeypatch.setattr(accumulator, "_MOST", most)
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
