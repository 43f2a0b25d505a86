"""Truncated Newton method for the all-pairs squared hinge loss."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from spark_auc.core.hinge.margins import Margins
from spark_auc.core.hinge.pair_hinge import PairHinge
from spark_auc.core.hinge.row_scores import RowScores
from spark_auc.core.moments.objective import Matrix, Quadratic
from spark_auc.core.types import Float
from spark_auc.solvers.ridge import LARGEST_FACTORISED, inverse
from spark_auc.solvers.solution import ROUNDING, Certificate, Reason, Solution

_log = logging.getLogger(__name__)

# Tolerance and steps of conjugate gradients with a matrix that is too large for a factor.
_EXACT = 1e-8
_EXACT_STEPS = 1000
# Least relative residual of the conjugate gradients of a Newton step.
_FORCING = 0.1
# Greatest slope at the end of a line search, relative to the slope at its start.
_SLOPE_SHARE = 0.1
# Greatest number of step lengths that a line search tries.
_TRIALS = 30
# Number of Hessian products of the preconditioner; each takes two vectors.
_REMEMBERED = 20


def truncated_newton(
    hinge: PairHinge,
    quadratic: Quadratic | None,
    *,
    tol: float,
    max_iter: int,
    start: Float | None = None,
) -> Solution:
    """Minimise the all-pairs squared hinge loss with a ridge (Khalid et al., Algorithm 2).

    At ``w = 0`` every pair violates the margin, so that the first Newton step leads to the
    all-pairs ridge of MBA. With a matrix of all features this solution is the start, and each
    Newton step takes two passes over the rows: one for the scores along the direction, with which
    the line search needs no pass, and one for the gradient at the new point and the Hessian at
    rounded margins (`PairHinge.derivatives`). Without a matrix the start is 0. The Newton direction
    is then computed by truncated conjugate gradients, with two passes per step, preconditioned by
    the diagonal and by earlier Hessian products.

    Parameters
    ----------
    hinge
        The loss.
    quadratic
        Quadratic of all pairs of the same rows and scale, as a matrix; None if there are too many
        features for a matrix.
    tol
        Tolerance of the KKT residual, relative to that at ``w = 0``, both in the units of
        `Certificate` with the Hessian at ``w = 0``.
    max_iter
        Greatest total number of Newton steps or, without a matrix, of conjugate-gradient steps.
    start : (d,), optional
        Weights to begin with, such as the solution of a similar problem; a Newton step then forms
        a matrix of up to 2048 features. Default: see above.

    Returns
    -------
    Solution
        The ``gap`` of its certificate is the lesser of ``|gradient|^2 / (2 l2)``, by strong
        convexity, and the objective, whose minimum is at least 0.
    """
    units = hinge.units
    tolerance = max(tol * float((np.abs(hinge.mu) / units).max(initial=0.0)), 4 * ROUNDING)
    precondition = _Preconditioner(lambda residual: residual)
    by_matrix = quadratic is not None
    if start is not None:
        by_matrix = start.size <= LARGEST_FACTORISED
    if not by_matrix:
        diagonal = hinge.diagonal()
        reciprocal = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        precondition = _Preconditioner(lambda residual: reciprocal * residual)
    if start is None and quadratic is not None:
        start = _inverse(quadratic.Sigma, hinge.l2)(hinge.mu)
    if start is None:
        point = _Point(np.zeros_like(hinge.mu), 0.5, -hinge.mu, units, hinge.mu_rounding)
    else:
        point = _point(hinge, start, Margins.of(hinge.scores(start)), by_matrix)
    iterations, newton_steps = 0, 0
    reason: Reason = "maxIter"
    while point.kkt > tolerance and iterations < max_iter:
        if point.hessian is not None:
            direction = _inverse(point.hessian, hinge.l2)(-point.gradient)
            scores, step_iterations = hinge.scores(point.w, direction), 1
        else:
            direction, scores, products = _direction(
                hinge, point, tolerance, precondition, max_iter - iterations
            )
            precondition, step_iterations = precondition.updated(products), len(products)
        iterations, newton_steps = iterations + step_iterations, newton_steps + 1
        search = _line_search(hinge, point.w, direction, scores)
        if search is None:
            reason = "stalled"
            break
        step, margins = search
        before, point = point, _point(hinge, point.w + step * direction, margins, by_matrix)
        _log.info(
            "Newton step %d: objective %.10g, KKT residual %.3g (tolerance %.3g), "
            "%d iterations, step length %.3g",
            *(newton_steps, point.value, point.kkt, tolerance, step_iterations, step),
        )
        if point.kkt >= before.kkt and point.value >= before.value * (1 - 4 * np.finfo(float).eps):
            reason = "stalled"
            break
    if point.kkt <= tolerance:
        reason = "converged"
    bound = float(point.gradient @ point.gradient) / (2 * hinge.l2) if hinge.l2 > 0 else np.inf
    gap = min(bound, point.value)
    certificate = Certificate(point.value, point.kkt, gap, iterations, tolerance, reason)
    return Solution(point.w, certificate)


@dataclass(frozen=True, eq=False)
class _Point:
    w: Float
    value: float
    gradient: Float
    units: Float
    mu_rounding: float
    hessian: Matrix | None = None

    @property
    def kkt(self) -> float:
        residual = float((np.abs(self.gradient) / self.units).max(initial=0.0))
        size = float(self.units @ np.abs(self.w))
        return residual + (ROUNDING + self.mu_rounding) * size + self.mu_rounding


def _point(hinge: PairHinge, w: Float, margins: Margins, by_matrix: bool) -> _Point:
    value = hinge.value(w, margins)
    if not by_matrix:
        return _Point(w, value, hinge.gradient(w, margins), hinge.units, hinge.mu_rounding)
    gradient, hessian = hinge.derivatives(w, margins)
    return _Point(w, value, gradient, hinge.units, hinge.mu_rounding, hessian)


def _inverse(Sigma: Matrix, l2: float) -> Callable[[Float], Float]:
    return inverse(Sigma, l2, tol=_EXACT, max_iter=_EXACT_STEPS)


@dataclass(frozen=True, eq=False)
class _Product:
    """A vector ``v`` ``(d,)``, its Hessian product ``H v`` ``(d,)``, and ``v' H v``."""

    vector: Float
    product: Float
    curvature: float


