"""Sums of columns whose error does not grow with the number of rows.

Equal values, added one by one to a growing sum, are all rounded in one direction. After n
additions the error of the sum may be n / 2 units in its last place: rows of few distinct values do
this.
"""

from __future__ import annotations

import numpy as np

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Float, Index, Integer

# The relative error of one rounded addition or product.
UNIT = float(np.finfo(float).eps) / 2
# Greatest number of products that are added one by one. Their sum is then added to the total.
CHAIN = 512
_BLOCK = 32


def rounded(operations: int | float, sums: Float) -> Float:
    """Bound on the error of non-negative sums ``(d,)`` by so many operations; 0 after an overflow.

    The error of an infinite sum is not known: what reads it must refuse it.
    """
    return np.where(np.isfinite(sums), operations * UNIT * sums, 0.0)


def dense_sums(values: Float) -> Float:
    """Sums ``(d,)`` of the columns of ``values`` ``(n, d)``, by blocks of rows, of blocks, ..

    The relative error is at most ``32 log32(n)`` times `UNIT` for values of one sign.
    """
    while len(values) > _BLOCK:
        blocks = len(values) // _BLOCK
        whole = values[: blocks * _BLOCK].reshape(blocks, _BLOCK, -1).sum(axis=1)
        rest = values[blocks * _BLOCK :].sum(axis=0)
        values = np.vstack([whole, rest])
    total: Float = values.sum(axis=0)
    return total


def sparse_sums(columns: Index, values: Float, dimension: int) -> Float:
    """Sums ``(d,)`` of ``values`` ``(entries,)`` by their column, with compensated errors."""
    total, lost = np.zeros((2, dimension))
    _add(columns, values, total, lost)
    return total + lost


@compiled()
def add_compensated(total: Float, lost: Float, column: Integer, value: float) -> None:
    """Add to a sum, and what the addition rounds off to ``lost`` (Neumaier 1974)."""
    before = total[column]
    after = before + value
    if abs(before) >= abs(value):
        lost[column] += (before - after) + value
    else:
        lost[column] += (value - after) + before
    total[column] = after


@compiled()
def _add(columns: Index, values: Float, total: Float, lost: Float) -> None:
    for k in range(values.size):
        add_compensated(total, lost, np.uint64(columns[k]), values[k])
