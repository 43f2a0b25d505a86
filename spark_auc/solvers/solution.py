"""The result of a solver: weights, and a certificate of their optimality."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.types import Float
from spark_auc.errors import ConvergenceError

Reason = Literal["converged", "maxIter", "stalled", "indefinite"]
OnFailure = Literal["raise", "warn"]

_log = logging.getLogger(__name__)

# Generous bound on the error of a gradient by rounding of the moments and of the product with
# Sigma, relative to the size of the terms of this product.
ROUNDING = 16 * float(np.finfo(float).eps)
# Bound on the size of negative eigenvalues that rounding causes, relative to the trace of a matrix
# of unit diagonal.
ROUNDING_OF_EIGENVALUES = 64 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Certificate:
    """Certificate of the optimality of weights.

    The unit of coordinate ``j`` is ``h_j = sqrt(Sigma_jj + l2)``. With ``v_j`` the violation of its
    optimality condition, ``v_j / h_j`` does not depend on the unit of the column, and a change of
    this coordinate alone lowers the objective by at most ``(v_j / h_j)^2 / 2``. Columns in other
    units have the same certificate if the penalty is transformed with them.

    Parameters
    ----------
    objective
        ``L(w)``; with a prior, the penalty in it is that of the difference from the prior.
    kkt
        Largest ``v_j / h_j`` of all coordinates, plus a bound on its rounding error.
    gap
        Upper bound on ``L(w)`` minus the least objective, including rounding; infinite without a
        penalty.
    iterations
        Number of conjugate-gradient, Lanczos or Newton steps, or of passes of coordinate descent; 0
        for a factorisation.
    tolerance
        Greatest ``kkt`` of a converged solution.
    reason
        Reason why the solver stopped. "converged": ``kkt <= tolerance``, and no negative curvature
        was detected. "maxIter": the limit of iterations is reached. "stalled": rounding prevents
        progress, or ranges of scores do. "indefinite": the matrix has negative curvature beyond
        rounding, so that the objective has no minimum.
    error
        Bound on the error of ``objective`` where scores were summarised in ranges; their errors are
        in ``kkt`` and ``gap`` too.
    """

    objective: float
    kkt: float
    gap: float
    iterations: int
    tolerance: float
    reason: Reason
    error: float = 0.0

    def as_dict(self) -> Mapping[str, Any]:
        """The fields for JSON; None replaces an infinite gap."""
        return asdict(self) | {"gap": self.gap if np.isfinite(self.gap) else None}

    def problem(self) -> str:
        """Message of a solution that did not converge, with the remedy."""
        if self.reason == "indefinite":
            return (
                "found negative curvature in the matrix of second moments, expected none beyond "
                "rounding; compute the moments again from the rows, with standardization, as "
                "cancellation of large numbers made them inaccurate"
            )
        remedy = (
            "rounding hides smaller ones: raise tol or regParam, and subtract a number near its "
            "mean from each column that is far from 0"
            if self.reason == "stalled"
            else "raise maxIter, regParam or tol"
        )
        return (
            f"found a KKT residual of {self.kkt:.3g} after {self.iterations} iterations "
            f"({self.reason}), expected at most {self.tolerance:.3g}; {remedy}"
        )


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights and their certificate.

    Parameters
    ----------
    w : (d,)
        Weights.
    certificate
        Certificate of their optimality.
    """

    w: Float
    certificate: Certificate

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached."""
        return self.certificate.reason == "converged"

    def checked(self, on_failure: OnFailure) -> Solution:
        """The solution itself, after a check of its convergence.

        Parameters
        ----------
        on_failure
            "warn" to log a warning if the solution did not converge, "raise" to raise.

        Raises
        ------
        ConvergenceError
            The tolerance was not reached and ``on_failure`` is "raise".
        """
        if not self.converged:
            message = self.certificate.problem()
            if on_failure == "raise":
                raise ConvergenceError(message)
            _log.warning(message)
        return self

    def start(self, before: ElasticNet, penalty: ElasticNet) -> Float | None:
        """The weights as the start of another penalty; None if they are no better than 0.

        A solver that diverged would pass its weights, or their rounding, on to what follows.

        Parameters
        ----------
        before
            The penalty of this solution.
        penalty
            The penalty to begin.
        """
        change = penalty.value(self.w) - before.value(self.w)
        return self.w if self.certificate.objective + change < 0 else None

    def from_zero(self, quadratic: Quadratic) -> Solution:
        """The solution of the weights counted from 0, if the quadratic counts them from an origin.

        Parameters
        ----------
        quadratic
            The loss that was minimised.
        """
        origin = quadratic.origin
        if origin is None:
            return self
        objective = self.certificate.objective + origin.value
        return Solution(origin.w + self.w, replace(self.certificate, objective=objective))

    def indefinite(self) -> Solution:
        """The solution with the certificate of a matrix with negative curvature."""
        return replace(self, certificate=replace(self.certificate, reason="indefinite", gap=np.inf))


def certified(
    quadratic: Quadratic,
    penalty: ElasticNet,
    w: Float,
    *,
    iterations: int,
    tolerance: float,
    stopped: Reason,
) -> Solution:
    """The solution of weights ``w`` ``(d,)``, with a certificate from a new product with ``Sigma``.

    Parameters
    ----------
    quadratic, penalty
        The loss and the penalty.
    w : (d,)
        Weights.
    iterations
        Number of iterations of the solver.
    tolerance
        Greatest KKT residual of a converged solution.
    stopped
        Reason of the certificate if the tolerance is not reached.
    """
    product = quadratic.Sigma.matvec(w)
    return _certified(quadratic, penalty, w, product, iterations, tolerance, stopped)


def certified_together(
    quadratic: Quadratic,
    penalties: Sequence[ElasticNet],
    W: Float,
    *,
    iterations: int,
    tol: float,
    stopped: Reason,
) -> list[Solution]:
    """The solutions of weights ``W`` ``(d, l)`` for ``l`` penalties, from one matrix product.

    Arguments as in `certified`; ``tol`` is the relative tolerance of `absolute_tolerance`.
    """
    # Columns of an array of rows take several times as long.
    products = np.ascontiguousarray(quadratic.Sigma.matmat(W).T)
    return [
        _certified(
            quadratic,
            penalty,
            W[:, i].copy(),
            products[i],
            iterations,
            absolute_tolerance(quadratic, penalty, tol),
            stopped,
        )
        for i, penalty in enumerate(penalties)
    ]


def _certified(
    quadratic: Quadratic,
    penalty: ElasticNet,
    w: Float,
    product: Float,
    iterations: int,
    tolerance: float,
    stopped: Reason,
) -> Solution:
    units = quadratic.units(penalty)
    scaled = units * np.abs(w)
    size = float(scaled.sum())
    curvature = float(w @ product)
    rounding = ROUNDING * size + quadratic.hidden(scaled)
    rounding += quadratic.product_rounding * float(np.sqrt(max(curvature, 0.0)))
    objective = quadratic.value(w, product) + penalty.value(w)
    violation = penalty.kkt(w, quadratic.gradient(w, penalty, product)) / units
    kkt = float(violation.max(initial=0.0)) + rounding
    # The error of a gradient is at most its unit times the rounding, both in the objective and in
    # the dual.
    gap = max(objective - quadratic.dual(w, penalty, product), 0.0) + 2 * rounding * size
    reason: Reason = "converged" if kkt <= tolerance else stopped
    solution = Solution(w, Certificate(objective, kkt, gap, iterations, tolerance, reason))
    if stopped == "indefinite" or negative(curvature, quadratic, w):
        return solution.indefinite()
    return solution


def negative(curvature: float, quadratic: Quadratic, vector: Float) -> bool:
    """Whether the curvature ``v' Sigma v`` of ``v`` ``(d,)`` is negative beyond rounding."""
    size = np.sqrt(np.maximum(quadratic.diagonal, 0.0)) @ np.abs(vector)
    # A product of numbers may be infinite; a power of a Python number raises OverflowError.
    rounding = ROUNDING_OF_EIGENVALUES * float(size * size) + quadratic.curvature_rounding(vector)
    return curvature < -rounding


def absolute_tolerance(quadratic: Quadratic, penalty: ElasticNet, tol: float) -> float:
    """The tolerance of the KKT residual for a relative tolerance: ``tol * max_j |mu_j| / h_j``.

    ``mu`` is that of the loss, also if the quadratic counts its weights from an `Origin`.

    At a solution with this residual, a change of one coordinate lowers the objective by at most
    ``tol^2`` times the largest such decrease from ``w = 0``. The tolerance is at least the rounding
    of a ``mu`` of equal class means, in coordinates that are sums of ``d`` columns.
    """
    mu = quadratic.mu if quadratic.origin is None else quadratic.origin.mu
    largest = float((np.abs(mu) / quadratic.units(penalty)).max(initial=0.0))
    return max(tol * largest, ROUNDING_OF_EIGENVALUES * float(np.sqrt(max(mu.size, 1))))
