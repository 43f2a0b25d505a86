"""Ridge with one penalty: ``(Sigma + l2 I) w = mu``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import cast

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from spark_auc.core.moments.objective import ElasticNet, Matrix, Quadratic
from spark_auc.core.moments.operator import PairOperator
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.row_source import ArrayRows
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

# For more features, conjugate gradients are faster if the matrix is well conditioned.
LARGEST_FACTORISED = 2048
# Greatest number of features for which a factor, which takes seconds, follows conjugate gradients
# that did not converge.
LARGEST_DIRECT = 8192
# Number of conjugate-gradient steps that take as long as a factor.
STEPS = 256
# Features of the block preconditioner. On hashed clicks the 512 features of largest variance reduce
# the steps to a third of those with the diagonal; 2048 would cost more than the steps they save.
_BLOCK = 512
# Features of the block where a product is a pass over rows outside the memory of this process, if
# they hold half of the trace. On unit rows of hashed clicks 40 passes become 15; on standardised
# columns no block helps.
_WIDE_BLOCK, _WORTH_IT = 4000, 0.5
# Relative ridge that makes a singular block definite, without effect on other directions.
_RIDGE_OF_BLOCK = 1e-8
# Columns of a block of the factorisation; LAPACK's threaded factorisation crashed at 16,384.
_COLUMNS = 2048


def ridge(
    quadratic: Quadratic, l2: float, *, tol: float, max_iter: int, start: Float | None = None
) -> Solution:
    """Minimise ``1/2 w' Sigma w - w' mu + l2/2 |w|^2`` (MBA, Eq. 14).

    For d <= 2048 the solver is a Cholesky factor. For larger d, and for a singular matrix, it is
    conjugate gradients, preconditioned by the block of the 512 features of largest variance and the
    diagonal of the others; for d <= 8192 a factor follows if 256 steps do not suffice. Where a
    product is a pass over rows outside the memory of this process, the block is of 4,000 features
    if these hold half of the trace. ``mu`` is in the range of ``Sigma``, so that ``l2 = 0`` has a
    solution too.

    Parameters
    ----------
    quadratic
        The loss.
    l2
        Factor of the penalty, >= 0.
    tol
        Relative tolerance of the KKT residual; see `absolute_tolerance`.
    max_iter
        Greatest number of conjugate-gradient steps of a run.
    start : (d,), optional
        Start of the conjugate gradients. Default: 0.
    """
    Sigma, penalty = quadratic.Sigma, ElasticNet(0.0, l2)
    tolerance = absolute_tolerance(quadratic, penalty, tol)
    factor_first = Sigma.dimension <= LARGEST_FACTORISED
    iterative_only = not factor_first and not (
        isinstance(Sigma, SymmetricTiles) and Sigma.dimension <= LARGEST_DIRECT
    )

    def iterate(start: Float | None, max_steps: int) -> Solution:
        precondition = _preconditioner(Sigma, l2)
        w, iterations, stopped = _conjugate_gradients(
            quadratic, penalty, precondition, tolerance, max_steps, start
        )
        return certified(
            quadratic, penalty, w, iterations=iterations, tolerance=tolerance, stopped=stopped
        )

    if not factor_first:
        solution = iterate(start, max_iter if iterative_only else min(max_iter, STEPS))
        if iterative_only or solution.certificate.reason in ("converged", "indefinite"):
            return solution
        _log.info(
            "conjugate gradients did not converge (%s); solving by a Cholesky factor",
            solution.certificate,
        )
    if solve := factorised(Sigma, l2):
        w = np.zeros(quadratic.dimension)
        # One step of iterative refinement corrects the error of an ill-conditioned factor.
        for _ in range(2):
            w = w + solve(quadratic.mu - Sigma.matvec(w) - l2 * w)
            solution = certified(
                quadratic, penalty, w, iterations=0, tolerance=tolerance, stopped="stalled"
            )
            if solution.converged:
                return solution
        # Rounding may have added components without curvature, which no step can remove. Conjugate
        # gradients start from the factor's solution only if it is better than 0.
        if solution.certificate.kkt < np.abs(quadratic.mu / quadratic.units(penalty)).max():
            start = w
    return iterate(start, max_iter)


def inverse(Sigma: Matrix, l2: float, *, tol: float, max_iter: int) -> Callable[[Float], Float]:
    """Function that multiplies a vector ``(d,)`` by ``(Sigma + l2 I)^-1``.

    The factor or the preconditioner is computed once; see `ridge`.

    Parameters
    ----------
    Sigma
        The matrix.
    l2
        Factor of the penalty, >= 0.
    tol
        Relative tolerance of conjugate gradients.
    max_iter
        Greatest number of conjugate-gradient steps for each vector.
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
    """Function that multiplies by ``(Sigma + l2 I)^-1``; None if the Cholesky factor fails."""
    matrix = _full(Sigma)
    matrix[np.diag_indices_from(matrix)] += l2
    if not _cholesky(matrix):
        return None
    return lambda vector: cast(Float, linalg.cho_solve((matrix, True), vector, check_finite=False))


