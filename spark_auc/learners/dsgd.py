"""DSGD: stochastic gradient descent on random pairs of rows (Gu et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import NOT_0
from spark_auc.core.state.schema import Fields, reals
from spark_auc.core.types import Bool, Float, Index, Rows
from spark_auc.core.validation import check_above, check_at_least, check_whole
from spark_auc.learners.learner import Stored, entries, unweighted
from spark_auc.learners.linear import AveragedIterate, same_settings
from spark_auc.learners.pairs import AHEAD, draw_pairs

# Separates these random numbers from other uses of the same seed.
_PAIRS = 0xDA
# Smallest scale before rescaling: the average is a difference of sums that grow as 1 / scale, and
# loses at most three digits.
_SMALLEST_SCALE = 1e-3


@dataclass(eq=False)
class DSGD(AveragedIterate, Stored):
    """Doubly stochastic gradient descent on the regularised squared loss of all pairs of a block.

    In a stage of ``m`` rows, step ``t`` = 0, 1, .. draws a positive and a negative row with
    difference ``D`` and moves ``w`` by ``-gamma / (t + 1) (-2 P (1 - w'D) D + c w / sqrt(m))``
    [1]_ (Algorithm 2). ``P`` is the share of mixed pairs among the ordered pairs of the block, so
    that the expected step is that of a pair drawn from all ordered pairs. O(non-zeros of both
    rows) time per step, O(d) memory besides the block.

    The first steps of a stage must be short enough not to diverge, but the sum of the later steps
    grows only as ``log m``, too slowly for many features. With ``averaging``, all steps of a stage
    have size ``gamma``, and the weights are the average of the stage's iterates, which the next
    stage starts from. The influence of the start on the average decays as ``1 / m`` [2]_.

    Pairs are drawn within the rows of one call of `learn`. The same blocks in the same order give
    the same weights; `spark_auc.learners.blocks.blocks` cuts a stream into equal blocks.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    gamma
        First step size of a stage > 0; the paper searches ``1 .. 10^-4``.
    c
        The penalty is ``c / (2 sqrt(m)) |w|^2``; 1 in the paper.
    seed
        Seed of the pairs, at least 0.
    averaging
        Whether steps are constant and iterates are averaged; False as published.

    Attributes
    ----------
    scale, z : float and (d,)
        The iterate is ``scale z``.
    gain, lag, averaged : float, (d,) and int
        The average of the stage's ``averaged`` iterates is ``(gain z - lag) / averaged``.
    size
        Number ``m`` of rows of the stage; 0 before the first stage, which uses the block's rows.
    steps
        Number of steps in this stage.
    drawn
        Number of pairs drawn in all stages.

    References
    ----------
    .. [1] B. Gu, Z. Huo, H. Huang. Scalable and Efficient Pairwise Learning to Achieve Statistical
       Accuracy. AAAI 2019.
    .. [2] F. Bach, E. Moulines. Non-strongly-convex smooth stochastic approximation with
       convergence rate O(1/n). NIPS 2013.
    """

    FIELDS: ClassVar[Fields] = {
        "z": reals("d"),
        "lag": reals("d"),
        "scale": reals(rule=NOT_0),
    }

    gamma: float = 0.1
    c: float = 1.0
    seed: int = 0
    averaging: bool = False
    z: Float = field(init=False, repr=False)
    lag: Float = field(init=False, repr=False)
    scale: float = field(init=False, default=1.0)
    gain: float = field(init=False, default=0.0)
    averaged: int = field(init=False, default=0)
    size: int = field(init=False, default=0)
    steps: int = field(init=False, default=0)
    drawn: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        check_above("gamma", self.gamma, 0)
        check_at_least("c", self.c, 0)
        check_whole("seed", self.seed, 0)
        self.z, self.lag = np.zeros(self.dimension), np.zeros(self.dimension)

    def stage(self, size: int) -> None:
        """Start a stage of ``size`` rows at the current weights, and reset the step count.

        Raises
        ------
        ConfigError
            The size is not a whole number of at least 1.
        """
        check_whole("the rows of a stage", size, 1)
        self.z, self.lag = self.w, np.zeros(self.dimension)
        self.scale, self.gain, self.averaged = 1.0, 0.0, 0
        self.size, self.steps = size, 0

    def learn(self, X: Rows, y: Bool, weight: Float | None = None) -> None:
        """Make ``n`` steps on random pairs of rows ``(n, d)``, dense or CSR.

        Rows of a single class form no pairs and make no step.

        Raises
        ------
        ConfigError
            There are row weights.
        DataError
            The rows have another dimension.
        """
        unweighted(weight, "DSGD")
        rows = entries(X, self.dimension)
        positives, negatives = np.flatnonzero(y), np.flatnonzero(~y)
        if not (positives.size and negatives.size):
            return
        n = y.size
        self.scale, self.gain = _learn(
            *rows,
            positives,
            negatives,
            self.gamma,
            self.c / np.sqrt(self.size or n),
            2.0 * positives.size * negatives.size / (n * (n - 1.0)),
            self.seed,
            self.drawn,
            self.steps,
            self.averaging,
            self.scale,
            self.gain,
            self.z,
            self.lag,
        )
        self.averaged += n * self.averaging
        self.steps += n
        self.drawn += n

    def merge(self, other: Self, start: Self | None = None) -> Self:
        """Average two learners that drew pairs of different rows in parallel.

        Weights are averaged by the number of pairs of each learner; numbers of steps and pairs are
        added. This is an approximation: no pair joins rows of both learners.

        Parameters
        ----------
        other
            A learner with the same settings, in the same stage.
        start
            The learner from which both started; its steps count once.

        Raises
        ------
        ConfigError
            The settings differ.
        """
        same_settings(self, other)
        merged = type(self)(self.dimension, self.gamma, self.c, self.seed, self.averaging)
        before = start or merged
        own_pairs, other_pairs = self.drawn - before.drawn, other.drawn - before.drawn
        share = own_pairs / ((own_pairs + other_pairs) or 1)
        merged._set_merged(self, other, before, share)
        merged.size = self.size
        merged.steps = self.steps + other.steps - before.steps
        merged.drawn = before.drawn + own_pairs + other_pairs
        return merged


@compiled(fastmath={"reassoc", "contract"})
def _learn(
    values: Float,
    indices: Index,
    starts: Index,
    positives: NDArray[np.int64],
    negatives: NDArray[np.int64],
    gamma: float,
    penalty: float,
    mixed_share: float,
    seed: int,
    drawn: int,
    steps: int,
    averaging: bool,
    scale: float,
    gain: float,
    z: Float,
    lag: Float,
) -> tuple[float, float]:
    total = positives.size + negatives.size
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
            drawn + first,
            begins[:count],
            ends[:count],
        )
        for step in range(first, last):
            begin, end = begins[step - first], ends[step - first]
            product = 0.0
            for p in range(begin[0], end[0]):
                product += values[p] * z[indices[p]]
            for p in range(begin[1], end[1]):
                product -= values[p] * z[indices[p]]
            length = gamma if averaging else gamma / (steps + step + 1.0)
            change = 2.0 * mixed_share * length * (1.0 - scale * product)
            scale *= 1.0 - length * penalty
            if abs(scale) < _SMALLEST_SCALE:
                for j in range(z.size):
                    lag[j] -= gain * z[j]
                    z[j] *= scale
                gain, scale = 0.0, 1.0
            change /= scale
            for p in range(begin[0], end[0]):
                z[indices[p]] += change * values[p]
            for p in range(begin[1], end[1]):
                z[indices[p]] -= change * values[p]
            if averaging:
                for p in range(begin[0], end[0]):
                    lag[indices[p]] += gain * change * values[p]
                for p in range(begin[1], end[1]):
                    lag[indices[p]] -= gain * change * values[p]
                gain += scale
    return scale, gain
