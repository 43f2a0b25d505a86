"""The knots of a column's splines, from the distribution of its values."""

from __future__ import annotations

import numpy as np

from spark_auc.core.types import Float
from spark_auc.core.validation import check_whole


def knots_of(values: Float, weights: Float, count: int) -> Float:
    """Knots of a column, increasing.

    Two knots are the least and the greatest value, so that the spline is linear between them. Of
    more knots, a value with more than ``1 / count`` of the weight is one. A value with more than
    its equal share of the remaining weight is one too, until no value has more. The other knots are
    quantiles of the remaining values, at Chebyshev points of (0, 1): dense at both ends, because a
    hat is linear and the values of a tail lie far apart. Quantiles of all values would coincide
    where most values are equal.

    Parameters
    ----------
    values, weights : (v,)
        Distinct values, ascending, and their weights.
    count
        The largest number of knots, at least 2.
    """
    check_whole("knots", count, 2)
    if count == 2:
        return np.unique(values[[0, -1]]) if values.size else values
    has_own, left = np.zeros(values.size, np.bool_), count
    while (heavy := ~has_own & (weights * left > weights[~has_own].sum())).any():
        has_own |= heavy
        left = count - int(has_own.sum())
    others, reached = values[~has_own], np.cumsum(weights[~has_own])
    if not others.size:
        return values
    places = np.searchsorted(reached, probabilities(left) * reached[-1])
    return np.unique(np.concatenate([values[has_own], others[np.minimum(places, others.size - 1)]]))


def probabilities(count: int) -> Float:
    """Chebyshev points ``(1 - cos(pi k / (count - 1))) / 2``, both ends included; 1/2 for one."""
    if count < 2:
        return np.full(max(count, 0), 0.5)
    points: Float = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, count))
    return points
