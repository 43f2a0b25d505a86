"""The Gram update of sparse rows, in an order with few loads from memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.kernels import LINE, compiled, prefetch, sparse_entries
from spark_auc.core.moments.column_sums import CHAIN, UNIT, add_compensated
from spark_auc.core.moments.constant_columns import sparse_means
from spark_auc.core.types import Float, Index, Int, Places

WeightedRows: TypeAlias = tuple[sparse.csr_matrix | sparse.csr_array, Float]

# Number of the most frequent columns, which should come first.
FREQUENT = 512
_ONE = np.uint64(1)
# Number of visits by which the entries of a row are prefetched; memory latency dominates the time.
_AHEAD = np.uint64(8)
_VALUES = LINE // 8
# Multiples of 1 / 256 up to 256 are simple: their products and sums are exact.
SHARES = 256.0
_SHARE = 1 / SHARES
# Values whose products neither overflow nor underflow.
_SAFE = (1e-100, 1e100)
# Share of the visits of a group that are added one by one, without a group.
_DIRECT = np.uint64(2)


class _Entries(NamedTuple):
    """Stored entries by row, and the visits of rows by feature.

    A visit multiplies the entry of a rare feature with the earlier entries of its row.

    Parameters
    ----------
    place, value : (entries,)
        Column of the entry in the matrix, and its centred value; by row, then by place.
    first, last : (visits,)
        First entry of the row, and the entry of the visited feature.
    factor : (visits,)
        Factor of the values of these entries; if they are all equal, their common product.
    equal : (visits,)
        Whether the values are all equal, as in rows of indicators, raw or divided by their norm.
        The kernel then skips loading them.
    """

    place: NDArray[np.unsignedinteger[Any]]
    value: Float
    first: Index
    last: Index
    factor: Float
    equal: NDArray[np.bool_]


class Columns(NamedTuple):
    """What is known of the columns of sparse rows before their products are added, by place.

    Parameters
    ----------
    entries, total : (d,)
        Number of stored entries, and the sum of weight times value.
    simple
        Whether all values are simple multiples of their column's unit, and all weights integers.
    """

    entries: Places
    total: Float
    simple: bool


def survey_columns(
    parts: Sequence[WeightedRows], rank: Index, unit: Float, simple: bool
) -> Columns:
    """Survey the columns of sparse rows.

    Parameters
    ----------
    parts, rank
        As in `add_sparse_gram`.
    unit : (d,)
        Unit of each column, by place; 0 before its first value other than 0. That value becomes the
        unit, or 1 if the value is a simple multiple of 1.
    simple
        Whether all rows before were simple. Otherwise the units stay as they are.
    """
    count, total = np.zeros(rank.size, np.uint64), np.zeros(rank.size)
    for X, u in parts:
        simple = simple and bool((u == np.rint(u)).all())
        simple = _survey(*sparse_entries(X), u, rank, count, total, unit, simple)
    return Columns(count, total, simple)


def add_sparse_gram(
    parts: Sequence[WeightedRows],
    columns: Columns,
    rank: Index,
    unit: Float,
    starts: Places,
    gram: Float,
) -> tuple[Float, Float, Int]:
    """Add ``sum_r u_r (x_r - o)(x_r - o)'`` over stored entries to the lower triangle of a matrix.

    Equal products, added one by one to a growing sum, are all rounded in one direction: the error
    of the sum grows with their number. Products of simple multiples are exact. Others are first
    added in groups of at most `longest_chain` rows.

    Products of the first `FREQUENT` features are added row by row, as their part of the matrix fits
    in the cache. Products of the other features are added feature by feature, so that the feature's
    row of the matrix stays in the cache.

    Parameters
    ----------
    parts
        Rows ``(n, d)`` with ascending, distinct column indices, and their weights ``u`` ``(n,)``.
        Their values are divided by the units in place; ``x_r`` is the row divided.
    columns
        The survey of these rows.
    rank : (d,)
        Place of each column in the matrix, ascending over the columns with a place below `FREQUENT`
        and ascending over the others.
    unit : (d,)
        Unit of each column, by place; 1 for all unless the rows are simple.
    starts : (d,)
        Position in ``gram`` at which each row of the matrix begins.
    gram
        Flat lower triangle of the matrix; the products are added to it.

    Returns
    -------
    origin, total : (d,)
        ``o`` and ``sum_r u_r (x_r - o)``, by place. ``o`` is near the mean of a column that every
        row stores, and otherwise 0, so that entries which are not stored contribute nothing.
    additions : (d,)
        Number of rounded additions to each row of the matrix; 0 for simple rows.
    """
    rows = [(*sparse_entries(X), u) for X, u in parts]
    weight = np.concatenate([u for _, u in parts])
    count, exact = columns.entries.copy(), columns.simple
    full = count == weight.size
    origin = np.where(full, columns.total / weight.sum(), 0.0)
    origin = sparse_means([part[:3] for part in rows], rank, full, origin) / unit
    if exact:
        origin = np.rint(SHARES * origin) / SHARES
    total, lost = np.zeros((2, rank.size))

    stored = int(count.sum())
    count[:FREQUENT] = 0
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
        _arrange(*part, rank, unit, origin, bounds[begin:], free, entries, total, lost, exact)
        begin += part[-1].size
    additions = np.zeros(rank.size, np.int64)
    _add_frequent(bounds, weight, entries, starts, gram, exact, additions)
    _add_rare(ends, entries, starts, gram, exact, additions)
    return origin, total + lost, additions


@compiled()
def longest_chain(dimension: int) -> int:
    """Greatest number of products that are added one by one, with so many features before them.

    Adding a group costs a pass over its part of the matrix.
    """
    frequent = min(dimension, FREQUENT)
    return max(CHAIN, frequent * frequent // 128, dimension // 4)


@compiled()
def _survey(
    data: Float,
    indices: Index,
    indptr: Index,
    weight: Float,
    rank: Index,
    count: Places,
    total: Float,
    unit: Float,
    simple: bool,
) -> bool:
    for r in range(weight.size):
        for p in range(indptr[r], indptr[r + 1]):
            place = rank[indices[p]]
            count[place] += _ONE
            total[place] += weight[r] * data[p]
            if simple and data[p] != unit[place] and data[p] != 0.0:
                if unit[place] == 0.0:
                    whole = SHARES * data[p] == np.rint(SHARES * data[p])
                    unit[place] = 1.0 if whole and abs(data[p]) <= SHARES else data[p]
                    simple = _SAFE[0] < abs(unit[place]) < _SAFE[1]
                else:
                    multiple = data[p] / unit[place]
                    nearest = np.rint(SHARES * multiple) * _SHARE
                    # The sum of three equal numbers is rounded, and so is the quotient.
                    error = 0.0 if unit[place] == 1.0 else 4 * UNIT * abs(multiple)
                    simple = abs(multiple - nearest) <= error and abs(nearest) <= SHARES
    return simple


@compiled()
def _arrange(
    data: Float,
    indices: Index,
    indptr: Index,
    weight: Float,
    rank: Index,
    unit: Float,
    origin: Float,
    bounds: Places,
    free: Places,
    entries: _Entries,
    total: Float,
    lost: Float,
    exact: bool,
) -> None:
    """Fill ``entries``; ``free`` is each feature's next free visit, and is advanced."""
    place, value, first, last, factor, equal = entries
    rare = np.empty(rank.size, np.uint64)
    for r in range(weight.size):
        start = end = bounds[r]
        rare_count = 0
        for p in range(indptr[r], indptr[r + 1]):
            column = rank[indices[p]]
            if unit[column] != 1.0:
                data[p] = np.rint(SHARES * (data[p] / unit[column])) * _SHARE
            place[end] = column
            value[end] = data[p] - origin[column]
            rare[rare_count] = p
            # Arithmetic instead of a branch, which would often be mispredicted.
            frequent = 1 if column < FREQUENT else 0
            end += np.uint64(frequent)
            rare_count += 1 - frequent
        all_equal = True
        for e in range(start, end):
            if exact:
                total[place[e]] += weight[r] * value[e]
            else:
                add_compensated(total, lost, np.uint64(place[e]), weight[r] * value[e])
            all_equal = all_equal and value[e] == value[start]
        for k in range(rare_count):
            column = rank[indices[rare[k]]]
            centred = data[rare[k]] - origin[column]
            weighted = weight[r] * centred
            if exact:
                total[column] += weighted
            else:
                add_compensated(total, lost, np.uint64(column), weighted)
            place[end] = column
            value[end] = centred
            all_equal = all_equal and centred == value[start]
            visit = free[column]
            free[column] = visit + _ONE
            first[visit] = start
            last[visit] = end
            factor[visit] = weighted * centred if all_equal else weighted
            equal[visit] = all_equal
            end += _ONE


