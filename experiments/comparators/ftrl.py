"""SOLR: sparse online logistic regression by FTRL-proximal (McMahan et al. 2013)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from experiments.comparators.linear import Linear
from spark_auc.core.kernels import compiled
from spark_auc.core.state.schema import Fields, reals
from spark_auc.core.types import Bool, Float, Index
from spark_auc.core.validation import check_above, check_at_least


@dataclass(eq=False)
class FTRL(Linear):
    """Logistic loss of single rows, with a step size per column and an elastic net.

    A column has ``z`` and the sum ``n`` of its squared gradients, and the weight 0 where
    ``|z| <= lambda1``, else

        w = -(z - sign(z) lambda1) / ((beta + sqrt(n)) / alpha + lambda2).

    A row with ``y`` in {0, 1}, ``p = 1 / (1 + exp(-w'x - b))`` and ``g = (p - y) x_j`` changes

        z <- z + g - (sqrt(n + g^2) - sqrt(n)) / alpha w,   n <- n + g^2

    in its stored columns. The intercept ``b`` is an additional column of ones without penalty. The
    scores omit it, because it does not affect the ranking.

    Time per row is O(s) for ``s`` stored entries, memory O(d).

    Parameters
    ----------
    dimension
        Number of features ``d``.
    alpha, beta
        Parameters of the step size ``alpha / (beta + sqrt(n))``.
    lambda1, lambda2
        Lasso and ridge factors, relative to the sum of the losses.

    References
    ----------
    McMahan et al.: Ad Click Prediction: a View from the Trenches, KDD 2013, Algorithm 1.
    """

    FIELDS: ClassVar[Fields] = {
        "z": reals("d+1"),
        "n": reals("d+1"),
    }

    alpha: float = 0.1
    beta: float = 1.0
    lambda1: float = 1.0
    lambda2: float = 0.0
    z: Float = field(init=False, repr=False)
    n: Float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_above("alpha", self.alpha, 0)
        check_at_least("beta", self.beta, 0)
        check_at_least("lambda1", self.lambda1, 0)
        check_at_least("lambda2", self.lambda2, 0)
        super().__post_init__()
        self.z, self.n = np.zeros((2, self.dimension + 1))

    def _take(self, values: Float, indices: Index, starts: Index, y: Bool) -> None:
        step = float(self.alpha), float(self.beta)
        penalty = float(self.lambda1), float(self.lambda2)
        _learn(values, indices, starts, y, *step, *penalty, self.z, self.n)
        _weights(self.z, self.n, *step, *penalty, self.w)


@compiled(error_model="numpy")
def _weight(z: float, n: float, alpha: float, beta: float, lambda1: float, lambda2: float) -> float:
    if abs(z) <= lambda1:
        return 0.0
    return (math.copysign(lambda1, z) - z) / ((beta + math.sqrt(n)) / alpha + lambda2)


@compiled(error_model="numpy")
def _weights(
    z: Float, n: Float, alpha: float, beta: float, lambda1: float, lambda2: float, out: Float
) -> None:
    for j in range(out.size):
        out[j] = _weight(z[j], n[j], alpha, beta, lambda1, lambda2)


@compiled(error_model="numpy")
def _change(j: int, g: float, w: float, alpha: float, z: Float, n: Float) -> None:
    z[j] += g - (np.sqrt(n[j] + g * g) - np.sqrt(n[j])) / alpha * w
    n[j] += g * g


@compiled(error_model="numpy")
def _learn(
    values: Float,
    indices: Index,
    starts: Index,
    y: Bool,
    alpha: float,
    beta: float,
    lambda1: float,
    lambda2: float,
    z: Float,
    n: Float,
) -> None:
    last = z.size - 1
    for r in range(y.size):
        start = starts[r]
        w = np.empty(starts[r + 1] - start)
        intercept = _weight(z[last], n[last], alpha, beta, 0.0, 0.0)
        score = intercept
        for q in range(w.size):
            j = indices[start + q]
            w[q] = _weight(z[j], n[j], alpha, beta, lambda1, lambda2)
            score += w[q] * values[start + q]
        error = 1.0 / (1.0 + np.exp(-score)) - y[r]
        for q in range(w.size):
            _change(indices[start + q], error * values[start + q], w[q], alpha, z, n)
        _change(last, error, intercept, alpha, z, n)
