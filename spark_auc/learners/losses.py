"""Losses of pairs: functions of the difference of the scores of two rows, the higher label's first.

For a pair of rows with different labels the loss is ``phi(z)`` of the margin
``z = f(x_hi) - f(x_lo)``, and 0 for equal labels (Gu, Huo and Huang, Eq. 1-3).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Float

LOSSES = ("squared", "squaredHinge", "logistic", "exponential")
"""``(1 - z)^2``, ``max(0, 1 - z)^2``, ``log(1 + e^-z)`` and ``e^-z``."""

# Greatest second derivatives; that of the exponential loss, which has none, at z = 0.
CURVATURES = dict(zip(LOSSES, (2.0, 2.0, 0.25, 1.0), strict=True))

SQUARED, SQUARED_HINGE, LOGISTIC, EXPONENTIAL = range(4)


def loss_values(loss: str, margins: Float) -> Float:
    """The loss of each margin ``(n,)``."""
    if loss == "logistic":
        return np.logaddexp(0.0, -margins)
    if loss == "exponential":
        return np.exp(-margins)
    missing = 1.0 - margins
    return np.asarray((missing if loss == "squared" else np.maximum(missing, 0.0)) ** 2)


def sampled_loss(loss: str, positive: Float, negative: Float) -> tuple[float, float]:
    """The mean loss of all pairs of sampled rows, and its standard error as a U-statistic.

    Parameters
    ----------
    loss
        One of `LOSSES`.
    positive, negative : (n,), (m,)
        Scores of a random sample of each class, of 2 rows at least.
    """
    losses = loss_values(loss, positive[:, None] - negative)
    variance = sum(
        losses.mean(axis=other).var(ddof=1) / losses.shape[1 - other] for other in (0, 1)
    )
    return float(losses.mean()), float(np.sqrt(variance))


@intrinsic
def _call(_: Any, address: Any, z: Any) -> Any:
    """The value of the C function ``double (double)`` at an address."""

    def generate(_: Any, builder: Any, __: Any, given: Any) -> Any:
        double = ir.DoubleType()
        pointer = ir.FunctionType(double, [double]).as_pointer()
        return builder.call(builder.inttoptr(given[0], pointer), [given[1]])

    return types.float64(types.int64, types.float64), generate


_called: Any = _call


@compiled()
def loss_descent(loss: int, own: int, z: float) -> float:
    """``-phi'(z)`` of a loss by its place in `LOSSES`, or by the address of a C function."""
    if own:
        return float(_called(np.int64(own), z))
    if loss == LOGISTIC:
        return 1.0 / (1.0 + math.exp(z))
    if loss == EXPONENTIAL:
        return math.exp(-z)
    if loss == SQUARED or z < 1.0:
        return 2.0 * (1.0 - z)
    return 0.0


@compiled()
def implicit_exponential(step: float, length: float, z: float) -> float:
    """The implicit step ``u = step e^-(z + length u)`` on ``e^-z``, of a squared length >= 0.

    ``v = length u`` solves ``v + log v = log(step length) - z``, so that a step moves the margin by
    no more than the logarithm of what the explicit step would.
    """
    if length == 0.0:
        return 0.0
    k = math.log(step * length) - z
    if k < -30.0:
        return step * math.exp(-z)
    v = math.log1p(math.exp(k)) if k < 30.0 else k
    for _ in range(5):
        v *= (1.0 + k - math.log(v)) / (1.0 + v)
    return v / length
