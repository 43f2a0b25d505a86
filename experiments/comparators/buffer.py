"""Row buffers of online learners, and pairwise hinge steps against buffered rows.

A buffer is a padded ragged matrix: values and column numbers ``(slots, width)``, and the number of
entries ``(slots,)``. Memory and time of a row depend on its stored entries.
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


def buffer_fault(values: Values) -> str | None:
    """The fault of a stored buffer, or None; a relation of `core.state.schema.Schema`."""
    lengths, indices = values["lengths"], values["kept_indices"]
    if lengths.max(initial=0) > indices.shape[-1]:
        return f"a row of {lengths.max()} entries is in a buffer of width {indices.shape[-1]}"
    return outside(indices, values["dimension"])


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
    """Store the row of entries ``start..end-1`` in a slot of the buffer."""
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
    """A gradient step on the sum over buffered rows ``b`` of ``max(0, 1 - e w'(x - b))``.

    Parameters
    ----------
    values, indices, start, end
        The row ``x``.
    sign
        ``e``: 1 for a positive row, -1 for a negative row.
    step
        Step size.
    kept_values, kept_indices, lengths, compared
        The buffered rows, and which of them enter the sum.
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
