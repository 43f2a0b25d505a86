"""A prior as the centre of the penalty: minimise ``L(w) + P(w - c w0)``.

``L`` is the quadratic, ``P`` the penalty, ``w0`` the prior. With ``w = c w0 + u`` this is the
penalised quadratic of ``Sigma`` and ``mu - c Sigma w0`` in ``u``, which every solver of this room
solves. The l1 part of the penalty has the same centre: few weights then differ from the prior, and
a strong penalty leaves its ranking as it is. With an l1 part about 0 the two parts would compete,
and a strong penalty would lead to 0 instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spark_auc.core.moments.objective import Origin, Quadratic
from spark_auc.core.types import Float
from spark_auc.solvers.solution import ROUNDING, ROUNDING_OF_EIGENVALUES


class Centred(NamedTuple):
    """A quadratic whose penalty has its centre at a prior.

    Parameters
    ----------
    quadratic
        The quadratic in ``u = w - c w0``; for ``c = 0`` the quadratic itself.
    scale
        The factor ``c >= 0``.
    """

    quadratic: Quadratic
    scale: float


def centred(quadratic: Quadratic, w0: Float) -> Centred:
    """The quadratic for a penalty with the centre ``c w0``.

    ``c >= 0`` is the factor with the least quadratic at ``c w0``, so that the length of ``w0`` has
    no effect. It is ``w0' mu / (w0' Sigma w0)`` if the prior scores the positive rows higher in the
    mean. Otherwise ``c = 0``: the prior ranks these rows backwards, or gives all of them one score
    (``w0' Sigma w0`` is 0 up to rounding). The penalty then has its centre at 0.

    The weight of a constant column has no effect on the quadratic; it stays ``c w0_j``.

    Parameters
    ----------
    quadratic
        The loss.
    w0 : (d,)
        Weights of the prior, in the columns of the quadratic.
    """
    if not w0.any():
        return Centred(quadratic, 0.0)
    product = quadratic.Sigma.matvec(w0)
    curvature, scaled = float(w0 @ product), np.sqrt(np.maximum(quadratic.diagonal, 0.0))
    scaled = scaled * np.abs(w0)
    size = float(scaled.sum())
    slope = float(w0 @ quadratic.mu)
    rounding = ROUNDING_OF_EIGENVALUES * (size * size) + quadratic.curvature_rounding(w0)
    if not (curvature > rounding and slope > 0):
        return Centred(quadratic, 0.0)
    c = slope / curvature
    p, product, scaled, size = c * w0, c * product, c * scaled, c * size
    # `hidden` counts the error of mu once more; that of the new mu includes it already.
    rounding = ROUNDING * size + quadratic.hidden(scaled) - quadratic.mu_rounding
    value = quadratic.value(p, product)
    square = 1.0 + 2.0 * value + 4.0 * (rounding + quadratic.mu_rounding) * size
    origin = Origin(p, quadratic.mu, value, max(square, 0.0), rounding)
    return Centred(replace(quadratic, mu=quadratic.mu - product, origin=origin), c)
