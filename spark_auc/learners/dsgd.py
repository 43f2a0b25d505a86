"""DSGD: stochastic gradient descent on random pairs of rows (Gu et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.state.schema import Fields, array
from spark_auc.core.types import Bool, Float, Index, Rows
from spark_auc.core.validation import check_above, check_at_least, check_whole
from spark_auc.errors import ConfigError
from spark_auc.learners.learner import entries, unweighted
from spark_auc.learners.linear import SMALLEST_SCALE, AveragedIterate
from spark_auc.learners.losses import (
    EXPONENTIAL,
    LOSSES,
    implicit_exponential,
    loss_descent,
)
from spark_auc.learners.pairs import AHEAD, add_row, draw_pairs, row_product

# Separates these random numbers from other uses of the same seed.
_PAIRS = 0xDA
_PAIRS_OF = ("mixed", "uniform")


@dataclass(eq=False)
class DSGD(AveragedIterate):
    """Doubly stochastic gradient descent on the regularised loss of all pairs of a block.

    In a stage of ``m`` rows, step ``t`` = 0, 1, .. draws a pair of rows with margin ``z = w'D`` and
    moves ``w`` by ``-gamma_t (phi'(z) D + c w / sqrt(m))`` [1]_ (Algorithm 2 and Eq. 8), where
    ``D`` is the row of the higher label minus the other. O(non-zeros of both rows) time per step,
    O(d) memory besides the block.

    The published pairs are "uniform": any two rows, and equal labels add nothing. "mixed" pairs are
    of a positive and a negative row, and their loss is multiplied by the share ``P`` of mixed pairs
    among the ordered pairs of the block, so that the expected step is the same. Rare classes then
    cost no steps.

    The published steps are ``gamma / (t + 1)`` and, in theory, ``1 / (mu (t + 1))`` with
    ``mu = c / sqrt(m)``, whose first step forgets where the stage began. The sum of the former
    grows only as ``log m``, too slowly for many features. With ``averaging``, all steps of a stage
    have size ``gamma``, and the weights are the average of the stage's iterates, which the next
    stage starts from. The influence of the start on the average decays as ``1 / m`` [2]_. Constant
    steps on the exponential loss, whose curvature has no bound, are implicit: they take the slope
    at the margin after the step [3]_, with the bound ``2 |x|^2 + 2 |x'|^2`` on ``|D|^2``.

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
    loss
        One of `spark_auc.learners.losses.LOSSES`; "squared" in the paper's experiments.
    pairs
        "mixed", or "uniform" as published.
    theory
        Whether steps are ``1 / (mu (t + 1))``; ``gamma`` has no effect then.

    Attributes
    ----------
    scale, z, gain, lag, averaged
        See `AveragedIterate`; the iterates averaged are those of the stage.
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
    .. [3] B. Kulis, P. L. Bartlett. Implicit online learning. ICML 2010.
    """

    COUNTS = ("drawn", "steps")
    FIELDS: ClassVar[Fields] = {
        # States of earlier versions have none of these.
        "loss": array("U", optional=True),
        "pairs": array("U", optional=True),
        "theory": array("|b1", optional=True),
    }

    gamma: float = 0.1
    c: float = 1.0
    seed: int = 0
    averaging: bool = False
    loss: str = "squared"
    pairs: str = "mixed"
    theory: bool = False
    size: int = field(init=False, default=0)
    steps: int = field(init=False, default=0)
    drawn: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        check_above("gamma", self.gamma, 0)
        check_at_least("c", self.c, 0)
        check_whole("seed", self.seed, 0)
        self.loss, self.pairs = self.loss or "squared", self.pairs or "mixed"
        self.theory = bool(self.theory)
        for name, choices in (("loss", LOSSES), ("pairs", _PAIRS_OF)):
            if getattr(self, name) not in choices:
                raise ConfigError(
                    f"found {name} {getattr(self, name)!r}, expected one of {', '.join(choices)}"
                )
        if self.theory and (self.averaging or not self.c):
            raise ConfigError(
                f"found steps 1 / (mu (t + 1)) with averaging = {self.averaging} and c = {self.c}, "
                "expected no averaging and c > 0; set them so, or theory to False"
            )
        super().__post_init__()

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

    def learn(
        self, X: Rows, y: Bool | Float, weight: Float | None = None, *, descent: Any = None
    ) -> None:
        """Make ``n`` steps on random pairs of rows ``(n, d)``, dense or CSR.

        Rows of a single class form no pairs. They make no step, or those of the penalty where pairs
        are uniform.

        Parameters
        ----------
        X : (n, d), dense or CSR
            Rows.
        y : (n,)
            True for positive rows; where pairs are uniform, labels of any order.
        weight
            None.
        descent
            A loss of one's own in place of ``loss``: a C function of numba (``numba.cfunc``) from
            ``z`` to ``-phi'(z)``, of doubles. It is not stored.

        Raises
        ------
        ConfigError
            There are row weights, or graded labels for mixed pairs.
        DataError
            The rows have another dimension.
        """
        unweighted(weight, "DSGD")
        rows, labels = entries(X, self.dimension), np.asarray(y)
        mixed, n = self.pairs == "mixed", labels.size
        if mixed and labels.dtype != np.bool_:
            raise ConfigError(
                f"found labels of type {labels.dtype} for mixed pairs, expected True and False; "
                "set pairs to 'uniform', or compare the labels with a threshold"
            )
        firsts = np.flatnonzero(labels) if mixed else np.arange(n)
        seconds = np.flatnonzero(np.logical_not(labels)) if mixed else np.arange(0)
        if n < 2 or (mixed and not (firsts.size and seconds.size)):
            return
        penalty = self.c / np.sqrt(self.size or n)
        self.scale, self.gain = _learn(
            *rows,
            labels.astype(float),
            firsts,
            seconds,
            1.0 / penalty if self.theory else self.gamma,
            penalty,
            2.0 * firsts.size * seconds.size / (n * (n - 1.0)) if mixed else 1.0,
            LOSSES.index(self.loss),
            0 if descent is None else descent.address,
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
        """See `AveragedIterate.merge`."""
        merged = super().merge(other, start)
        merged.size = self.size
        return merged


@compiled()
def _square_bound(values: Float, begin: NDArray[np.uint64], end: NDArray[np.uint64]) -> float:
    """Twice the sum of the squared lengths of two rows."""
    total = 0.0
    for row in range(2):
        for at in range(begin[row], end[row]):
            total += 2.0 * values[at] * values[at]
    return total


@compiled(fastmath={"reassoc", "contract"})
def _learn(
    values: Float,
    indices: Index,
    starts: Index,
    labels: Float,
    firsts: NDArray[np.int64],
    seconds: NDArray[np.int64],
    gamma: float,
    penalty: float,
    share: float,
    loss: int,
    own: int,
    seed: int,
    drawn: int,
    steps: int,
    averaging: bool,
    scale: float,
    gain: float,
    z: Float,
    lag: Float,
) -> tuple[float, float]:
    total = labels.size
    rows = np.empty((AHEAD, 2), np.int64)
    begins, ends = np.empty((AHEAD, 2), np.uint64), np.empty((AHEAD, 2), np.uint64)
    for first in range(0, total, AHEAD):
        last = min(first + AHEAD, total)
        count = last - first
        draw_pairs(
            values,
            indices,
            starts,
            firsts,
            seconds,
            seed,
            _PAIRS,
            drawn + first,
            rows[:count],
            begins[:count],
            ends[:count],
        )
        for step in range(first, last):
            begin, end = begins[step - first], ends[step - first]
            order = labels[rows[step - first, 0]] - labels[rows[step - first, 1]]
            length = gamma if averaging else gamma / (steps + step + 1.0)
            change = 0.0
            if order != 0.0:
                sign = 1.0 if order > 0.0 else -1.0
                margin = row_product(values, indices, begin[0], end[0], z)
                margin -= row_product(values, indices, begin[1], end[1], z)
                margin *= sign * scale
                if averaging and loss == EXPONENTIAL and not own:
                    square = _square_bound(values, begin, end)
                    change = sign * implicit_exponential(share * length, square, margin)
                else:
                    change = share * length * sign * loss_descent(loss, own, margin)
            scale *= 1.0 - length * penalty
            if abs(scale) < SMALLEST_SCALE:
                for j in range(z.size):
                    lag[j] -= gain * z[j]
                    z[j] *= scale
                gain, scale = 0.0, 1.0
            change /= scale
            if change != 0.0:
                add_row(change, values, indices, begin[0], end[0], z)
                add_row(-change, values, indices, begin[1], end[1], z)
                if averaging:
                    add_row(gain * change, values, indices, begin[0], end[0], lag)
                    add_row(-gain * change, values, indices, begin[1], end[1], lag)
            if averaging:
                gain += scale
    return scale, gain