def is_indefinite(quadratic: Quadratic) -> bool:
    """Whether the matrix, scaled to unit diagonal, has eigenvalues negative beyond rounding."""
    matrix, diagonal = _full(quadratic.Sigma), quadratic.diagonal
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    matrix /= scale
    matrix /= scale[:, None]
    rounding = ROUNDING_OF_EIGENVALUES * quadratic.dimension + quadratic.scaled_rounding()
    matrix[np.diag_indices_from(matrix)] += rounding
    return not _cholesky(matrix)


def _full(Sigma: Matrix) -> Float:
    return Sigma.restricted(np.arange(Sigma.dimension)).toarray()


def _cholesky(matrix: Float) -> bool:
    """Factorise in place, in the lower triangle; False if a pivot is not positive."""
    for start in range(0, len(matrix), _COLUMNS):
        end = min(start + _COLUMNS, len(matrix))
        if start:
            matrix[start:, start:end] -= matrix[start:, :start] @ matrix[start:end, :start].T
        # The transposed view has LAPACK's order of memory.
        transposed = matrix[start:end, start:end].T
        factor, failed = lapack.dpotrf(transposed, lower=0, clean=0, overwrite_a=1)
        if failed:
            return False
        block = matrix[start:end, start:end] = factor.T
        matrix[end:, start:end] = linalg.solve_triangular(
            block, matrix[end:, start:end].T, lower=True, check_finite=False
        ).T
    return True


def _preconditioner(Sigma: Matrix, l2: float) -> Callable[[Float], Float]:
    diagonal = Sigma.diagonal() + l2
    reciprocal = np.where(diagonal > 0, 1.0 / np.where(diagonal > 0, diagonal, 1.0), 0.0)
    varying = np.flatnonzero(diagonal > 0)
    if not varying.size:
        return lambda residual: reciprocal * residual
    largest = varying[np.argsort(-diagonal[varying], kind="stable")[:_WIDE_BLOCK]]
    by_passes = isinstance(Sigma, PairOperator) and not isinstance(Sigma.rows, ArrayRows)
    if not by_passes or diagonal[largest].sum() < _WORTH_IT * diagonal.sum():
        largest = largest[:_BLOCK]
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
    # The residual of the recursion drifts from the true one, from which the certificate is made.
    target = 0.9 * tolerance
    for iteration in range(max_iter):
        if np.abs(residual / units).max(initial=0.0) <= target:
            true = quadratic.mu - product(w)
            if np.abs(true / units).max(initial=0.0) <= target:
                return w, iteration, "stalled"
            residual, z = true, precondition(true)
            direction, rho = z, true @ z
        image = quadratic.Sigma.matvec(direction)
        if negative(float(direction @ image), quadratic, direction):
            return w, iteration, "indefinite"
        image += l2 * direction
        curvature = direction @ image
        if not curvature > 0:
            return w, iteration, "stalled"
        step = rho / curvature
        w = w + step * direction
        residual = residual - step * image
        z = precondition(residual)
        rho, before = residual @ z, rho
        direction = z + rho / before * direction
    return w, max_iter, "maxIter"
