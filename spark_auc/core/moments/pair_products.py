"""Products with ``Sigma`` of all pairs, without a matrix: one pass over the rows for all vectors.

With z_i = x_i'v, ``Sigma v = X'b`` for ``b_i = u_i (z_i - c_other'v) / n_own``, where own is the
row's class and other the opposite one (MBA, Eq. 8-9, without forming Sigma). Several vectors share
the decoding of the rows, and the accesses to memory, which take longer than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias, cast

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.kernels import LINE, compiled, prefetch, sparse_entries
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.row_source import Folding, State
from spark_auc.core.state.schema import ANY, Schema, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float, Index, Int

# The part of each row ``(n,)``, such as its fold.
PartOf: TypeAlias = Callable[[Batch], Int]
# Every row counts.
NO_PART = -1
# Vectors of one pass: more would not fit in the registers and caches of a processor.
_MOST = 40
# Doubles of a line of the processor's cache: so many vectors take less time together.
_DOUBLES = LINE // 8


@dataclass(frozen=True, eq=False)
class VectorSum(SchemaState):
    """A mergeable sum of arrays of one shape, such as vectors ``(d,)``."""

    SCHEMA: ClassVar[Schema] = Schema("VectorSum", 1, {"total": reals(*ANY)})

    total: Float

    def merge(self, other: VectorSum) -> VectorSum:
        """The sum of both."""
        return VectorSum(self.total + other.total)


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors to multiply by ``Sigma`` of the pairs of some rows.

    Parameters
    ----------
    columns
        Column moments of these rows.
    vectors : (d, k)
        The vectors.
    without
        The part whose rows are left out, or `NO_PART`.
    """

    columns: ColumnMoments
    vectors: Float
    without: int = NO_PART


def products(
    rows: Folding, blocks: Sequence[Vectors], origin: Float, part_of: PartOf | None = None
) -> list[Float]:
    """The products ``(d, k)`` of each block of vectors, in one pass for 40 vectors.

    Parameters
    ----------
    rows
        All rows.
    blocks
        The vectors.
    origin : (d,)
        Offsets to subtract from the columns; they change the rounding only.
    part_of
        The part of each row; needed where blocks leave out a part.
    """
    V = np.concatenate([block.vectors for block in blocks], axis=1)
    weight, opposite, without = (
        np.concatenate(values, axis=-1)
        for values in zip(*(_of_classes(block, origin) for block in blocks), strict=True)
    )
    out = np.concatenate(
        [
            _product(rows, V[:, c], opposite[:, c], weight[:, c], without[c], origin, part_of)
            for c in (slice(start, start + _MOST) for start in range(0, V.shape[1], _MOST))
        ],
        axis=1,
    )
    ends = np.cumsum([block.vectors.shape[1] for block in blocks])
    return np.split(out, ends[:-1], axis=1)


def _of_classes(block: Vectors, origin: Float) -> tuple[Float, Float, Int]:
    """Weights and opposite scores ``(2, k)`` of both classes, and the left out part ``(k,)``."""
    count = block.vectors.shape[1]
    weight = np.repeat(block.columns.weight[:, None], count, axis=1)
    opposite = ((block.columns.mean - origin) @ block.vectors)[::-1]
    return weight, opposite, np.full(count, block.without)


def _product(
    rows: Folding,
    V: Float,
    opposite: Float,
    weight: Float,
    without: Int,
    origin: Float,
    part_of: PartOf | None,
) -> Float:
    far = bool(origin.any())

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        out, panels = np.zeros_like(V), list[_Panel]()
        for batch in batches:
            X, y, side = batch.X, batch.y, (~batch.y).astype(np.int64)
            part = np.zeros(y.size, np.int64) if part_of is None else part_of(batch)
            if not (far or isinstance(X, np.ndarray) or without.size == 1):
                panels = panels or _panels(V, opposite, weight, without)
                rows_of_batch = *sparse_entries(X), side, part, batch.weights
                for panel in panels:
                    _add_product(*rows_of_batch, *panel)
                continue
            share = np.where(part[:, None] == without, 0.0, batch.weights[:, None] / weight[side])
            shift = opposite[side]
            if isinstance(X, np.ndarray):
                centred = X - origin if far else X
                out += centred.T @ (share * (centred @ V - shift))
            elif far:
                _add_far_product(*sparse_entries(X), V, shift, share, origin, out)
            else:
                columns = (values.ravel() for values in (V, shift, share, out))
                _add_product_of_one(*sparse_entries(X), *columns)
        if panels:
            out += np.hstack([panel.out for panel in panels])[:, : without.size]
        yield "product", VectorSum(out)

    result = rows.fold(
        fold, (VectorSum,), state_bytes=V.nbytes, what=f"{V.shape[1]} sums of {V.shape[0]} features"
    )
    return cast(VectorSum, result["product"]).total if result.states else np.zeros_like(V)


