"""Truncated Newton method for the all-pairs squared hinge loss."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from spark_auc.core.hinge.lines import AnyMargins, Line, line_of
from spark_auc.core.hinge.margins import Margins
from spark_auc.core.hinge.pair_hinge import Gradient, PairHinge
from spark_auc.core.hinge.range_margins import RangeMargins
from spark_auc.core.moments.objective import Matrix, Quadratic
from spark_auc.core.types import Float
from spark_auc.solvers.preconditioner import Preconditioner, Product
from spark_auc.solvers.ridge import inverse
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
# Greatest number of ranges of scores, and the factor by which their number grows to reach it.
_MOST_RANGES, _FINER = 1 << 20, 4


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
    rounded margins (`PairHinge.derivatives`). The Hessian of a point that is foretold to be the
    last is not formed. Without a matrix the start is 0, and the Newton direction is computed by
    truncated conjugate gradients, with two passes per step, preconditioned by the diagonal and by
    earlier Hessian products.

    Where the loss has ranges of scores, each length that a line search tries takes a pass. The
    bounds on their errors count in the KKT residual; they become more, up to 2^20, while their
    error is above half of the tolerance.

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
        Weights to begin with, such as the solution of a similar problem. Default: see above.

    Returns
    -------
    Solution
        The ``gap`` of its certificate is the lesser of ``|gradient|^2 / (2 l2)``, by strong
        convexity, and the objective, whose minimum is at least 0.
    """
    units = hinge.units
    tolerance = max(tol * float((np.abs(hinge.mu) / units).max(initial=0.0)), 4 * ROUNDING)
    precondition = Preconditioner(lambda residual: residual)
    by_matrix = quadratic is not None
    if not by_matrix:
        diagonal = hinge.diagonal()
        reciprocal = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        precondition = Preconditioner(lambda residual: reciprocal * residual)
    if start is None and quadratic is not None:
        start = _inverse(quadratic.Sigma, hinge.l2)(hinge.mu)
    if start is None:
        zero = np.zeros_like(hinge.mu)
        point = _Point(zero, 0.5, 0.0, Gradient(-hinge.mu, zero), units, hinge.mu_rounding)
    else:
        hinge, point = _reached(hinge, start, _margins(hinge, start), by_matrix, tolerance, False)
    before: _Point | None = None
    iterations, newton_steps = 0, 0
    reason: Reason = "maxIter"
    while point.kkt > tolerance and iterations < max_iter:
        if point.hessian is not None:
            direction = _inverse(point.hessian, hinge.l2)(-point.gradient.value)
            line, step_iterations = hinge.line(point.w, direction), 1
        else:
            direction, line, products = _direction(
                hinge, point, tolerance, precondition, max_iter - iterations
            )
            precondition, step_iterations = precondition.updated(products), len(products)
        iterations, newton_steps = iterations + step_iterations, newton_steps + 1
        search = _line_search(hinge, point, direction, line)
        if search is None:
            reason = "stalled"
            break
        step, margins = search
        last = point.foretells(before, tolerance)
        before, w = point, point.w + step * direction
        hinge, point = _reached(hinge, w, margins, by_matrix, tolerance, last)
        _log.info(
            "Newton step %d: objective %.10g, KKT residual %.3g (tolerance %.3g), "
            "%d iterations, step length %.3g",
            *(newton_steps, point.value, point.kkt, tolerance, step_iterations, step),
        )
        if point.no_better(before):
            reason = "stalled"
            break
    if point.kkt <= tolerance:
        reason = "converged"
    steepest = np.abs(point.gradient.value) + point.gradient.error
    bound = float(steepest @ steepest) / (2 * hinge.l2) if hinge.l2 > 0 else np.inf
    gap = min(bound, point.value + point.value_error)
    certificate = Certificate(
        point.value, point.kkt, gap, iterations, tolerance, reason, point.value_error
    )
    return Solution(point.w, certificate)


@dataclass(frozen=True, eq=False)
class _Point:
    w: Float
    value: float
    value_error: float
    gradient: Gradient
    units: Float
    mu_rounding: float
    hessian: Matrix | None = None

    @property
    def residual(self) -> float:
        """The KKT residual as computed."""
        return float((np.abs(self.gradient.value) / self.units).max(initial=0.0))

    @property
    def range_error(self) -> float:
        """Bound on the error of `residual` by ranges of scores."""
        return float((self.gradient.error / self.units).max(initial=0.0))

    @property
    def kkt(self) -> float:
        steepest = np.abs(self.gradient.value) + self.gradient.error
        residual = float((steepest / self.units).max(initial=0.0))
        size = float(self.units @ np.abs(self.w))
        return residual + (ROUNDING + self.mu_rounding) * size + self.mu_rounding

    def no_better(self, before: _Point) -> bool:
        """Whether rounding or ranges hide any progress since the point before."""
        least = before.value * (1 - 4 * np.finfo(float).eps) - before.value_error
        hidden = self.residual < self.range_error and self.kkt >= before.kkt / 2
        return (self.kkt >= before.kkt and bool(self.value >= least)) or hidden

    def foretells(self, before: _Point | None, tolerance: float) -> bool:
        """Whether the next point converges if it improves on this one as this one on the last."""
        return before is not None and self.kkt * min(1.0, self.kkt / before.kkt) <= tolerance


