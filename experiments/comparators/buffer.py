"""Buffers of rows that learners keep for comparison, and the pairwise hinge against them.

A buffer is a ragged matrix of fixed width: values and column numbers ``(slots, width)`` and the
number of entries ``(slots,)``. Sparse rows thus cost their entries, in memory and in time, and
dense rows are those with all entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import outside
from spark_auc.core.state.schema import Values
from spark_auc.core.types import Bool, Float, Index


def widened(buffer: NDArray[Any], starts: Index) -> NDArray[Any]:
    """The buffer ``(..., width)``, padded to hold the longest row that begins at ``starts``."""
    missing = int(np.diff(starts).max(initial=0)) - buffer.shape[-1]
    if missing <= 0:
        return buffer
    return np.pad(buffer, [(0, 0)] * (buffer.ndim - 1) + [(0, missing)])


def not_kept(values: Values) -> str | None:
    """What is wrong with a stored buffer, if anything is; see `core.state.schema.Schema`."""
    lengths, kept = values["lengths"], values["kept_indices"]
    if lengths.max(initial=0) > kept.shape[-1]:
        return f"a row of {lengths.max()} entries is kept in {kept.shape[-1]}"
    return outside(kept, values["dimension"])


@compiled()
def dot(values: Float, indices: Index, start: int, end: int, w: Float) -> float:
    """The product of ``w`` and the row of entries ``start..end-1``."""
    total = 0.0
    for p in range(start, end):
        total += values[p] * w[indices[p]]
    return total


@compiled()
def add(values: Float, indices: Index, start: int, end: int, factor: float, w: Float) -> None:
    """Add ``factor`` times the row of entries ``start..end-1`` to ``w``."""
    for p in range(start, end):
        w[indices[p]] += factor * values[p]


@compiled()
def keep(
    values: Float,
    indices: Index,
    start: int,
    end: int,
    kept_values: Float,
    kept_indices: Index,
    lengths: Index,
    slot: int,
) -> None:
    """Put the row of entries ``start..end-1`` into a slot of the buffer."""
    lengths[slot] = end - start
    for p in range(end - start):
        kept_values[slot, p] = values[start + p]
        kept_indices[slot, p] = indices[start + p]


@compiled()
def hinge_step(
    values: Float,
    indices: Index,
    start: int,
    end: int,
    sign: float,
    step: float,
    kept_values: Float,
    kept_indices: Index,
    lengths: Index,
    compared: Bool,
    w: Float,
) -> None:
    """A step against the sum over kept rows ``b`` of the slopes of ``max(0, 1 - e w'(x - b))``.

    Parameters
    ----------
    values, indices, start, end
        The row ``x``.
    sign
        ``e``: 1 where the row is positive, else -1.
    step
        Length of the step.
    kept_values, kept_indices, lengths, compared
        The kept rows, and which of them count.
    w
        Weights ``(d,)``, changed in place.
    """
    score = dot(values, indices, start, end, w)
    violating = np.zeros(lengths.size, np.bool_)
    for k in range(lengths.size):
        if compared[k]:
            other = dot(kept_values[k], kept_indices[k], 0, lengths[k], w)
            violating[k] = sign * (score - other) <= 1.0
    total = 0.0
    for k in range(lengths.size):
        if violating[k]:
            add(kept_values[k], kept_indices[k], 0, lengths[k], -sign * step, w)
            total += sign * step
    add(values, indices, start, end, total, w)
