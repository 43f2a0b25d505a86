"""Elastic net by coordinate descent on a growing working set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from spark_auc.core.kernels import compiled
from spark_auc.core.objective import ElasticNet, Quadratic
from spark_auc.core.tiles import SymmetricTiles
from spark_auc.solvers.solution import Reason, Solution, absolute_tolerance, certified

Float = NDArray[np.float64]
Int = NDArray[np.int64]

_SMALLEST_GROWTH = 16
_PASSES = 20
# Relative to the largest diagonal element: far below what a well-posed system would notice.
_DAMPING = 1e-12


class ColumnCache:
    """Columns of ``Sigma`` fetched so far, shared by the penalties of a path.

    Parameters
    ----------
    Sigma
        The matrix whose columns are kept.
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
                room = min(max(end, 2 * self._columns.shape[1]), len(self._place))
                grown = np.empty((len(self._place), room), order="F")
                grown[:, : self._used] = self._columns[:, : self._used]
                self._columns = grown
            self._columns[:, self._used : end] = self._Sigma.columns(missing)
            self._place[missing] = np.arange(self._used, end)
            self._used = end
        return self._columns[:, self._place[features]]


def elastic_net(
    quadratic: Quadratic,
    penalty: ElasticNet,
    *,
    tol: float,
    max_iter: int,
    columns: ColumnCache,
    start: Float | None = None,
) -> Solution:
    """Minimise the quadratic with an elastic net (MBA, Eq. 14).

    Coordinate descent runs on the features that are not 0 and those that violate optimality
    most; once it has found their signs, the linear system on them gives their values. The set
    grows until no feature at all violates.

    Parameters
    ----------
    quadratic
        The loss.
    penalty
        Factors ``l1 > 0`` and ``l2 >= 0``.
    tol
        KKT residual asked for, relative to ``max |mu|``.
    max_iter
        Most passes over the working set.
    columns
        The columns of ``Sigma``, some kept from another penalty.
    start : (d,), optional
        Warm start.
    """
    tolerance = absolute_tolerance(quadratic, tol)
    w = np.zeros(quadratic.dimension) if start is None else start.copy()
    # The product follows the steps of w; the certificate's fresh one differs by rounding.
    target = 0.9 * tolerance
    passes, stopped = 0, "maxIter"
    product = columns(support) @ w[support] if (support := np.flatnonzero(w)).size else 0.0 * w
    growth = _SMALLEST_GROWTH
    while passes < max_iter:
        violation = penalty.kkt(w, quadratic.gradient(w, penalty, product))
        worst = violation.max(initial=0.0)
        if worst <= target:
            break
        support = np.flatnonzero(w)
        entering = np.flatnonzero((violation > target) & (w == 0))
        entering = entering[np.argsort(-violation[entering], kind="stable")[:growth]]
        growth = max(growth, 2 * support.size)
        working = np.sort(np.concatenate([support, entering]))
        of_working = columns(working)
        before = w[working]
        values, used = _on_working_set(
            of_working[working],
            quadratic.mu[working] - product[working] + of_working[working] @ before,
            penalty,
            before,
            target,
            max_iter - passes,
        )
        passes += used
        if not (values != before).any():
            stopped = "stalled"
            break
        w[working] = values
        product = product + of_working @ (values - before)
    reason: Reason = "stalled" if stopped == "stalled" else "maxIter"
    return certified(quadratic, penalty, w, iterations=passes, tolerance=tolerance, stopped=reason)


def _on_working_set(
    Sigma: Float, mu: Float, penalty: ElasticNet, start: Float, target: float, passes: int
) -> tuple[Float, int]:
    """Solve on a few features; returns their values and the passes spent."""
    w = start.copy()
    used = 0
    while used < passes:
        used += _descend(Sigma, mu, penalty.l1, penalty.l2, w, target, min(_PASSES, passes - used))
        w = _polished(Sigma, mu, penalty, w)
        if penalty.kkt(w, Sigma @ w - mu + penalty.l2 * w).max(initial=0.0) <= target:
            break
    return w, used


def _polished(Sigma: Float, mu: Float, penalty: ElasticNet, w: Float) -> Float:
    """The exact minimiser for the signs of ``w``, or as far towards it as they allow."""
    support = np.flatnonzero(w)
    matrix: Float = Sigma[np.ix_(support, support)]
    matrix[np.diag_indices_from(matrix)] += penalty.l2
    mu, signs, values = mu[support], np.sign(w[support]), w[support]

    def loss(at: Float) -> float:
        return float(at @ (matrix @ at / 2 - mu) + penalty.l1 * np.abs(at).sum())

    # Equal columns make the system singular; a step of the proximal point method is defined
    # there too, and differs from the exact one by rounding elsewhere.
    damped = matrix.copy()
    damped[np.diag_indices_from(damped)] += _DAMPING * matrix.diagonal().max(initial=0.0)
    try:
        factor = linalg.cho_factor(damped, lower=True, check_finite=False, overwrite_a=True)
    except linalg.LinAlgError:
        return w
    residual = mu - penalty.l1 * signs - matrix @ values
    step = linalg.cho_solve(factor, residual, check_finite=False)
    crossing = (values + step) * signs <= 0
    wanted = np.where(crossing, 0.0, values + step)
    if crossing.any() and not loss(wanted) < loss(values):
        # With these signs the loss falls along the whole segment: stop where one becomes 0.
        share = np.where(crossing, -values / np.where(crossing, step, 1.0), 1.0)
        wanted = np.where(share == share.min(), 0.0, values + share.min() * step)
    out = w.copy()
    out[support] = wanted
    return out


@compiled()
def _descend(
    Sigma: Float, mu: Float, l1: float, l2: float, w: Float, target: float, passes: int
) -> int:
    """Cyclic coordinate descent in place; the number of passes made."""
    gradient = Sigma @ w - mu
    for k in range(passes):
        largest = 0.0
        for j in range(w.shape[0]):
            curvature = Sigma[j, j] + l2
            if curvature <= 0.0:
                continue
            wanted = Sigma[j, j] * w[j] - gradient[j]
            value = np.sign(wanted) * max(abs(wanted) - l1, 0.0) / curvature
            change = value - w[j]
            if change != 0.0:
                largest = max(largest, abs(change) * curvature)
                w[j] = value
                for i in range(w.shape[0]):
                    gradient[i] += Sigma[j, i] * change
        if largest <= 0.1 * target:
            return k + 1
    return passes
