"""Elastic net without a matrix of all features: solved on the features that can be active."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.types import Float
from spark_auc.solvers.coordinate_descent import ColumnCache, elastic_net
from spark_auc.solvers.solution import Reason, Solution, absolute_tolerance, certified

_log = logging.getLogger(__name__)

# Least limit of the number of features that enter at a time: their matrix is cheap, and most that
# enter stay.
_FEWEST_ENTERING = 512
# Tolerance of the solution on the working set, as a share of the tolerance.
_INNER = 0.5
# Target of the KKT residual of all features, as a share of the tolerance; the rest allows for the
# rounding that the certificate adds.
_OUTER = 0.9


@dataclass
class Screening:
    """Solver of a sequence of penalties by the sequential strong rule (Tibshirani et al. 2012).

    With ``g`` the gradient at the solution for the previous l1 factor, features with
    ``|g_j| < 2 l1 - l1_previous`` are left out; if too many remain, those with the largest
    ``|g_j|`` enter first. The optimality conditions of all features are then checked, and features
    that violate them enter.

    Parameters
    ----------
    quadratic
        The loss.
    tol
        Relative tolerance of the KKT residual; see `absolute_tolerance`.
    max_iter
        Greatest number of passes of coordinate descent.
    """

    quadratic: Quadratic
    tol: float
    max_iter: int
    _previous_l1: float = field(init=False)

    def __post_init__(self) -> None:
        self._previous_l1 = self.quadratic.lambda1_max

    def __call__(self, penalty: ElasticNet, start: Float | None) -> Solution:
        """The solution for a penalty; its certificate covers all features.

        Parameters
        ----------
        penalty
            The penalty, ``l1 > 0``.
        start : (d,), optional
            Initial weights, such as the solution for the previous penalty. Default: 0.
        """
        quadratic, units = self.quadratic, self.quadratic.units(penalty)
        tolerance = absolute_tolerance(quadratic, penalty, self.tol)
        w = np.zeros(quadratic.dimension) if start is None else start.copy()
        product = quadratic.Sigma.matvec(w) if w.any() else np.zeros_like(w)
        least = max(2 * penalty.l1 - self._previous_l1, 0.0)
        working, passes = np.flatnonzero(w), 0
        reason: Reason = "maxIter"
        while passes < self.max_iter:
            gradient = quadratic.gradient(w, penalty, product)
            violation = penalty.kkt(w, gradient) / units
            if violation.max(initial=0.0) <= _OUTER * tolerance:
                reason = "stalled"
                break
            priority = np.abs(gradient)
            priority[working] = 0.0
            entering = np.flatnonzero((priority >= least) & (priority > 0))
            limit = max(_FEWEST_ENTERING, working.size)
            entering = entering[np.argsort(-priority[entering], kind="stable")[:limit]]
            if not (violation[working].max(initial=0.0) > _OUTER * tolerance or entering.size):
                reason = "stalled"
                break
            working = np.sort(np.concatenate([working, entering]))
            least = penalty.l1
            inner = self._solved_on(working, penalty, w[working], _INNER * tolerance)
            passes += max(inner.certificate.iterations, 1)
            _log.info(
                "screening: solved on %d of %d features, %d of them active",
                working.size,
                quadratic.dimension,
                np.count_nonzero(inner.w),
            )
            w = np.zeros_like(w)
            w[working] = inner.w
            product = quadratic.Sigma.matvec(w)
            if inner.certificate.reason != "converged":
                reason = inner.certificate.reason
                break
        self._previous_l1 = penalty.l1
        return certified(
            quadratic, penalty, w, iterations=passes, tolerance=tolerance, stopped=reason
        )

    def _solved_on(
        self, working: NDArray[np.int64], penalty: ElasticNet, start: Float, tolerance: float
    ) -> Solution:
        Sigma = self.quadratic.Sigma.restricted(working)
        return elastic_net(
            Quadratic(Sigma, self.quadratic.mu[working]),
            penalty,
            tolerance=tolerance,
            max_iter=self.max_iter,
            start=start,
            columns=ColumnCache(Sigma),
        )
