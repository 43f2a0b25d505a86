"""The Gram update of sparse rows, one feature after another."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.kernels import LINE, Index, compiled, prefetch, sparse_entries

Float = NDArray[np.float64]
Places: TypeAlias = NDArray[np.uint64]

_ONE = np.uint64(1)
# How many rows before their turn their entries, and the places that they are added to, are asked
# for: waiting for memory is what takes longest.
_ENTRIES_AHEAD, _PLACES_AHEAD = np.uint64(4), np.uint64(2)
_OFFSETS, _VALUES = LINE // 4, LINE // 8


def add_sparse_gram(
    X: sparse.csr_matrix | sparse.csr_array,
    rows: NDArray[np.int64],
    weight: Float,
    rank: Index,
    tile: int,
    gram: Float,
) -> tuple[Float, Float]:
    """Add ``sum_r u_r (x_r - o)(x_r - o)'`` over stored entries to lower-triangle tiles.

    A feature's entries are added together, to one row of the matrix that the processor's cache
    holds meanwhile, and with them those of the same rows' features before it.

    Parameters
    ----------
    X : (n, d)
        Rows; the column numbers of a row are distinct, in any order.
    rows
        Which of them to add.
    weight
        Their weights ``u``, aligned with ``rows``.
    rank : (d,)
        Each column's place in the tiles.
    tile
        Side of a tile.
    gram
        Flat view of the tiles, in the order of `SymmetricTiles`; diagonal tiles receive their
        lower triangle only.

    Returns
    -------
    origin, total : (d,)
        ``o`` and ``sum_r u_r (x_r - o)``, by place: ``o`` is the mean of a column that all rows
        store, and else 0, which stored entries cannot tell from those that are not.
    """
    data, indices, indptr = sparse_entries(X)
    place = np.zeros(rank.size, np.uint64)
    _count(indices, indptr, rows, rank, place)
    ends = np.cumsum(place)
    place = ends - place
    entries = int(ends[-1])
    owner, value = np.empty(entries, np.uint32), np.empty(entries)
    _by_feature(data, indices, indptr, rows, rank, place, owner, value)
    starts = np.zeros(rows.size, np.uint64)
    np.cumsum(indptr[rows[:-1] + 1] - indptr[rows[:-1]], out=starts[1:])
    offset, centred = np.empty(entries, np.uint32), np.empty(entries)
    origin, total = np.zeros((2, rank.size))
    _add(
        ends,
        owner,
        value,
        weight,
        starts,
        starts.copy(),
        offset,
        centred,
        tile,
        gram,
        origin,
        total,
    )
    return origin, total


@compiled()
def _count(
    indices: Index, indptr: Index, rows: NDArray[np.int64], rank: Index, count: Places
) -> None:
    for r in rows:
        for p in range(indptr[r], indptr[r + 1]):
            count[rank[indices[p]]] += _ONE


@compiled()
def _by_feature(
    data: Float,
    indices: Index,
    indptr: Index,
    rows: NDArray[np.int64],
    rank: Index,
    place: Places,
    owner: Index,
    value: Float,
) -> None:
    """Values, and the rows they are of, by feature and then by row."""
    for a in range(rows.size):
        for p in range(indptr[rows[a]], indptr[rows[a] + 1]):
            feature = rank[indices[p]]
            q = place[feature]
            place[feature] = q + _ONE
            owner[q] = a
            value[q] = data[p]


@compiled()
def _add(
    ends: Places,
    owner: Index,
    value: Float,
    weight: Float,
    starts: Places,
    filled: Places,
    offset: Index,
    centred: Float,
    tile: int,
    gram: Float,
    origin: Float,
    total: Float,
) -> None:
    # A row's features before this one are those it has been filled with: ``offset`` says where
    # in a row of the matrix they lie, and ``centred`` holds their values.
    size = tile * tile
    first = np.uint64(0)
    for feature in range(ends.size):
        last = ends[feature]
        mean = 0.0
        if last - first == np.uint64(weight.size):
            for q in range(first, last):
                mean += weight[owner[q]] * value[q]
            mean /= weight.sum()
            origin[feature] = mean
        block = feature // tile
        inside = feature - block * tile
        here = np.uint32(block * size + inside)
        base = np.uint64(block * (block + 1) // 2 * size + inside * tile)
        for q in range(first, last):
            if q + _ENTRIES_AHEAD < ends[-1]:
                r = owner[q + _ENTRIES_AHEAD]
                for e in range(starts[r], filled[r], _OFFSETS):
                    prefetch(offset, e)
                for e in range(starts[r], filled[r], _VALUES):
                    prefetch(centred, e)
            if q + _PLACES_AHEAD < last:
                r = owner[q + _PLACES_AHEAD]
                for e in range(starts[r], filled[r]):
                    prefetch(gram, base + np.uint64(offset[e]))
            r = owner[q]
            p = filled[r]
            filled[r] = p + _ONE
            offset[p] = here
            centred[p] = value[q] - mean
            weighted = weight[r] * centred[p]
            total[feature] += weighted
            for e in range(starts[r], filled[r]):
                gram[base + np.uint64(offset[e])] += weighted * centred[e]
        first = last
