"""What a solver returns: the weights, and what proves how good they are."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.objective import ElasticNet, Quadratic
from spark_auc.errors import ConvergenceError

Float = NDArray[np.float64]
Reason = Literal["converged", "maxIter", "stalled"]
OnFailure = Literal["raise", "warn"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Certificate:
    """Evidence of optimality of the weights it comes with.

    Parameters
    ----------
    objective
        ``L(w)``.
    kkt
        Largest violation of the optimality conditions by any coordinate, in units of ``mu``.
    gap
        Upper bound on ``L(w)`` less the least objective; infinite without any penalty.
    iterations
        Conjugate-gradient or Newton steps, or passes of coordinate descent; 0 for a factorisation.
    tolerance
        The ``kkt`` asked for.
    reason
        Why the solver stopped: "converged" exactly when ``kkt <= tolerance``.
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


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights ``w`` ``(d,)`` and their certificate."""

    w: Float
    certificate: Certificate

    def checked(self, on_failure: OnFailure) -> Solution:
        """Itself, after a warning or a `ConvergenceError` if the tolerance was not reached."""
        c = self.certificate
        if c.reason != "converged":
            message = (
                f"found a KKT residual of {c.kkt:.3g} after {c.iterations} iterations "
                f"({c.reason}), expected at most {c.tolerance:.3g}; raise maxIter, regParam or tol"
            )
            if on_failure == "raise":
                raise ConvergenceError(message)
            _log.warning(message)
        return self


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
    objective = quadratic.value(w, product) + penalty.value(w)
    kkt = float(penalty.kkt(w, quadratic.gradient(w, penalty, product)).max(initial=0.0))
    gap = max(objective - quadratic.dual(w, penalty, product), 0.0)
    reason: Reason = "converged" if kkt <= tolerance else stopped
    return Solution(w, Certificate(objective, kkt, gap, iterations, tolerance, reason))


def absolute_tolerance(quadratic: Quadratic, tol: float) -> float:
    """The KKT residual that a relative tolerance asks for: ``tol * max_j |mu_j|``."""
    return tol * quadratic.lambda1_max
