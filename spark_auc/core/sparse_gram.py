"""The Gram update of sparse rows, in the order that spares memory most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.kernels import LINE, Index, Places, compiled, prefetch, sparse_entries

Float = NDArray[np.float64]

# Columns that are best the first ones: those that rows have most often. The others may keep their
# order: they are seldom met beside each other, and what keeps its order is fast to put back.
OFTEN = 1000
_ONE = np.uint64(1)
# How many rows before their turn their entries, and the places that they are added to, are asked
# for: waiting for memory is what takes longest.
_ENTRIES_AHEAD, _PLACES_AHEAD = np.uint64(4), np.uint64(2)
# Entries whose offsets, and whose values, one hint fetches.
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

    Products of the first `OFTEN` features are added row by row: their part of the matrix fits the
    processor's cache. Of the others a feature's are added together, to one row of the matrix that
    the cache holds meanwhile.

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
    origin, total = np.zeros((2, rank.size))
    if not rank.size:
        return origin, total
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
    stops, others = starts.copy(), np.empty_like(starts)
    offset, centred = np.empty(entries, np.uint32), np.empty(entries)
    _fill(ends, owner, value, weight, tile, stops, offset, centred, origin, total)
    _add_often(weight, starts, stops, offset, centred, tile, gram, others)
    _add_others(ends, owner, weight, starts, others, offset, centred, tile, gram)
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
def _fill(
    ends: Places,
    owner: Index,
    value: Float,
    weight: Float,
    tile: int,
    stops: Places,
    offset: Index,
    centred: Float,
    origin: Float,
    total: Float,
) -> None:
    """By row and then by feature, centred values and where their features lie in a matrix row.

    ``stops`` comes with each row's start.
    """
    first = np.uint64(0)
    for feature in range(ends.size):
        last = ends[feature]
        mean = 0.0
        if last - first == np.uint64(weight.size):
            for q in range(first, last):
                mean += weight[owner[q]] * value[q]
            mean /= weight.sum()
            origin[feature] = mean
        here = _offset(feature, tile)
        for q in range(first, last):
            r = owner[q]
            p = stops[r]
            stops[r] = p + _ONE
            offset[p] = here
            centred[p] = value[q] - mean
            total[feature] += weight[r] * centred[p]
        first = last


@compiled()
def _add_often(
    weight: Float,
    starts: Places,
    stops: Places,
    offset: Index,
    centred: Float,
    tile: int,
    gram: Float,
    others: Places,
) -> None:
    """Add products of the first `OFTEN` features, and note where each row's other ones begin."""
    limit = _offset(OFTEN, tile)
    for r in range(weight.size):
        others[r] = starts[r]
        for p in range(starts[r], stops[r]):
            if offset[p] >= limit:
                break
            others[r] = p + _ONE
            base = _row_start(offset[p], tile)
            weighted = weight[r] * centred[p]
            for e in range(starts[r], p + _ONE):
                gram[base + np.uint64(offset[e])] += weighted * centred[e]


@compiled()
def _add_others(
    ends: Places,
    owner: Index,
    weight: Float,
    starts: Places,
    reached: Places,
    offset: Index,
    centred: Float,
    tile: int,
    gram: Float,
) -> None:
    """Add products of the other features, with each other and with the first ones."""
    for feature in range(OFTEN, ends.size):
        base = _row_start(_offset(feature, tile), tile)
        last = ends[feature]
        for q in range(ends[feature - 1], last):
            if q + _ENTRIES_AHEAD < ends[-1]:
                r = owner[q + _ENTRIES_AHEAD]
                for e in range(starts[r], reached[r], _OFFSETS):
                    prefetch(offset, e)
                for e in range(starts[r], reached[r], _VALUES):
                    prefetch(centred, e)
            if q + _PLACES_AHEAD < last:
                r = owner[q + _PLACES_AHEAD]
                for e in range(starts[r], reached[r]):
                    prefetch(gram, base + np.uint64(offset[e]))
            r = owner[q]
            p = reached[r]
            reached[r] = p + _ONE
            weighted = weight[r] * centred[p]
            for e in range(starts[r], reached[r]):
                gram[base + np.uint64(offset[e])] += weighted * centred[e]


@compiled()
def _offset(feature: int, tile: int) -> int:
    """Where in a matrix row of the tiles a feature lies."""
    return feature // tile * tile * tile + feature % tile


@compiled()
def _row_start(offset: int, tile: int) -> np.uint64:
    """Where in the tiles the matrix row of the feature with this offset begins."""
    size = tile * tile
    block = offset // size
    return np.uint64(block * (block + 1) // 2 * size + (offset - block * size) * tile)