@compiled()
def _add_frequent(
    bounds: Places,
    weight: Float,
    entries: _Entries,
    starts: Places,
    gram: Float,
    exact: bool,
    additions: Int,
) -> None:
    """Add products of the first `FREQUENT` features, groups of rows at a time."""
    place, value = entries.place, entries.value
    count = min(starts.size, FREQUENT)
    rows = longest_chain(count)
    group = np.zeros((count, count))
    for r in range(weight.size):
        for p in range(bounds[r], bounds[r + 1]):
            if place[p] >= FREQUENT:
                break
            row = group[place[p]]
            weighted = weight[r] * value[p]
            for e in range(bounds[r], p + _ONE):
                row[place[e]] += weighted * value[e]
        if r + 1 == weight.size or (not exact and (r + 1) % rows == 0):
            for i in range(count):
                start = starts[i]
                for j in range(i + 1):
                    gram[start + np.uint64(j)] += group[i, j]
                    group[i, j] = 0.0
                additions[i] += not exact


@compiled()
def _add_rare(
    ends: Places,
    entries: _Entries,
    starts: Places,
    gram: Float,
    exact: bool,
    additions: Int,
) -> None:
    """Add products of the other features, with each other and with the first `FREQUENT`."""
    for feature in range(FREQUENT, ends.size):
        begin, end = ends[feature - 1], ends[feature]
        row = gram[starts[feature] :]
        visits = np.uint64(longest_chain(feature))
        if exact or end - begin <= visits // _DIRECT:
            _add_visits(begin, end, ends[-1], entries, row)
            additions[feature] += 0 if exact else end - begin
            continue
        group = np.zeros(feature + 1)
        while begin < end:
            next_begin = min(begin + visits, end)
            _add_visits(begin, next_begin, ends[-1], entries, group)
            for j in range(feature + 1):
                row[j] += group[j]
                group[j] = 0.0
            additions[feature] += 1
            begin = next_begin


@compiled()
def _add_visits(begin: int, end: int, visits: int, entries: _Entries, row: Float) -> None:
    """Add the products of some visits of a feature to a row."""
    place, value, first, last, factor, equal = entries
    for visit in range(begin, end):
        ahead = visit + _AHEAD
        if ahead < visits:
            for e in range(first[ahead], last[ahead] + 1, LINE // place.itemsize):
                prefetch(place, e)
            if not equal[ahead]:
                for e in range(first[ahead], last[ahead] + 1, _VALUES):
                    prefetch(value, e)
        added = factor[visit]
        if equal[visit]:
            for e in range(np.uint64(first[visit]), np.uint64(last[visit]) + _ONE):
                row[place[e]] += added
        else:
            for e in range(np.uint64(first[visit]), np.uint64(last[visit]) + _ONE):
                row[place[e]] += added * value[e]