class _Panel(NamedTuple):
    """Vectors of a line of the processor's cache, and their products; see `_add_product`."""

    V: Float
    opposite: Float
    factor: Float
    without: Int
    out: Float


def _panels(V: Float, opposite: Float, weight: Float, without: Int) -> list[_Panel]:
    """Vectors in panels, the last with vectors of 0."""
    panels = []
    for first in range(0, without.size, _DOUBLES):
        own = slice(first, first + _DOUBLES)
        count = without[own].size
        table, out = (_lines(V.shape[0]) for _ in range(2))
        shift, factor = np.zeros((2, 2, _DOUBLES))
        part = np.full(_DOUBLES, NO_PART)
        table[:, :count], part[:count] = V[:, own], without[own]
        shift[:, :count], factor[:, :count] = opposite[:, own], 1.0 / weight[:, own]
        panels.append(_Panel(table, shift, factor, part, out))
    return panels


def _lines(count: int) -> Float:
    """Zeros in as many lines of the processor's cache, ``(count, 8)``.

    Elsewhere a row of 8 doubles is in two lines, of which one is prefetched.
    """
    memory = np.zeros((count + 1) * _DOUBLES)
    start = -memory.ctypes.data % LINE // memory.itemsize
    return memory[start : start + count * _DOUBLES].reshape(count, _DOUBLES)


# The loops over columns of `_add_product` take three times as long for one.
@compiled()
def _add_product_of_one(
    data: Float,
    indices: Index,
    indptr: Index,
    v: Float,
    opposite: Float,
    share: Float,
    out: Float,
) -> None:
    for i in range(share.size):
        # The processor waits for memory most of the time, unless it is asked early.
        for p in range(indptr[i], indptr[i + 1]):
            prefetch(out, indices[p])
        if i + 1 < share.size:
            for p in range(indptr[i + 1], indptr[i + 2]):
                prefetch(v, indices[p])
        score = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            score += data[p] * v[indices[p]]
        score = share[i] * (score - opposite[i])
        for p in range(indptr[i], indptr[i + 1]):
            out[indices[p]] += data[p] * score


@compiled()
def _add_product(
    data: Float,
    indices: Index,
    indptr: Index,
    side: Int,
    part: Int,
    weights: Float,
    V: Float,
    opposite: Float,
    factor: Float,
    without: Int,
    out: Float,
) -> None:
    """Add the products of rows with a panel of vectors ``(d, 8)``.

    The number of a row's class is its ``side``, by which vectors have their opposite scores and
    factors of weights ``(2, 8)``; each leaves out the rows of the part ``without`` ``(8,)``.
    """
    score = np.empty(_DOUBLES)
    for i in range(side.size):
        for p in range(indptr[i], indptr[i + 1]):
            prefetch(out[indices[p]], 0)
        if i + 1 < side.size:
            for p in range(indptr[i + 1], indptr[i + 2]):
                prefetch(V[indices[p]], 0)
        for c in range(_DOUBLES):
            score[c] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            x, vectors = data[p], V[indices[p]]
            for c in range(_DOUBLES):
                score[c] += x * vectors[c]
        k = side[i]
        for c in range(_DOUBLES):
            share = 0.0 if part[i] == without[c] else weights[i] * factor[k, c]
            score[c] = share * (score[c] - opposite[k, c])
        for p in range(indptr[i], indptr[i + 1]):
            x, sums = data[p], out[indices[p]]
            for c in range(_DOUBLES):
                sums[c] += x * score[c]


@compiled()
def _add_far_product(
    data: Float,
    indices: Index,
    indptr: Index,
    V: Float,
    opposite: Float,
    share: Float,
    origin: Float,
    out: Float,
) -> None:
    # The centred value of an entry that is not stored is minus the origin. Sums over all entries
    # and over stored entries run in the same order, so that their difference is exactly 0 for a row
    # or a column that stores every entry.
    count = V.shape[1]
    origin_score, total, stored = np.zeros(count), np.zeros(count), np.zeros(V.shape)
    for j in range(origin.size):
        for c in range(count):
            origin_score[c] += origin[j] * V[j, c]
    score, stored_score = np.empty(count), np.empty(count)
    for i in range(share.shape[0]):
        for c in range(count):
            score[c] = stored_score[c] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            for c in range(count):
                score[c] += (data[p] - origin[j]) * V[j, c]
                stored_score[c] += origin[j] * V[j, c]
        for c in range(count):
            score[c] -= origin_score[c] - stored_score[c]
            score[c] = share[i, c] * (score[c] - opposite[i, c])
            total[c] += score[c]
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            for c in range(count):
                out[j, c] += (data[p] - origin[j]) * score[c]
                stored[j, c] += score[c]
    for j in range(origin.size):
        for c in range(count):
            out[j, c] -= origin[j] * (total[c] - stored[j, c])
