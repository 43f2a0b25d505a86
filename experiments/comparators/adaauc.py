"""AdaAUC: one-pass AUC optimization with AdaGrad step sizes (Ding et al. 2015)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from experiments.comparators.linear import Linear
from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import COUNTS
from spark_auc.core.state.schema import Fields, reals
from spark_auc.core.types import Bool, Float, Index
from spark_auc.core.validation import check_above, check_at_least


@dataclass(eq=False)
class AdaAUC(Linear):
    """Pairwise squared loss of each row against all rows of the other class so far.

    The row ``x`` of sign ``e`` first updates the count, mean and covariance of its class. With mean
    ``c`` and covariance ``S`` of the other class, ``D = x - c`` and ``h`` the sum of the squared
    gradients,

        g = lambda2 w - e D + D (D'w) + S w,   h <- h + g^2,   w <- w - eta g / (delta + sqrt(h)),

    elementwise; then ``w`` is projected onto the ball of radius ``1 / sqrt(lambda2)``, which
    contains the optimum. Rows before the first row of the other class make no step.

    Time per row is O(d^2); memory is 16 d^2 bytes.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    eta
        Step size > 0.
    lambda2
        Ridge factor; without it there is no projection.
    delta
        Constant > 0 that is added to the root of ``h``.

    References
    ----------
    Ding, Zhao, Hoi, Ong: An Adaptive Gradient Method for Online AUC Maximization, AAAI 2015,
    Algorithm 1.
    """

    FIELDS: ClassVar[Fields] = {
        "squares": reals("d"),
        "count": reals(2, rule=COUNTS),
        "mean": reals(2, "d"),
        "scatter": reals(2, "d", "d"),
    }

    eta: float = 0.1
    lambda2: float = 1e-3
    delta: float = 1e-8
    squares: Float = field(init=False, repr=False)
    count: Float = field(init=False, repr=False)
    mean: Float = field(init=False, repr=False)
    scatter: Float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_above("eta", self.eta, 0)
        check_above("delta", self.delta, 0)
        check_at_least("lambda2", self.lambda2, 0)
        super().__post_init__()
        d = self.dimension
        self.squares, self.count = np.zeros(d), np.zeros(2)
        self.mean, self.scatter = np.zeros((2, d)), np.zeros((2, d, d))

    def _take(self, values: Float, indices: Index, starts: Index, y: Bool) -> None:
        _learn(
            values,
            indices,
            starts,
            y,
            float(self.eta),
            float(self.lambda2),
            float(self.delta),
            self.count,
            self.mean,
            self.scatter,
            self.squares,
            self.w,
        )


@compiled()
def _learn(
    values: Float,
    indices: Index,
    starts: Index,
    y: Bool,
    eta: float,
    lambda2: float,
    delta: float,
    count: Float,
    mean: Float,
    scatter: Float,
    squares: Float,
    w: Float,
) -> None:
    d = w.size
    for r in range(y.size):
        x = np.zeros(d)
        for p in range(starts[r], starts[r + 1]):
            x[indices[p]] += values[p]
        own = 1 if y[r] else 0
        count[own] += 1
        centred = x - mean[own]
        mean[own] += centred / count[own]
        shrunk = centred * (1 - 1 / count[own])
        for i in range(d):
            for j in range(d):
                scatter[own, i, j] += shrunk[i] * centred[j]
        other = 1 - own
        if count[other] == 0:
            continue
        difference = x - mean[other]
        product, square = 0.0, 0.0
        curvature = np.zeros(d)
        # By columns of the symmetric matrix, so that the inner loop is vectorised.
        for i in range(d):
            product += difference[i] * w[i]
            for j in range(d):
                curvature[j] += scatter[other, i, j] * w[i]
        slope = product - 1.0 if y[r] else product + 1.0
        for j in range(d):
            g = lambda2 * w[j] + slope * difference[j] + curvature[j] / count[other]
            squares[j] += g * g
            w[j] -= eta * g / (delta + np.sqrt(squares[j]))
            square += w[j] * w[j]
        if lambda2 * square > 1.0:
            w /= np.sqrt(lambda2 * square)
