"""What a solver returns: the weights, and what proves how good they are."""

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

# Of the size of the terms that a product with Sigma sums, in units of float64: what rounding of
# the moments and of the product may take from a gradient, with room to spare.
ROUNDING = 16 * float(np.finfo(float).eps)
# Relative to the trace of a matrix of unit diagonal, how negative rounding makes an eigenvalue.
ROUNDING_OF_EIGENVALUES = 64 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Certificate:
    """Evidence of optimality of the weights it comes with.

    The unit of coordinate ``j`` is ``h_j = sqrt(Sigma_jj + l2)``: a violation ``v_j`` of the
    optimality condition of one coordinate counts as ``v_j / h_j``, whatever the column's unit, and
    moving that coordinate alone lowers the objective by at most ``(v_j / h_j)^2 / 2``. Standardised
    columns and raw ones have the same certificate.

    Parameters
    ----------
    objective
        ``L(w)``.
    kkt
        Largest ``v_j / h_j`` of any coordinate, with what rounding may hide of it.
    gap
        Upper bound on ``L(w)`` less the least objective, rounding included; infinite without any
        penalty.
    iterations
        Conjugate-gradient, Lanczos or Newton steps, or passes of coordinate descent; 0 for a
        factorisation.
    tolerance
        The ``kkt`` asked for.
    reason
        Why the solver stopped. "converged": ``kkt <= tolerance`` and the matrix is positive
        semidefinite as far as was seen. "maxIter": its steps were used up. "stalled": rounding
        leaves nothing to gain. "indefinite": the matrix has negative curvature beyond rounding,
        so that there is no least objective to be near to.
    """

    objective: float
    kkt: float
    gap: float
    iterations: int
    tolerance: float
    reason: Reason

    def as_dict(self) -> Mapping[str, Any]:
        """The fields for JSON, which has no infinity: an unknown gap is None."""
        return asdict(self) | {"gap": self.gap if np.isfinite(self.gap) else None}

    def problem(self) -> str:
        """What is wrong with a solution that did not converge, and the remedy."""
        if self.reason == "indefinite":
            return (
                "found negative curvature in the matrix of second moments, expected none beyond "
                "rounding; its moments have lost their digits: make them again from the rows, "
                "with standardization"
            )
        return (
            f"found a KKT residual of {self.kkt:.3g} after {self.iterations} iterations "
            f"({self.reason}), expected at most {self.tolerance:.3g}; raise maxIter, regParam or "
            "tol"
        )


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights ``w`` ``(d,)`` and their certificate."""

    w: Float
    certificate: Certificate

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached."""
        return self.certificate.reason == "converged"

    def checked(self, on_failure: OnFailure) -> Solution:
        """Itself, after a warning or a `ConvergenceError` if the tolerance was not reached."""
        if not self.converged:
            message = self.certificate.problem()
            if on_failure == "raise":
                raise ConvergenceError(message)
            _log.warning(message)
        return self

    def indefinite(self) -> Solution:
        """The solution of a matrix that was found to have negative curvature."""
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
    """The solution ``w`` with the certificate computed afresh from it."""
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
    """The solutions ``W`` ``(d, l)`` of several penalties, from one product with ``Sigma``."""
    products = quadratic.Sigma.matmat(W)
    return [
        _certified(
            quadratic,
            penalty,
            W[:, i].copy(),
            products[:, i],
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
    rounding = ROUNDING * size + quadratic.hidden(scaled)
    objective = quadratic.value(w, product) + penalty.value(w)
    violation = penalty.kkt(w, quadratic.gradient(w, penalty, product)) / units
    kkt = float(violation.max(initial=0.0)) + rounding
    # Each gradient is off by up to its unit times the rounding, in the objective and in the dual.
    gap = max(objective - quadratic.dual(w, penalty, product), 0.0) + 2 * rounding * size
    reason: Reason = "converged" if kkt <= tolerance else stopped
    solution = Solution(w, Certificate(objective, kkt, gap, iterations, tolerance, reason))
    curvature = float(w @ product)
    if stopped == "indefinite" or negative(curvature, quadratic, w):
        return solution.indefinite()
    return solution


def negative(curvature: float, quadratic: Quadratic, vector: Float) -> bool:
    """Whether the curvature ``v' Sigma v`` of a vector ``v`` is negative beyond rounding."""
    scale = np.sqrt(np.maximum(quadratic.diagonal, 0.0))
    return curvature < -ROUNDING_OF_EIGENVALUES * float(scale @ np.abs(vector)) ** 2


def absolute_tolerance(quadratic: Quadratic, penalty: ElasticNet, tol: float) -> float:
    """The KKT residual that a relative tolerance asks for: ``tol * max_j |mu_j| / h_j``.

    At 1 ``w = 0`` passes: no coordinate alone could lower the objective more from where it is,
    than ``tol^2`` times what the best one could from ``w = 0``. A ``mu`` that rounding leaves of
    equal means is 0.
    """
    largest = float((np.abs(quadratic.mu) / quadratic.units(penalty)).max(initial=0.0))
    return max(tol * largest, ROUNDING_OF_EIGENVALUES)