@dataclass(frozen=True, eq=False)
class _Preconditioner:
    """An approximate inverse of the Hessian, exact for the last Hessian product.

    The products of one Newton step precondition the next (Morales and Nocedal, 2000), by the two
    loops of limited-memory BFGS. It is positive definite for products of any Hessians.
    """

    base: Callable[[Float], Float]
    products: tuple[_Product, ...] = ()

    def __call__(self, residual: Float) -> Float:
        factors = []
        for p in reversed(self.products):
            factors.append(float(p.vector @ residual) / p.curvature)
            residual = residual - factors[-1] * p.product
        out = self.base(residual)
        for p, factor in zip(self.products, reversed(factors), strict=True):
            out = out + (factor - float(p.product @ out) / p.curvature) * p.vector
        return out

    def updated(self, products: list[_Product]) -> _Preconditioner:
        curved = (p for p in products if p.curvature > 0)
        return replace(self, products=(*self.products, *curved)[-_REMEMBERED:])


def _direction(
    hinge: PairHinge, point: _Point, tolerance: float, precondition: _Preconditioner, max_steps: int
) -> tuple[Float, RowScores, list[_Product]]:
    """The Newton direction by conjugate gradients, the scores by ``w`` and by it, the products.

    The pass for the scores of a search direction also computes those of the sum of the earlier
    directions, so that the scores of the result need no pass of their own.
    """
    total, residual = np.zeros_like(point.w), -point.gradient
    search = z = precondition(residual)
    first = rho = float(residual @ z)
    forcing = max(_FORCING, 0.5 * tolerance / point.kkt)
    margins: Margins | None = None
    products: list[_Product] = []
    while True:
        margins = Margins.of(hinge.scores(point.w, search, total), margins)
        product = hinge.product(point.w, search, margins)
        curvature = float(search @ product)
        # Without curvature along the direction, the gradient along it is 0 too.
        step = rho / curvature if curvature > 0 else 0.0
        scores = margins.scores.combined(np.array([[1.0, 0.0, 0.0], [0.0, step, 1.0]]))
        products.append(_Product(search, product, curvature))
        total, residual = total + step * search, residual - step * product
        z = precondition(residual)
        rho, before = float(residual @ z), rho
        if len(products) == max_steps or not step or rho <= forcing**2 * first:
            return total, scores, products
        search = z + rho / before * search


def _line_search(
    hinge: PairHinge, w: Float, direction: Float, scores: RowScores
) -> tuple[float, Margins] | None:
    """Step length along the direction, and the margins at its end; None without a descent.

    The slope increases along the direction; a step with a slope near 0 is found by the method of
    false position. The sign of the slope is reliable near the minimum, where differences of the
    objective are lost to rounding.
    """
    start_margins = Margins.of(scores)
    start = hinge.slope(w, direction, start_margins, 1)
    if not start < 0:
        return None
    greatest_value = hinge.value(w, start_margins) * (1 + 4 * np.finfo(float).eps)
    low, slope_low, high, slope_high = 0.0, start, np.inf, np.nan
    step = 1.0
    for _ in range(_TRIALS):
        margins = Margins.of(scores.combined(np.array([[1.0, step], [0.0, 1.0]])))
        trial = w + step * direction
        slope = hinge.slope(trial, direction, margins, 1)
        flat = abs(slope) <= -_SLOPE_SHARE * start
        if flat and hinge.value(trial, margins) <= greatest_value:
            return step, margins
        if slope < 0:
            low, slope_low = step, slope
        else:
            high, slope_high = step, slope
        if np.isinf(high):
            step *= min(4.0, max(1.5, start / (start - slope_low))) if slope_low > start else 4.0
        else:
            share = slope_low / (slope_low - slope_high)
            step = low + (high - low) * min(max(share, 0.1), 0.9)
    return None
