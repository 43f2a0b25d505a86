"""The Gram update of sparse rows, in the order that spares memory most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.kernels import LINE, compiled, prefetch, sparse_entries
from spark_auc.core.moments.constant_columns import sparse_means
from spark_auc.core.types import Float, Index, Places

WeightedRows: TypeAlias = tuple[sparse.csr_matrix | sparse.csr_array, Float]

# Columns that are best the first ones: those that rows have most often.
OFTEN = 512
_ONE = np.uint64(1)
# How many visits before its turn a row's entries are asked for: waiting for memory is what takes
# longest.
_AHEAD = np.uint64(8)
_VALUES = LINE // 8


class _Entries(NamedTuple):
    """Stored entries by row and then by place, and the rows' visits by feature.

    Parameters
    ----------
    place, value : (entries,)
        Where a column is in the matrix, and the centred value.
    first, last : (visits,)
        The entries of a row up to that of the feature for which it is visited.
    factor : (visits,)
        By which the values of these entries are multiplied, or what each of them adds where they
        are alike.
    alike : (visits,)
        Whether these values are equal: what does not have to be read is not waited for, and rows
        of indicators, as they are or divided by their norm, are the most common of all.
    """

    place: NDArray[np.unsignedinteger[Any]]
    value: Float
    first: Index
    last: Index
    factor: Float
    alike: NDArray[np.bool_]


def add_sparse_gram(
    parts: Sequence[WeightedRows], rank: Index, starts: Places, gram: Float
) -> tuple[Float, Float]:
    """Add ``sum_r u_r (x_r - o)(x_r - o)'`` over stored entries to the lower triangle of a matrix.

    Products of the first `OFTEN` features are added row by row: their part of the matrix fits the
    processor's cache. Of the others a feature's are added together, to one row of the matrix that
    the cache holds meanwhile.

    Parameters
    ----------
    parts
        Rows ``(n, d)``, their column numbers ascending and distinct, and weights ``u`` ``(n,)``.
    rank : (d,)
        Each column's place in the matrix, ascending over the columns whose place is below `OFTEN`
        and over the others.
    starts : (d,)
        Where in ``gram`` each row of the matrix begins.
    gram
        Receives the products.

    Returns
    -------
    origin, total : (d,)
        ``o`` and ``sum_r u_r (x_r - o)``, by place: ``o`` is the mean of a column that all rows
        store, and else 0, which stored entries cannot tell from those that are not.
    """
    rows = [(*sparse_entries(X), u) for X, u in parts]
    count, total = np.zeros(rank.size, np.uint64), np.zeros(rank.size)
    for part in rows:
        _add_columns(*part, rank, count, total)
    weight = np.concatenate([u for _, u in parts])
    full = count == weight.size
    origin = np.where(full, total / weight.sum(), 0.0)
    origin = sparse_means([part[:3] for part in rows], rank, full, origin)
    total = np.zeros(rank.size)

    stored = int(count.sum())
    count[:OFTEN] = 0
    visits = int(count.sum())
    ends = np.cumsum(count)
    free = ends - count
    entries = _Entries(
        np.empty(stored, np.uint16 if rank.size <= 1 << 16 else np.uint32),
        np.empty(stored),
        np.empty(visits, np.uint32),
        np.empty(visits, np.uint32),
        np.empty(visits),
        np.empty(visits, np.bool_),
    )
    bounds = np.zeros(weight.size + 1, np.uint64)
    np.cumsum(np.concatenate([np.diff(X.indptr) for X, _ in parts]), out=bounds[1:])
    begin = 0
    for part in rows:
        _arrange(*part, rank, origin, bounds[begin:], free, entries, total)
        begin += part[-1].size
    _add_often(bounds, weight, entries, starts, gram)
    _add_others(ends, entries, starts, gram)
    return origin, total


@compiled()
def _add_columns(
    data: Float,
    indices: Index,
    indptr: Index,
    weight: Float,
    rank: Index,
    count: Places,
    total: Float,
) -> None:
    for r in range(weight.size):
        for p in range(indptr[r], indptr[r + 1]):
            place = rank[indices[p]]
            count[place] += _ONE
            total[place] += weight[r] * data[p]


@compiled()
def _arrange(
    data: Float,
    indices: Index,
    indptr: Index,
    weight: Float,
    rank: Index,
    origin: Float,
    bounds: Places,
    free: Places,
    entries: _Entries,
    total: Float,
) -> None:
    """Fill in ``entries``; ``free`` holds each feature's first visit that is not, and moves on."""
    place, value, first, last, factor, alike = entries
    others = np.empty(rank.size, np.uint64)
    for r in range(weight.size):
        start = end = bounds[r]
        waiting = 0
        for p in range(indptr[r], indptr[r + 1]):
            here = rank[indices[p]]
            place[end] = here
            value[end] = data[p] - origin[here]
            others[waiting] = p
            # A branch would be guessed wrong too often.
            often = 1 if here < OFTEN else 0
            end += np.uint64(often)
            waiting += 1 - often
        same = True
        for e in range(start, end):
            total[place[e]] += weight[r] * value[e]
            same = same and value[e] == value[start]
        for k in range(waiting):
            here = rank[indices[others[k]]]
            centred = data[others[k]] - origin[here]
            weighted = weight[r] * centred
            total[here] += weighted
            place[end] = here
            value[end] = centred
            same = same and centred == value[start]
            visit = free[here]
            free[here] = visit + _ONE
            first[visit] = start
            last[visit] = end
            factor[visit] = weighted * centred if same else weighted
            alike[visit] = same
            end += _ONE


@compiled()
def _add_often(
    bounds: Places, weight: Float, entries: _Entries, starts: Places, gram: Float
) -> None:
    """Add products of the first `OFTEN` features."""
    place, value = entries.place, entries.value
    for r in range(weight.size):
        for p in range(bounds[r], bounds[r + 1]):
            if place[p] >= OFTEN:
                break
            start = starts[place[p]]
            weighted = weight[r] * value[p]
            for e in range(bounds[r], p + _ONE):
                gram[start + np.uint64(place[e])] += weighted * value[e]


@compiled()
def _add_others(ends: Places, entries: _Entries, starts: Places, gram: Float) -> None:
    """Add products of the other features, with each other and with the first ones."""
    place, value, first, last, factor, alike = entries
    for feature in range(OFTEN, ends.size):
        start = starts[feature]
        for visit in range(ends[feature - 1], ends[feature]):
            soon = visit + _AHEAD
            if soon < ends[-1]:
                for e in range(first[soon], last[soon] + 1, LINE // place.itemsize):
                    prefetch(place, e)
                if not alike[soon]:
                    for e in range(first[soon], last[soon] + 1, _VALUES):
                        prefetch(value, e)
            added = factor[visit]
            if alike[visit]:
                for e in range(np.uint64(first[visit]), np.uint64(last[visit]) + _ONE):
                    gram[start + np.uint64(place[e])] += added
            else:
                for e in range(np.uint64(first[visit]), np.uint64(last[visit]) + _ONE):
                    gram[start + np.uint64(place[e])] += added * value[e]
