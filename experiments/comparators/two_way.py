"""Two-way partial AUC by weights that grow with the error of a row (Yang et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from spark_auc.core.types import Bool, Float

# Keeps the slope of the polynomial weight finite at 0, as in the authors' program.
_LEAST = 1e-6

Form = Literal["equal", "polynomial", "exponential"]


@dataclass(frozen=True)
class Weight:
    """A concave weight of the error ``t`` of a row, in [0, 1].

    Parameters
    ----------
    form
        "polynomial": ``t^(1 / (gamma - 1))``; "exponential": ``1 - exp(-gamma t)``; "equal": 1,
        the squared loss of all pairs, with which the authors warm up.
    gamma
        Above 2 for the polynomial, above 0 for the exponential weight.
    of_positives
        Whether the positive rows are weighted too; otherwise it is the one-way partial AUC.
    """

    form: Form = "equal"
    gamma: float = 0.0
    of_positives: bool = True

    def of(self, error: Float, positive: bool) -> tuple[Float, Float]:
        """The weights of rows of one class and their derivatives ``(n,)``."""
        if self.form == "equal" or (positive and not self.of_positives):
            return np.ones_like(error), np.zeros_like(error)
        if self.form == "exponential":
            rest = np.exp(-self.gamma * error)
            return 1 - rest, self.gamma * rest
        power = 1 / (self.gamma - 1)
        weights = (error + _LEAST) ** power
        return weights, power * weights / (error + _LEAST)


def objective(
    w: Float, X: sparse.csr_matrix, y: Bool, weight: Weight, l2: float
) -> tuple[float, Float]:
    """The surrogate of the two-way partial AUC and its gradient ``(d + 1,)``.

    A row's error is ``1 - s`` if it is positive and ``s`` if it is negative, with the score ``s =
    sigmoid(w'x + b)``. The objective is the mean over all pairs of ``v(e+) v(e-) (e+ + e-)^2``,
    with ``v`` the weight, and ``l2/2 |w|^2``. It factorises: pairs are never formed.

    Parameters
    ----------
    w : (d + 1,)
        Weights and, last, the intercept ``b``.
    X : (n, d)
        Rows of both classes.
    y : (n,)
        True for positive rows.
    weight
        The weight ``v``.
    l2
        Penalty of the weights.
    """
    s = expit(X @ w[:-1] + w[-1])
    errors = {True: 1 - s[y], False: s[~y]}
    # Terms v, v e, v e^2 of each class and their derivatives.
    terms, slopes = [], []
    for positive, e in errors.items():
        v, slope = weight.of(e, positive)
        terms.append(np.array([v.mean(), (v * e).mean(), (v * e * e).mean()]))
        slopes.append(np.stack([slope, slope * e + v, slope * e * e + 2 * v * e]) / e.size)
    (p0, p1, p2), (n0, n1, n2) = terms
    value = p2 * n0 + 2 * p1 * n1 + p0 * n2
    by_row = np.empty(y.size)
    by_row[y] = -np.array([n2, 2 * n1, n0]) @ slopes[0]
    by_row[~y] = np.array([p2, 2 * p1, p0]) @ slopes[1]
    by_row *= s * (1 - s)
    gradient = np.append(X.T @ by_row + l2 * w[:-1], by_row.sum())
    return float(value + l2 / 2 * (w[:-1] @ w[:-1])), gradient


def fitted(
    X: sparse.csr_matrix, y: Bool, start: Float, weight: Weight, l2: float, steps: Sequence[int]
) -> list[Float]:
    """Weights and intercept ``(d + 1,)`` after some numbers of L-BFGS steps from a start.

    The objective is not convex, and about 0 where all scores are 0 or all are 1: as with the
    authors' epochs, the number of steps is a parameter. After convergence the weights stay.

    References
    ----------
    Yang, Xu, Bao, He, Cao, Huang: When All We Need is a Piece of the Pie: A Generic Framework for
    Optimizing Two-way Partial AUC, ICML 2021.
    """
    path: list[Float] = [start]
    minimize(
        objective,
        start,
        (X, y, weight, l2),
        jac=True,
        method="L-BFGS-B",
        callback=lambda w: path.append(w.copy()),
        options={"maxiter": max(steps)},
    )
    return [path[min(step, len(path) - 1)] for step in steps]
