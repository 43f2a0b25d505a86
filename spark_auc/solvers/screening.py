"""Elastic net over more features than a matrix has room for: on those that can be active."""

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

# Features that enter at a time: a matrix of them is soon made, and most that enter will stay.
_FEWEST_ENTERING = 512
# Of the tolerance, what solving on some of the features may use up.
_INNER = 0.5
# What is left of it is the certificate's, for rounding.
_OUTER = 0.9


@dataclass
class Screening:
    """Solves one penalty after another, each on the features that the last did not rule out.

    The sequential strong rule (Tibshirani et al. 2012): with ``g`` the gradient at the solution
    for the l1 factor before, features with ``|g_j| < 2 l1 - l1_before`` are left out, and so are
    all but those of largest ``|g_j|`` where too many remain. What was left out wrongly shows in
    the optimality conditions of all features, and enters.

    Parameters
    ----------
    quadratic
        The loss.
    tol
        Relative KKT residual asked for; see `absolute_tolerance`.
    max_iter
        Most passes of coordinate descent.
    """

    quadratic: Quadratic
    tol: float
    max_iter: int
    _before: float = field(init=False)

    def __post_init__(self) -> None:
        self._before = self.quadratic.lambda1_max

    def __call__(self, penalty: ElasticNet, start: Float | None) -> Solution:
        """The solution for one penalty, with the certificate of all features."""
        quadratic, units = self.quadratic, self.quadratic.units(penalty)
        tolerance = absolute_tolerance(quadratic, penalty, self.tol)
        w = np.zeros(quadratic.dimension) if start is None else start.copy()
        product = quadratic.Sigma.matvec(w) if w.any() else np.zeros_like(w)
        least = max(2 * penalty.l1 - self._before, 0.0)
        working, passes = np.flatnonzero(w), 0
        reason: Reason = "maxIter"
        while passes < self.max_iter:
            gradient = quadratic.gradient(w, penalty, product)
            violation = penalty.kkt(w, gradient) / units
            if violation.max(initial=0.0) <= _OUTER * tolerance:
                reason = "stalled"
                break
            wanted = np.abs(gradient)
            wanted[working] = 0.0
            entering = np.flatnonzero((wanted >= least) & (wanted > 0))
            room = max(_FEWEST_ENTERING, working.size)
            entering = entering[np.argsort(-wanted[entering], kind="stable")[:room]]
            if not (violation[working].max(initial=0.0) > _OUTER * tolerance or entering.size):
                reason = "stalled"
                break
            working = np.sort(np.concatenate([working, entering]))
            least = penalty.l1
            inner = self._on(working, penalty, w[working], _INNER * tolerance)
            passes += max(inner.certificate.iterations, 1)
            _log.info(
                "%d of %d features screened in, %d of them active",
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
        self._before = penalty.l1
        return certified(
            quadratic, penalty, w, iterations=passes, tolerance=tolerance, stopped=reason
        )

    def _on(
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
