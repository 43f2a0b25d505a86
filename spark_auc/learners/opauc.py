"""OPAUC: one-pass AUC maximization with class means and covariances (Gao et al., 2013)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import COUNTS
from spark_auc.core.state.schema import Fields, reals
from spark_auc.core.types import Bool, Float, Index, Rows
from spark_auc.core.validation import check_above, check_at_least
from spark_auc.learners.learner import entries, unweighted
from spark_auc.learners.linear import Linear


@dataclass(eq=False)
class OPAUC(Linear):
    """Gradient steps on the squared loss against all earlier rows of the other class.

    A row ``x`` of sign ``e`` first updates the mean and covariance of its class. With the mean
    ``c`` and the covariance ``S`` of the other class and ``D = x - c``, the weights then move by
    ``-eta (lambda2 w - e D + D (D'w) + S w)`` [1]_ (Algorithm 1, Eq. 4-5). Rows before the first
    row of the other class make no step. The covariance recursion is Welford's; the printed
    recursion lacks a term. O(d^2) time per row, dense or sparse, and O(d^2) memory.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    eta
        Step size > 0; the paper searches ``2^-12 .. 2^10`` for features in [-1, 1].
    lambda2
        Penalty ``lambda2/2 |w|^2``; the paper searches ``2^-10 .. 2^2``.

    Attributes
    ----------
    w : (d,)
        Weights.
    rows : (2,)
        Number of learned rows of the negative and of the positive class.
    mean : (2, d)
        Class means.
    scatter : (2, d, d)
        Lower triangles of the scatter of each class: number of rows times covariance.

    References
    ----------
    .. [1] W. Gao, R. Jin, S. Zhu, Z.-H. Zhou. One-Pass AUC Optimization. ICML 2013.
    """

    FIELDS: ClassVar[Fields] = {
        "w": reals("d"),
        "rows": reals(2, rule=COUNTS),
        "mean": reals(2, "d"),
        "scatter": reals(2, "d", "d"),
    }

    eta: float = 2.0**-6
    lambda2: float = 2.0**-10
    w: Float = field(init=False, repr=False)
    rows: Float = field(init=False, repr=False)
    mean: Float = field(init=False, repr=False)
    scatter: Float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_above("eta", self.eta, 0)
        check_at_least("lambda2", self.lambda2, 0)
        d = self.dimension
        self.w, self.rows = np.zeros(d), np.zeros(2)
        self.mean, self.scatter = np.zeros((2, d)), np.zeros((2, d, d))

    def learn(self, X: Rows, y: Bool, weight: Float | None = None) -> None:
        """Learn rows; see `spark_auc.learners.learner.Learner.learn`."""
        unweighted(weight, "OPAUC")
        _learn(
            *entries(X, self.dimension),
            y,
            self.eta,
            self.lambda2,
            self.w,
            self.rows,
            self.mean,
            self.scatter,
        )

    @property
    def covariance(self) -> Float:
        """Covariances ``(2, d, d)`` of the negative and of the positive class."""
        lower = self.scatter / np.maximum(self.rows, 1.0)[:, None, None]
        diagonal = lower * np.eye(self.dimension)
        return np.asarray(lower + lower.transpose(0, 2, 1) - diagonal)

    def start(self, w: Float) -> None:
        """Begin with the weights ``w`` ``(d,)``."""
        self.w = w.copy()


@compiled(fastmath={"reassoc", "contract"})
def _learn(
    values: Float,
    indices: Index,
    starts: Index,
    positive: Bool,
    eta: float,
    lambda2: float,
    w: Float,
    rows: Float,
    mean: Float,
    scatter: Float,
) -> None:
    d = w.size
    deviation, difference, product = np.empty(d), np.empty(d), np.empty(d)
    for row in range(positive.size):
        own = 1 if positive[row] else 0
        other = 1 - own
        for i in range(d):
            deviation[i] = -mean[own, i]
            difference[i] = -mean[other, i]
        for p in range(starts[row], starts[row + 1]):
            deviation[indices[p]] += values[p]
            difference[indices[p]] += values[p]
        rows[own] += 1.0
        share = 1.0 / rows[own]
        for i in range(d):
            mean[own, i] += share * deviation[i]
        for i in range(d):
            factor = (1.0 - share) * deviation[i]
            line = scatter[own, i]
            for j in range(i + 1):
                line[j] += factor * deviation[j]
        if rows[other] == 0.0:
            continue
        margin = 0.0
        for i in range(d):
            margin += difference[i] * w[i]
        _multiply(scatter[other], w, product)
        residual = margin - (2.0 * own - 1.0)
        for i in range(d):
            w[i] -= eta * (lambda2 * w[i] + residual * difference[i] + product[i] / rows[other])


@compiled(fastmath={"reassoc", "contract"})
def _multiply(lower: Float, w: Float, out: Float) -> None:
    """Set ``out`` to the product of a symmetric matrix, stored as lower triangle, with ``w``."""
    # Two loops: in a single loop, the order of summation, and so the last bits, would depend on
    # the alignment of the arrays.
    for i in range(w.size):
        total = lower[i, i] * w[i]
        for j in range(i):
            total += lower[i, j] * w[j]
        out[i] = total
    for i in range(w.size):
        for j in range(i):
            out[j] += lower[i, j] * w[i]
