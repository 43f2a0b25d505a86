"""Elastic net by coordinate descent on a growing working set."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from spark_auc.core.kernels import compiled
from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.types import Float, Int
from spark_auc.solvers.solution import ROUNDING_OF_EIGENVALUES, Reason, Solution, certified

# Least number of features that enter the working set at a time.
_SMALLEST_GROWTH = 16
# Passes of coordinate descent between two solutions of the linear system.
_PASSES = 20
# Added to a unit diagonal; negligible for a well-conditioned system.
_DAMPING = 1e-12


class ColumnCache:
    """Cache of columns of ``Sigma``, shared by the penalties of a path.

    Parameters
    ----------
    Sigma
        The matrix.
    """

    def __init__(self, Sigma: SymmetricTiles) -> None:
        self._Sigma = Sigma
        self._place = np.full(Sigma.dimension, -1)
        self._columns = np.empty((Sigma.dimension, 0), order="F")
        self._used = 0

    def __call__(self, features: Int) -> Float:
        """The columns ``(d, k)`` of ``k`` features."""
        missing = features[self._place[features] < 0]
        if missing.size:
            end = self._used + missing.size
            if end > self._columns.shape[1]:
                capacity = min(max(end, 2 * self._columns.shape[1]), len(self._place))
                columns = np.empty((len(self._place), capacity), order="F")
                columns[:, : self._used] = self._columns[:, : self._used]
                self._columns = columns
            self._columns[:, self._used : end] = self._Sigma.columns(missing)
            self._place[missing] = np.arange(self._used, end)
            self._used = end
        return self._columns[:, self._place[features]]


def elastic_net(
    quadratic: Quadratic,
    penalty: ElasticNet,
    *,
    tolerance: float,
    max_iter: int,
    columns: ColumnCache,
    start: Float | None = None,
) -> Solution:
    """Minimise the quadratic with an elastic net (MBA, Eq. 14).

    Coordinate descent runs on a working set: the features with non-zero weights and those that
    violate their optimality condition most. Once the signs of the weights are known, a linear
    system gives their values. The set grows until no feature violates its condition. The columns of
    the working set are divided by their units, which gives an equivalent problem with an l1 factor
    per feature; steps and stopping then do not depend on the units.

    Parameters
    ----------
    quadratic
        The loss.
    penalty
        Factors ``l1 > 0`` and ``l2 >= 0``.
    tolerance
        Greatest KKT residual of a converged solution, in the units of `Certificate`.
    max_iter
        Greatest number of passes over the working set.
    columns
        Cache of the columns of ``Sigma``.
    start : (d,), optional
        Initial weights. Default: 0.
    """
    units = quadratic.units(penalty)
    w = np.zeros(quadratic.dimension) if start is None else start.copy()
    # The product is updated with the steps of w; that of the certificate differs by rounding.
    target = 0.9 * tolerance
    passes = 0
    reason: Reason = "maxIter"
    product = columns(support) @ w[support] if (support := np.flatnonzero(w)).size else 0.0 * w
    growth = _SMALLEST_GROWTH
    while passes < max_iter:
        violation = penalty.kkt(w, quadratic.gradient(w, penalty, product)) / units
        worst = violation.max(initial=0.0)
        if worst <= target:
            reason = "stalled"
            break
        support = np.flatnonzero(w)
        entering = np.flatnonzero((violation > target) & (w == 0))
        entering = entering[np.argsort(-violation[entering], kind="stable")[:growth]]
        growth = max(growth, 2 * support.size)
        working = np.sort(np.concatenate([support, entering]))
        working_columns, unit = columns(working), units[working]
        before = w[working]
        matrix = working_columns[working] / unit / unit[:, None]
        matrix[np.diag_indices_from(matrix)] += penalty.l2 / unit**2
        residual = quadratic.mu[working] - product[working] + working_columns[working] @ before
        values, passes_used, definite = _on_working_set(
            matrix,
            residual / unit,
            penalty.l1 / unit,
            before * unit,
            target,
            max_iter - passes,
            quadratic.scaled_rounding(working),
        )
        values = np.where(values == before * unit, before, values / unit)
        passes += passes_used
        if not definite:
            reason = "indefinite"
            break
        if not (values != before).any():
            reason = "stalled"
            break
        w[working] = values
        product = product + working_columns @ (values - before)
    return certified(quadratic, penalty, w, iterations=passes, tolerance=tolerance, stopped=reason)


def _on_working_set(
    matrix: Float,
    mu: Float,
    l1: Float,
    start: Float,
    target: float,
    passes: int,
    rounding: float,
) -> tuple[Float, int, bool]:
    """Solve on the working set: weights, passes used, and whether the matrix is definite."""
    w = start.copy()
    passes_used = 0
    while passes_used < passes:
        passes_used += _descend(matrix, mu, l1, w, target, min(_PASSES, passes - passes_used))
        polished = _polished(matrix, mu, l1, w, rounding)
        if polished is None:
            return w, passes_used, False
        w = polished
        gradient = matrix @ w - mu
        at_zero = np.maximum(np.abs(gradient) - l1, 0.0)
        violation = np.where(w != 0, np.abs(gradient + l1 * np.sign(w)), at_zero)
        if violation.max(initial=0.0) <= target:
            break
    return w, passes_used, True


def _polished(matrix: Float, mu: Float, l1: Float, w: Float, rounding: float) -> Float | None:
    """A step from ``w`` towards the exact minimiser for its signs, as far as the signs allow.

    None if the matrix has negative curvature by more than rounding.
    """
    support = np.flatnonzero(w)
    matrix, l1 = matrix[np.ix_(support, support)], l1[support]
    mu, signs, values = mu[support], np.sign(w[support]), w[support]

    def loss(weights: Float) -> float:
        return float(weights @ (matrix @ weights / 2 - mu) + l1 @ np.abs(weights))

    # Equal columns make the system singular. A step of the proximal point method is defined in this
    # case too, and otherwise equals the exact step up to rounding.
    for damping in (_DAMPING, _DAMPING + ROUNDING_OF_EIGENVALUES * support.size + rounding):
        damped = matrix.copy()
        damped[np.diag_indices_from(damped)] += damping
        try:
            factor = linalg.cho_factor(damped, lower=True, check_finite=False, overwrite_a=True)
            break
        except linalg.LinAlgError:
            continue
    else:
        return None
    residual = mu - l1 * signs - matrix @ values
    step = linalg.cho_solve(factor, residual, check_finite=False)
    crossing = (values + step) * signs <= 0
    polished = np.where(crossing, 0.0, values + step)
    if crossing.any() and not loss(polished) < loss(values):
        # For fixed signs the loss decreases along the whole step: stop at the first sign change.
        share = np.where(crossing, -values / np.where(crossing, step, 1.0), 1.0)
        polished = np.where(share == share.min(), 0.0, values + share.min() * step)
    out = w.copy()
    out[support] = polished
    return out


@compiled()
def _descend(matrix: Float, mu: Float, l1: Float, w: Float, target: float, passes: int) -> int:
    """Run cyclic coordinate descent on ``w`` in place; return the number of passes."""
    gradient = matrix @ w - mu
    for k in range(passes):
        largest = 0.0
        for j in range(w.shape[0]):
            curvature = matrix[j, j]
            if curvature <= 0.0:
                continue
            correlation = curvature * w[j] - gradient[j]
            value = np.sign(correlation) * max(abs(correlation) - l1[j], 0.0) / curvature
            change = value - w[j]
            if change != 0.0:
                largest = max(largest, abs(change) * curvature)
                w[j] = value
                for i in range(w.shape[0]):
                    gradient[i] += matrix[j, i] * change
        if largest <= 0.1 * target:
            return k + 1
    return passes
