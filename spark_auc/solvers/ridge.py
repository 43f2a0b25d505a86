"""Ridge for one penalty: ``(Sigma + l2 I) w = mu``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import cast

import numpy as np
from scipy import linalg

from spark_auc.core.moments.objective import ElasticNet, Matrix, Quadratic
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.types import Float
from spark_auc.solvers.solution import (
    ROUNDING_OF_EIGENVALUES,
    Reason,
    Solution,
    absolute_tolerance,
    certified,
    negative,
)

_log = logging.getLogger(__name__)

# Above this conjugate gradients are faster where the matrix is well conditioned.
LARGEST_FACTORISED = 2048
# Up to here a factor takes seconds, where conjugate gradients do not get there.
LARGEST_DIRECT = 8192
# Conjugate-gradient steps after which a factor is faster.
STEPS = 256
# Features whose block is factorised to precondition: on hashed clicks the 512 of largest variance
# cut the steps to a third of the diagonal's, and 2048 would cost more than the steps they save.
_BLOCK = 512
# Relative: what makes a singular block definite without being seen by the other directions.
_RIDGE_OF_BLOCK = 1e-8
# Columns factorised at a time; LAPACK's threaded factorisation of 16,384 has crashed the process.
_COLUMNS = 1024


def ridge(
    quadratic: Quadratic, l2: float, *, tol: float, max_iter: int, start: Float | None = None
) -> Solution:
    """Minimise ``1/2 w' Sigma w - w' mu + l2/2 |w|^2`` (MBA, Eq. 14).

    Up to d = 2048 by a Cholesky factor. Above, and where the matrix is singular, by conjugate
    gradients, preconditioned by the block of the 512 features of largest variance and by the
    diagonal of the others; up to d = 8192 a factor follows where 256 steps do not suffice.
    ``mu`` is in the range of ``Sigma``, so that ``l2 = 0`` has a solution too.

    Parameters
    ----------
    quadratic
        The loss.
    l2
        Factor of the penalty, >= 0.
    tol
        Relative KKT residual asked for; see `absolute_tolerance`.
    max_iter
        Most conjugate-gradient steps at a time.
    start : (d,), optional
        Where conjugate gradients begin.
    """
    Sigma, penalty = quadratic.Sigma, ElasticNet(0.0, l2)
    tolerance = absolute_tolerance(quadratic, penalty, tol)
    first = Sigma.dimension <= LARGEST_FACTORISED
    last = not first and not (
        isinstance(Sigma, SymmetricTiles) and Sigma.dimension <= LARGEST_DIRECT
    )

    def by_steps(start: Float | None, most: int) -> Solution:
        precondition = _preconditioner(Sigma, l2)
        w, iterations, stopped = _conjugate_gradients(
            quadratic, penalty, precondition, tolerance, most, start
        )
        return certified(
            quadratic, penalty, w, iterations=iterations, tolerance=tolerance, stopped=stopped
        )

    if not first:
        solution = by_steps(start, max_iter if last else min(max_iter, STEPS))
        if last or solution.certificate.reason in ("converged", "indefinite"):
            return solution
        _log.info("%s: a factor follows", solution.certificate)
    if solve := factorised(Sigma, l2):
        w = np.zeros(quadratic.dimension)
        # One step of refinement takes back what an ill-conditioned factor lost.
        for _ in range(2):
            w = w + solve(quadratic.mu - Sigma.matvec(w) - l2 * w)
            solution = certified(
                quadratic, penalty, w, iterations=0, tolerance=tolerance, stopped="stalled"
            )
            if solution.converged:
                return solution
        # Rounding may have put into directions without curvature what no step takes out again.
        if solution.certificate.kkt < np.abs(quadratic.mu / quadratic.units(penalty)).max():
            start = w
    return by_steps(start, max_iter)


def inverse(Sigma: Matrix, l2: float, *, tol: float, max_iter: int) -> Callable[[Float], Float]:
    """What multiplies vectors ``(d,)`` by ``(Sigma + l2 I)^-1``, up to about ``tol``.

    What it takes to solve is made once; see `ridge`.
    """
    if Sigma.dimension <= LARGEST_FACTORISED and (solve := factorised(Sigma, l2)):
        return solve
    precondition = _preconditioner(Sigma, l2)
    penalty = ElasticNet(0.0, l2)

    def solved(vector: Float) -> Float:
        system = Quadratic(Sigma, vector)
        tolerance = absolute_tolerance(system, penalty, tol)
        return _conjugate_gradients(system, penalty, precondition, tolerance, max_iter, None)[0]

    return solved


def factorised(Sigma: Matrix, l2: float) -> Callable[[Float], Float] | None:
    """The inverse of ``Sigma + l2 I`` by a Cholesky factor; None where it has none."""
    matrix = _full(Sigma)
    matrix[np.diag_indices_from(matrix)] += l2
    if not _cholesky(matrix):
        return None
    return lambda vector: cast(Float, linalg.cho_solve((matrix, True), vector, check_finite=False))


def is_indefinite(Sigma: SymmetricTiles) -> bool:
    """Whether the matrix, scaled to a unit diagonal, has negative eigenvalues beyond rounding."""
    matrix, diagonal = _full(Sigma), Sigma.diagonal()
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    matrix /= scale
    matrix /= scale[:, None]
    matrix[np.diag_indices_from(matrix)] += ROUNDING_OF_EIGENVALUES * Sigma.dimension
    return not _cholesky(matrix)


def _full(Sigma: Matrix) -> Float:
    return Sigma.restricted(np.arange(Sigma.dimension)).toarray()


def _cholesky(matrix: Float) -> bool:
    """Put the factor into the lower triangle, in place; False where a pivot is not positive."""
    for start in range(0, len(matrix), _COLUMNS):
        end = min(start + _COLUMNS, len(matrix))
        if start:
            matrix[start:, start:end] -= matrix[start:, :start] @ matrix[start:end, :start].T
        try:
            corner = linalg.cholesky(matrix[start:end, start:end], lower=True, check_finite=False)
        except linalg.LinAlgError:
            return False
        matrix[start:end, start:end] = corner
        matrix[end:, start:end] = linalg.solve_triangular(
            corner, matrix[end:, start:end].T, lower=True, check_finite=False
        ).T
    return True


def _preconditioner(Sigma: Matrix, l2: float) -> Callable[[Float], Float]:
    diagonal = Sigma.diagonal() + l2
    reciprocal = np.where(diagonal > 0, 1.0 / np.where(diagonal > 0, diagonal, 1.0), 0.0)
    varying = np.flatnonzero(diagonal > 0)
    if not varying.size:
        return lambda residual: reciprocal * residual
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
    penalty: ElasticNet,
    precondition: Callable[[Float], Float],
    tolerance: float,
    max_iter: int,
    start: Float | None,
) -> tuple[Float, int, Reason]:
    l2, units = penalty.l2, quadratic.units(penalty)

    def product(v: Float) -> Float:
        return quadratic.Sigma.matvec(v) + l2 * v

    w = np.zeros(quadratic.dimension) if start is None else start.copy()
    residual = quadratic.mu - product(w)
    direction = z = precondition(residual)
    rho = residual @ z
    # The recursion's residual drifts from the true one, which the certificate measures with an
    # allowance for rounding.
    target = 0.9 * tolerance
    for iteration in range(max_iter):
        if np.abs(residual / units).max(initial=0.0) <= target:
            true = quadratic.mu - product(w)
            if np.abs(true / units).max(initial=0.0) <= target:
                return w, iteration, "stalled"
            residual, z = true, precondition(true)
            direction, rho = z, true @ z
        moved = quadratic.Sigma.matvec(direction)
        if negative(float(direction @ moved), quadratic, direction):
            return w, iteration, "indefinite"
        moved += l2 * direction
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