def _margins(hinge: PairHinge, w: Float) -> AnyMargins:
    return Margins.of(hinge.scores(w)) if hinge.ranges is None else hinge.in_ranges(w, w)


def _point(hinge: PairHinge, w: Float, margins: AnyMargins, by_matrix: bool) -> _Point:
    values = hinge.value(w, margins), hinge.value_error(margins)
    if not by_matrix:
        return _Point(w, *values, hinge.gradient(w, margins), hinge.units, hinge.mu_rounding)
    gradient, hessian = hinge.derivatives(w, margins)
    return _Point(w, *values, gradient, hinge.units, hinge.mu_rounding, hessian)


def _reached(
    hinge: PairHinge, w: Float, margins: AnyMargins, by_matrix: bool, tolerance: float, last: bool
) -> tuple[PairHinge, _Point]:
    """The point ``w``, and the loss with as many ranges of scores as the tolerance takes.

    A point that is foretold to be the last has a Hessian only if it is not.
    """
    point = _point(hinge, w, margins, by_matrix and not last)
    while point.range_error > tolerance / 2 and hinge.ranges and hinge.ranges < _MOST_RANGES:
        hinge = replace(hinge, ranges=min(_FINER * hinge.ranges, _MOST_RANGES))
        _log.info("the error by ranges of scores is %.3g: more ranges", point.range_error)
        margins = _margins(hinge, w)
        point = _point(hinge, w, margins, by_matrix and not last)
    if by_matrix and last and point.kkt > tolerance:
        point = _point(hinge, w, margins, by_matrix)
    return hinge, point


def _inverse(Sigma: Matrix, l2: float) -> Callable[[Float], Float]:
    return inverse(Sigma, l2, tol=_EXACT, max_iter=_EXACT_STEPS)


def _direction(
    hinge: PairHinge, point: _Point, tolerance: float, precondition: Preconditioner, max_steps: int
) -> tuple[Float, Line, list[Product]]:
    """The Newton direction by conjugate gradients, the margins along it, and the products.

    The pass for the gathered scores of a search direction also computes those of the sum of the
    earlier directions, so that the scores of the result need no pass of their own.
    """
    total, residual = np.zeros_like(point.w), -point.gradient.value
    search = z = precondition(residual)
    first = rho = float(residual @ z)
    forcing = max(_FORCING, 0.5 * tolerance / point.kkt)
    margins: AnyMargins | None = None
    products: list[Product] = []
    while True:
        if hinge.ranges is not None:
            margins = hinge.in_ranges(point.w, search)
        else:
            known = margins if isinstance(margins, Margins) else None
            margins = Margins.of(hinge.scores(point.w, search, total), known)
        product = hinge.product(point.w, search, margins)
        curvature = float(search @ product)
        # Without curvature along the direction, the gradient along it is 0 too.
        step = rho / curvature if curvature > 0 else 0.0
        products.append(Product(search, product, curvature))
        total, residual = total + step * search, residual - step * product
        z = precondition(residual)
        rho, before = float(residual @ z), rho
        if len(products) == max_steps or not step or rho <= forcing**2 * first:
            if isinstance(margins, RangeMargins):
                return total, hinge.line(point.w, total), products
            factors = np.array([[1.0, 0.0, 0.0], [0.0, step, 1.0]])
            return total, line_of(margins.scores.combined(factors)), products
        search = z + rho / before * search


def _line_search(
    hinge: PairHinge, point: _Point, direction: Float, line: Line
) -> tuple[float, AnyMargins] | None:
    """Step length along the direction, and the margins at its end; None without a descent.

    The slope increases along the direction; a step with a slope near 0 is found by the method of
    false position, which halves the slope of an end that stays (Illinois; Dowell and Jarratt 1971):
    beyond an edge the slope may be a million times as large as before it. The sign of the slope is
    reliable near the minimum, where differences of the objective are lost to rounding.
    """
    start = float(point.gradient.value @ direction)
    if not start < 0:
        return None
    greatest_value = point.value * (1 + 4 * np.finfo(float).eps) + 2 * point.value_error
    low, slope_low, high, slope_high = 0.0, start, np.inf, np.nan
    step, side = 1.0, 0
    for _ in range(_TRIALS):
        margins, trial = line(step), point.w + step * direction
        slope = hinge.slope(trial, direction, margins, 1)
        flat = abs(slope) <= -_SLOPE_SHARE * start
        if flat and hinge.value(trial, margins) <= greatest_value:
            return step, margins
        if slope < 0:
            slope_high /= 2.0 if side < 0 else 1.0
            low, slope_low, side = step, slope, -1
        else:
            slope_low /= 2.0 if side > 0 else 1.0
            high, slope_high, side = step, slope, 1
        if np.isinf(high):
            step *= min(4.0, max(1.5, start / (start - slope))) if slope > start else 4.0
        else:
            share = slope_low / (slope_low - slope_high)
            step = low + (high - low) * min(max(share, 0.1), 0.9)
    return (low, line(low)) if low else None
