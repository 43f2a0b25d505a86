"""Ridge: ``(Sigma + l2 I) w = mu``."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from spark_auc.core.objective import ElasticNet, Matrix, Quadratic
from spark_auc.solvers.solution import Reason, Solution, absolute_tolerance, certified

Float = NDArray[np.float64]

# Above this conjugate gradients are faster, and LAPACK's threaded factorisation has been seen to
# crash the process at d = 16,384.
LARGEST_FACTORISED = 2048
# Features whose block is factorised to precondition: on hashed clicks the 512 of largest variance
# cut the steps to a third of the diagonal's, and 2048 would cost more than the steps they save.
_BLOCK = 512
# Relative: what makes a singular block definite without being seen by the other directions.
_RIDGE_OF_BLOCK = 1e-8


class Ridge:
    """Minimises ``1/2 w' Sigma w - w' mu + l2/2 |w|^2`` for one l2 after another (MBA, Eq. 14).

    Up to d = 2048 by factors: a Cholesky factor for each of few penalties, one spectral
    decomposition for many. Above, and where the matrix is singular, by conjugate gradients,
    preconditioned by the block of the 512 features of largest variance and by the diagonal of
    the others. ``mu`` is in the range of ``Sigma``, so that ``l2 = 0`` has a solution too.

    Parameters
    ----------
    quadratic
        The loss.
    tol
        KKT residual asked for, relative to ``max |mu|``.
    max_iter
        Most conjugate-gradient steps.
    many
        Whether many penalties are to come.
    """

    def __init__(
        self, quadratic: Quadratic, *, tol: float, max_iter: int, many: bool = False
    ) -> None:
        self._quadratic, self._max_iter = quadratic, max_iter
        self._tolerance = absolute_tolerance(quadratic, tol)
        self._inverse = _spectral(quadratic.Sigma) if many else None

    def __call__(self, l2: float, start: Float | None = None) -> Solution:
        """The solution for ``l2 >= 0``; conjugate gradients begin at ``start`` ``(d,)``."""
        quadratic, penalty, tolerance = self._quadratic, ElasticNet(0.0, l2), self._tolerance
        if solve := self._inverse(l2) if self._inverse else _factorised(quadratic.Sigma, l2):
            w = np.zeros(quadratic.dimension)
            # One step of refinement takes back what an ill-conditioned factor lost.
            for _ in range(2):
                w = w + solve(quadratic.mu - quadratic.Sigma.matvec(w) - l2 * w)
                solution = certified(
                    quadratic, penalty, w, iterations=0, tolerance=tolerance, stopped="stalled"
                )
                if solution.certificate.reason == "converged":
                    return solution
            start = w
        precondition = _preconditioner(quadratic.Sigma, l2)
        w, iterations, stopped = _conjugate_gradients(
            quadratic, l2, precondition, tolerance, self._max_iter, start
        )
        return certified(
            quadratic, penalty, w, iterations=iterations, tolerance=tolerance, stopped=stopped
        )


def inverse(Sigma: Matrix, l2: float, *, tol: float, max_iter: int) -> Callable[[Float], Float]:
    """What multiplies vectors ``(d,)`` by ``(Sigma + l2 I)^-1``, up to about ``tol``.

    What it takes to solve is made once; see `Ridge`.
    """
    if solve := _factorised(Sigma, l2):
        return solve
    precondition = _preconditioner(Sigma, l2)

    def solved(vector: Float) -> Float:
        system = Quadratic(Sigma, vector)
        tolerance = absolute_tolerance(system, tol)
        return _conjugate_gradients(system, l2, precondition, tolerance, max_iter, None)[0]

    return solved


def _factorised(Sigma: Matrix, l2: float) -> Callable[[Float], Float] | None:
    """The inverse by a Cholesky factor; None where there are too many features, or it has none."""
    if Sigma.dimension > LARGEST_FACTORISED:
        return None
    matrix = Sigma.restricted(np.arange(Sigma.dimension)).toarray()
    matrix[np.diag_indices_from(matrix)] += l2
    try:
        factor = linalg.cho_factor(matrix, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    return lambda vector: cast(Float, linalg.cho_solve(factor, vector, check_finite=False))


def _spectral(Sigma: Matrix) -> Callable[[float], Callable[[Float], Float]] | None:
    """The inverse for any l2 by the eigenvectors; None where there are too many features."""
    if Sigma.dimension > LARGEST_FACTORISED:
        return None
    matrix = Sigma.restricted(np.arange(Sigma.dimension)).toarray()
    values, vectors = linalg.eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
    # Rounding alone leaves of a zero eigenvalue what is no curvature to divide by.
    floor = Sigma.dimension * np.finfo(float).eps * values.max(initial=0.0)

    def of(l2: float) -> Callable[[Float], Float]:
        damped = values + l2
        inverse = np.divide(1.0, damped, out=np.zeros_like(damped), where=damped > floor)
        return lambda vector: cast(Float, vectors @ (inverse * (vector @ vectors)))

    return of


def _preconditioner(Sigma: Matrix, l2: float) -> Callable[[Float], Float]:
    diagonal = Sigma.diagonal() + l2
    reciprocal = np.where(diagonal > 0, 1.0 / np.where(diagonal > 0, diagonal, 1.0), 0.0)
    varying = np.flatnonzero(diagonal)
    largest = varying[np.argsort(-diagonal[varying], kind="stable")[:_BLOCK]]
    block = Sigma.restricted(largest).toarray()
    block[np.diag_indices_from(block)] = diagonal[largest] * (1.0 + _RIDGE_OF_BLOCK)
    try:
        factor = linalg.cho_factor(block, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return lambda residual: reciprocal * residual

    def precondition(residual: Float) -> Float:
        z = reciprocal * residual
        z[largest] = linalg.cho_solve(factor, residual[largest], check_finite=False)
        return z

    return precondition


def _conjugate_gradients(
    quadratic: Quadratic,
    l2: float,
    precondition: Callable[[Float], Float],
    tolerance: float,
    max_iter: int,
    start: Float | None,
) -> tuple[Float, int, Reason]:
    def product(v: Float) -> Float:
        return quadratic.Sigma.matvec(v) + l2 * v

    w = np.zeros(quadratic.dimension) if start is None else start.copy()
    residual = quadratic.mu - product(w)
    direction = z = precondition(residual)
    rho = residual @ z
    # The recursion's residual drifts from the true one, which the certificate measures.
    target = 0.9 * tolerance
    for iteration in range(max_iter):
        if np.abs(residual).max(initial=0.0) <= target:
            true = quadratic.mu - product(w)
            if np.abs(true).max(initial=0.0) <= tolerance:
                return w, iteration, "converged"
            residual, z = true, precondition(true)
            direction, rho = z, true @ z
        moved = product(direction)
        curvature = direction @ moved
        if not curvature > 0:
            return w, iteration, "stalled"
        step = rho / curvature
        w = w + step * direction
        residual = residual - step * moved
        z = precondition(residual)
        rho, before = residual @ z, rho
        direction = z + rho / before * direction
    return w, max_iter, "maxIter"
