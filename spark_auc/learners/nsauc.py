"""NSAUC: averaged stochastic subgradient descent on the pairwise hinge (Khalid et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Float, Index, Places, Rows
from spark_auc.core.validation import check_above, check_at_least, check_whole
from spark_auc.errors import ConfigError
from spark_auc.learners.learner import entries, unweighted
from spark_auc.learners.linear import SMALLEST_SCALE, AveragedIterate
from spark_auc.learners.pairs import AHEAD, add_row, draw_pairs, row_product

_Rows = tuple[Float, Index, Places]
_LOSSES = "hinge", "squared_hinge"
# Separates these random numbers from other uses of the same seed.
_PAIRS = 0xA5


@dataclass(eq=False)
class NSAUC(AveragedIterate):
    """Averaged stochastic subgradient descent on the regularised hinge loss of all pairs.

    The objective is ``lambda2/2 |w|^2 + E[loss(w'D)]`` over the differences ``D`` of a positive
    and a negative row. Step ``t`` = 1, 2, .. draws a pair of the block and moves ``w`` by
    ``-loss'(w'D) D / (lambda2 (t + t0))``. Every ``rskip`` steps ``w`` shrinks by the share
    ``rskip / (t + t0)``, and every ``askip`` steps the iterate is added to the average [1]_
    (Algorithm 3; the printed average divides by the number of iterates minus one). O(non-zeros of
    both rows) time per step: iterate and average are scaled vectors, so that shrinking and
    averaging take O(1). O(d) memory besides the block.

    Pairs are drawn within the rows of one call of `learn`. The same blocks in the same order give
    the same weights; `spark_auc.learners.blocks.blocks` cuts a stream into equal blocks.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    gamma
        First step size > 0, which defines ``t0 = 1 / (gamma lambda2)``. The paper chooses ``t0``
        by experiment and prints no value; ``gamma`` does not depend on ``lambda2``.
    lambda2
        Ridge factor; the paper searches ``10^-10 .. 10^-7``. With 0, all steps have size
        ``gamma``.
    loss
        ``"hinge"``, ``max(0, 1 - z)``, or ``"squared_hinge"``, ``max(0, 1 - z)^2 / 2``, whose
        steps the paper's text describes and which needs ``gamma`` below ``2 / |D|^2``.
    averaging
        Whether the weights are the average of the iterates; without it they are the last iterate,
        as in NSVMSGD2.
    rskip, askip
        Number of steps between two shrinkings of ``w``, and between two averaged iterates. 16 is
        customary in SVMSGD2; the paper prints no value.
    seed
        Seed of the pairs, at least 0.

    Attributes
    ----------
    scale, z, gain, lag, averaged
        See `AveragedIterate`.
    steps
        Number of steps.

    References
    ----------
    .. [1] M. Khalid, I. Ray, H. Chitsaz. Scalable Nonlinear AUC Maximization Methods. ECML PKDD
       2018.
    """

    COUNTS = ("steps",)

    gamma: float = 1.0
    lambda2: float = 1e-6
    loss: str = "hinge"
    averaging: bool = True
    rskip: int = 16
    askip: int = 16
    seed: int = 0
    steps: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        check_above("gamma", self.gamma, 0)
        check_at_least("lambda2", self.lambda2, 0)
        check_whole("rskip", self.rskip, 1)
        check_whole("askip", self.askip, 1)
        check_whole("seed", self.seed, 0)
        if self.loss not in _LOSSES:
            raise ConfigError(
                f"found loss = {self.loss!r}, expected {' or '.join(map(repr, _LOSSES))}; set "
                "loss to one of these"
            )
        super().__post_init__()

    def learn(self, X: Rows, y: Bool, weight: Float | None = None) -> None:
        """Make ``n`` steps on random pairs of rows; see `Learner.learn`.

        Rows of a single class form no pairs and make no step.
        """
        unweighted(weight, "NSAUC")
        rows = _rows(X, self.dimension)
        positives, negatives = np.flatnonzero(y), np.flatnonzero(~y)
        if not (positives.size and negatives.size):
            return
        self.scale, self.gain, added = _learn(
            *rows,
            positives,
            negatives,
            self.gamma,
            self.lambda2,
            self.loss == "squared_hinge",
            self.rskip,
            self.askip if self.averaging else 0,
            self.seed,
            self.steps,
            self.scale,
            self.gain,
            self.z,
            self.lag,
        )
        self.averaged += added
        self.steps += y.size


def _rows(X: Rows, dimension: int) -> _Rows:
    """Rows as `entries` returns them; dense rows have empty ``indices``."""
    if not isinstance(X, np.ndarray):
        values, indices, row_starts = entries(X, dimension)
        return values, indices, row_starts.astype(np.uint64)
    _, no_indices, _ = entries(X[:0], dimension)
    starts = np.arange(X.shape[0] + 1, dtype=np.uint64) * np.uint64(dimension)
    return np.ascontiguousarray(X, float).ravel(), no_indices, starts


@compiled()
def _learn(
    values: Float,
    indices: Index,
    starts: Places,
    positives: NDArray[np.int64],
    negatives: NDArray[np.int64],
    gamma: float,
    lambda2: float,
    squared: bool,
    rskip: int,
    askip: int,
    seed: int,
    steps: int,
    scale: float,
    gain: float,
    z: Float,
    lag: Float,
) -> tuple[float, float, int]:
    total, added = positives.size + negatives.size, 0
    rows = np.empty((AHEAD, 2), np.int64)
    begins, ends = np.empty((AHEAD, 2), np.uint64), np.empty((AHEAD, 2), np.uint64)
    for first in range(0, total, AHEAD):
        last = min(first + AHEAD, total)
        count = last - first
        draw_pairs(
            values,
            indices,
            starts,
            positives,
            negatives,
            seed,
            _PAIRS,
            steps + first,
            rows[:count],
            begins[:count],
            ends[:count],
        )
        for step in range(first, last):
            begin, end = begins[step - first], ends[step - first]
            product = row_product(values, indices, begin[0], end[0], z)
            product -= row_product(values, indices, begin[1], end[1], z)
            missing = 1.0 - scale * product
            t = steps + step + 1
            length = gamma / (1.0 + gamma * lambda2 * t)
            if missing > 0.0:
                change = length * (missing if squared else 1.0) / scale
                add_row(change, values, indices, begin[0], end[0], z)
                add_row(-change, values, indices, begin[1], end[1], z)
                if gain != 0.0:
                    add_row(gain * change, values, indices, begin[0], end[0], lag)
                    add_row(-gain * change, values, indices, begin[1], end[1], lag)
            if t % rskip == 0:
                scale *= 1.0 - rskip * lambda2 * length
                if scale < SMALLEST_SCALE:
                    for j in range(z.size):
                        lag[j] -= gain * z[j]
                        z[j] *= scale
                    gain, scale = 0.0, 1.0
            if askip and t % askip == 0:
                gain += scale
                added += 1
    return scale, gain, added
