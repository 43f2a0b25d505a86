"""Products with ``Sigma`` of all pairs, without a matrix: one pass over the rows for all vectors.

With z_i = x_i'v, ``Sigma v = X'b`` for ``b_i = u_i (z_i - c_other'v) / n_own``, where own is the
row's class and other the opposite one (MBA, Eq. 8-9, without forming Sigma). Several vectors share
the decoding of the rows, and the accesses to memory, which take longer than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, cast

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
# Doubles of a line of the processor's cache.
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
    dimension, count, far = rows.dimension, V.shape[1], bool(origin.any())
    more = _padded(count) - count
    opposite = np.hstack([opposite, np.zeros((2, more))])
    weight = np.hstack([weight, np.ones((2, more))])
    without = np.append(without, np.full(more, NO_PART))

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        table, out = (_lines(dimension, without.size) for _ in range(2))
        table[:, :count] = V
        for batch in batches:
            side = (~batch.y).astype(np.int64)
            part = np.zeros(side.size, np.int64) if part_of is None else part_of(batch)
            share = np.where(part[:, None] == without, 0.0, batch.weights[:, None] / weight[side])
            X, shift = batch.X, opposite[side]
            if isinstance(X, np.ndarray):
                centred = X - origin if far else X
                out += centred.T @ (share * (centred @ table - shift))
            elif far:
                _add_far_product(*sparse_entries(X), table, shift, share, origin, out)
            elif without.size == 1:
                columns = (values.ravel() for values in (table, shift, share, out))
                _add_product_of_one(*sparse_entries(X), *columns)
            else:
                _add_product(*sparse_entries(X), table, shift, share, out)
        yield "product", VectorSum(np.ascontiguousarray(out[:, :count]))

    result = rows.fold(
        fold, (VectorSum,), state_bytes=V.nbytes, what=f"{V.shape[1]} sums of {dimension} features"
    )
    return cast(VectorSum, result["product"]).total if result.states else np.zeros_like(V)


def _padded(count: int) -> int:
    """Least number of columns, from ``count``, of which no row spans more lines than it must."""
    return min(1 << (count - 1).bit_length(), -(-count // _DOUBLES) * _DOUBLES)


def _lines(count: int, width: int) -> Float:
    """Zeros ``(count, width)`` that begin with a line of the processor's cache.

    Rows of 5 doubles anywhere take 1.5 lines, and the second is not prefetched.
    """
    memory = np.zeros(count * width + _DOUBLES)
    start = -memory.ctypes.data % LINE // memory.itemsize
    return memory[start : start + count * width].reshape(count, width)


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
    V: Float,
    opposite: Float,
    share: Float,
    out: Float,
) -> None:
    score = np.empty(V.shape[1])
    for i in range(share.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            for c in range(0, score.size, _DOUBLES):
                prefetch(out[indices[p]], c)
        if i + 1 < share.shape[0]:
            for p in range(indptr[i + 1], indptr[i + 2]):
                for c in range(0, score.size, _DOUBLES):
                    prefetch(V[indices[p]], c)
        for c in range(score.size):
            score[c] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            x, vectors = data[p], V[indices[p]]
            for c in range(score.size):
                score[c] += x * vectors[c]
        for c in range(score.size):
            score[c] = share[i, c] * (score[c] - opposite[i, c])
        for p in range(indptr[i], indptr[i + 1]):
            x, sums = data[p], out[indices[p]]
            for c in range(score.size):
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
