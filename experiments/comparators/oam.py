"""OAM: online AUC maximization with a reservoir of rows of each class (Zhao et al. 2011)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from experiments.comparators.buffer import add, buffer_fault, dot, hinge_step, keep, widened
from experiments.comparators.linear import Linear
from spark_auc.core.kernels import compiled
from spark_auc.core.noise import uniform
from spark_auc.core.state.rules import COUNTS
from spark_auc.core.state.schema import Fields, Size, array, reals
from spark_auc.core.types import Bool, Float, Index
from spark_auc.core.validation import check_above, check_whole


@dataclass(eq=False)
class OAM(Linear):
    """Pairwise hinge loss of each row against a uniform sample of the other class.

    A row ``x`` of sign ``e`` is compared with the buffered rows ``b`` of the other class with
    weight ``C_t = C max(1, n_o / buffer)``, where ``n_o`` is the number of rows of that class so
    far. OAMseq makes a passive-aggressive step for each ``b``, in order of slots,

        w <- w + min(C_t / 2, max(0, 1 - e w'(x - b)) / |x - b|^2) e (x - b),

    and OAMgra makes one step ``w <- w + C_t / 2 sum e (x - b)`` over the rows ``b`` with
    ``e w'(x - b) <= 1``. The row enters the buffer of its class by reservoir sampling, whose
    random numbers depend on ``seed`` and the count of the class only.

    Time per row is O(buffer s) for ``s`` stored entries per row. Memory is 24 bytes for each of
    ``buffer x width`` entries; the width is the largest number of stored entries of a row.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    penalty
        ``C > 0``.
    buffer
        Number of slots of each class.
    sequential
        True for OAMseq, False for OAMgra.
    seed
        Seed of the reservoirs, at least 0.

    References
    ----------
    Zhao, Hoi, Jin, Yang: Online AUC Maximization, ICML 2011, Algorithms 1-4.
    """

    FIELDS: ClassVar[Fields] = {
        "buffer": Size("buffer", 1),
        "seen": array("<i8", 2, rule=COUNTS),
        "kept_values": reals(2, "buffer", "width"),
        "kept_indices": array("<u4", 2, "buffer", "width"),
        "lengths": array("<u4", 2, "buffer"),
    }
    RELATIONS = (buffer_fault,)

    penalty: float = 0.1
    buffer: int = 100
    sequential: bool = True
    seed: int = 0
    seen: NDArray[np.int64] = field(init=False, repr=False)
    kept_values: Float = field(init=False, repr=False)
    kept_indices: Index = field(init=False, repr=False)
    lengths: Index = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_above("penalty", self.penalty, 0)
        check_whole("buffer", self.buffer, 1)
        check_whole("seed", self.seed, 0)
        super().__post_init__()
        self.seen = np.zeros(2, np.int64)
        self.kept_values = np.zeros((2, self.buffer, 0))
        self.kept_indices = np.zeros((2, self.buffer, 0), np.uint32)
        self.lengths = np.zeros((2, self.buffer), np.uint32)

    def _take(self, values: Float, indices: Index, starts: Index, y: Bool) -> None:
        self.kept_values = widened(self.kept_values, starts)
        self.kept_indices = widened(self.kept_indices, starts)
        _learn(
            values,
            indices,
            starts,
            y,
            float(self.penalty),
            self.seed,
            self.sequential,
            self.seen,
            self.kept_values,
            self.kept_indices,
            self.lengths,
            self.w,
        )


@compiled(error_model="numpy")
def _learn(
    values: Float,
    indices: Index,
    starts: Index,
    y: Bool,
    penalty: float,
    seed: int,
    sequential: bool,
    seen: NDArray[np.int64],
    kept_values: Float,
    kept_indices: Index,
    lengths: Index,
    w: Float,
) -> None:
    buffer = lengths.shape[1]
    x = np.zeros(w.size)
    all_slots = np.ones(buffer, np.bool_)
    for r in range(y.size):
        start, end = starts[r], starts[r + 1]
        own = 1 if y[r] else 0
        sign = 1.0 if y[r] else -1.0
        seen[own] += 1
        slot = seen[own] - 1
        if slot >= buffer:
            slot = int(uniform(seed, own, seen[own]) * seen[own])
        if slot < buffer:
            keep(
                values,
                indices,
                start,
                end,
                kept_values[own],
                kept_indices[own],
                lengths[own],
                slot,
            )
        other = 1 - own
        count = min(seen[other], buffer)
        ceiling = penalty * max(1.0, seen[other] / buffer) / 2
        if sequential:
            _sequential(
                values,
                indices,
                start,
                end,
                sign,
                ceiling,
                kept_values[other, :count],
                kept_indices[other, :count],
                lengths[other, :count],
                x,
                w,
            )
        else:
            hinge_step(
                values,
                indices,
                start,
                end,
                sign,
                ceiling,
                kept_values[other, :count],
                kept_indices[other, :count],
                lengths[other, :count],
                all_slots,
                w,
            )


@compiled(error_model="numpy")
def _sequential(
    values: Float,
    indices: Index,
    start: int,
    end: int,
    sign: float,
    ceiling: float,
    kept_values: Float,
    kept_indices: Index,
    lengths: Index,
    x: Float,
    w: Float,
) -> None:
    """The steps of OAMseq; ``x`` ``(d,)`` is a work array, zero before and after."""
    score, square, total = 0.0, 0.0, 0.0
    for p in range(start, end):
        x[indices[p]] = values[p]
        score += values[p] * w[indices[p]]
        square += values[p] * values[p]
    # The steps along x are applied together at the end; until then w lacks total * x.
    for k in range(lengths.size):
        product, own = 0.0, 0.0
        for p in range(lengths[k]):
            product += kept_values[k, p] * x[kept_indices[k, p]]
            own += kept_values[k, p] * kept_values[k, p]
        other = dot(kept_values[k], kept_indices[k], 0, lengths[k], w) + total * product
        loss = 1.0 - sign * (score - other)
        distance = square + own - 2 * product
        if loss > 0.0:
            tau = ceiling if loss >= ceiling * distance else loss / distance
            add(kept_values[k], kept_indices[k], 0, lengths[k], -sign * tau, w)
            total += sign * tau
            score += sign * tau * (square - product)
    add(values, indices, start, end, total, w)
    for p in range(start, end):
        x[indices[p]] = 0.0
