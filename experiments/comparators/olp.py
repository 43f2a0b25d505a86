"""OLP: online learning with pairwise losses against a buffer (Kar et al. 2013)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from experiments.comparators.buffer import buffer_fault, hinge_step, keep, widened
from experiments.comparators.linear import Linear
from spark_auc.core.kernels import compiled
from spark_auc.core.noise import uniform
from spark_auc.core.state.schema import Fields, Size, array, reals
from spark_auc.core.types import Bool, Float, Index
from spark_auc.core.validation import check_above, check_whole
from spark_auc.errors import ConfigError


@dataclass(eq=False)
class OLP(Linear):
    """Pairwise hinge loss of each row, averaged over one buffer for both classes.

    Row ``t``, ``x`` of sign ``e``, makes a projected gradient step against the ``m`` buffered rows;
    rows of its own class have no loss:

        v <- P(v + eta / sqrt(t) / m sum e (x - b)), over b of the other class, e v'(x - b) <= 1,

    with the projection ``P`` onto the ball of ``radius``. The row then enters the buffer by
    subsampling with replacement (RS-x). While the buffer has empty slots, the row fills one. The
    first row without an empty slot redraws all slots, with replacement, from the buffer and the
    row. Later rows take each slot with probability ``1 / t``. Each slot is thus an independent
    uniform draw from the rows so far. The weights are the mean of the iterates ``v`` after rows
    1..t, for which the regret is bounded.

    Time per row is O(d + buffer s) for ``s`` stored entries per row. Memory is O(d) plus 12 bytes
    for each of ``buffer x width`` entries; the width is the largest number of stored entries.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    eta
        First step size > 0.
    radius
        Bound on ``|v|``; infinity for no bound.
    buffer
        Number of slots.
    seed
        Seed of the subsampling, at least 0.

    References
    ----------
    Kar, Sriperumbudur, Jain, Karnick: On the Generalization Ability of Online Learning Algorithms
    for Pairwise Loss Functions, ICML 2013, Algorithms 1-2.
    """

    FIELDS: ClassVar[Fields] = {
        "buffer": Size("buffer", 1),
        "iterate": reals("d"),
        "total": reals("d"),
        "kept_values": reals("buffer", "width"),
        "kept_indices": array("<u4", "buffer", "width"),
        "kept_positive": array("|b1", "buffer"),
        "lengths": array("<u4", "buffer"),
    }
    RELATIONS = (buffer_fault,)

    eta: float = 1.0
    radius: float = math.inf
    buffer: int = 500
    seed: int = 0
    rows: int = field(init=False, default=0)
    iterate: Float = field(init=False, repr=False)
    total: Float = field(init=False, repr=False)
    kept_values: Float = field(init=False, repr=False)
    kept_indices: Index = field(init=False, repr=False)
    kept_positive: Bool = field(init=False, repr=False)
    lengths: Index = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_above("eta", self.eta, 0)
        check_whole("buffer", self.buffer, 1)
        check_whole("seed", self.seed, 0)
        if not self.radius > 0:
            raise ConfigError(
                f"found radius = {self.radius!r}, expected a number above 0; set radius to "
                "infinity for no bound"
            )
        super().__post_init__()
        self.iterate = np.zeros(self.dimension)
        self.total = np.zeros(self.dimension)
        self.kept_values = np.zeros((self.buffer, 0))
        self.kept_indices = np.zeros((self.buffer, 0), np.uint32)
        self.kept_positive = np.zeros(self.buffer, np.bool_)
        self.lengths = np.zeros(self.buffer, np.uint32)

    def _take(self, values: Float, indices: Index, starts: Index, y: Bool) -> None:
        self.kept_values = widened(self.kept_values, starts)
        self.kept_indices = widened(self.kept_indices, starts)
        _learn(
            values,
            indices,
            starts,
            y,
            self.rows,
            float(self.eta),
            float(self.radius),
            self.seed,
            self.kept_values,
            self.kept_indices,
            self.kept_positive,
            self.lengths,
            self.iterate,
            self.total,
        )
        self.rows += y.size
        self.w = self.total / max(self.rows, 1)


@compiled()
def _learn(
    values: Float,
    indices: Index,
    starts: Index,
    y: Bool,
    rows: int,
    eta: float,
    radius: float,
    seed: int,
    kept_values: Float,
    kept_indices: Index,
    kept_positive: Bool,
    lengths: Index,
    v: Float,
    total: Float,
) -> None:
    buffer = lengths.size
    for r in range(y.size):
        t = rows + r + 1
        filled = min(t - 1, buffer)
        hinge_step(
            values,
            indices,
            starts[r],
            starts[r + 1],
            1.0 if y[r] else -1.0,
            eta / np.sqrt(t) / max(filled, 1),
            kept_values[:filled],
            kept_indices[:filled],
            lengths[:filled],
            kept_positive[:filled] != y[r],
            v,
        )
        if radius < np.inf:
            norm = np.sqrt(np.sum(v * v))
            if norm > radius:
                v *= radius / norm
        total += v
        if t == buffer + 1:
            _redraw(seed, t, kept_values, kept_indices, kept_positive, lengths)
        for slot in range(buffer):
            if slot == t - 1 if t <= buffer else int(uniform(seed, slot, t) * t) == t - 1:
                kept_positive[slot] = y[r]
                keep(
                    values,
                    indices,
                    starts[r],
                    starts[r + 1],
                    kept_values,
                    kept_indices,
                    lengths,
                    slot,
                )


@compiled()
def _redraw(
    seed: int,
    t: int,
    kept_values: Float,
    kept_indices: Index,
    kept_positive: Bool,
    lengths: Index,
) -> None:
    """Redraw each slot from the full buffer and row ``t``; row ``t`` takes slots with ``t - 1``."""
    values, indices = kept_values.copy(), kept_indices.copy()
    positives, counts = kept_positive.copy(), lengths.copy()
    for slot in range(lengths.size):
        drawn = int(uniform(seed, slot, t) * t)
        if drawn < lengths.size:
            kept_values[slot], kept_indices[slot] = values[drawn], indices[drawn]
            kept_positive[slot], lengths[slot] = positives[drawn], counts[drawn]
