"""The all-pairs squared hinge by truncated Newton steps."""

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
from spark_auc.solvers.ridge import inverse
from spark_auc.solvers.solution import ROUNDING, Certificate, Reason, Solution

_log = logging.getLogger(__name__)

# Of a matrix that is too large for factors.
_EXACT = 1e-8
_EXACT_STEPS = 1000
# Least relative residual that conjugate gradients are asked for, and the share of the slope that
# a step along their direction may leave.
_FORCING = 0.1
_SLOPE_LEFT = 0.1
_TRIALS = 30
# Products with Hessians that are remembered: two vectors each.
_REMEMBERED = 20


def truncated_newton(
    hinge: PairHinge, quadratic: Quadratic | None, *, tol: float, max_iter: int
) -> Solution:
    """Minimise the all-pairs squared hinge loss with a ridge (Khalid et al., Algorithm 2).

    At ``w = 0`` all pairs violate, so that the first Newton step leads to the all-pairs ridge of
    MBA: where a matrix of all features is at hand, that is the start. Each Newton step then takes
    two passes over the rows: one for the scores along the way, on which the step is searched
    without a pass, and one for the gradient there and the Hessian, whose margins are rounded
    (`PairHinge.derivatives`). Without a matrix it begins at 0, and the Newton
    direction is found by truncated conjugate gradients, two passes a step, preconditioned by the
    diagonal and by what Hessians did to vectors before.

    Parameters
    ----------
    hinge
        The loss.
    quadratic
        That of all pairs of the same rows and scale, as a matrix; None where there are too many
        features for matrices.
    tol
        KKT residual asked for, relative to that at ``w = 0``, both in the units of `Certificate`
        with the Hessian at ``w = 0``.
    max_iter
        Most Newton steps, or without matrices conjugate-gradient steps, in all.

    Returns
    -------
    Solution
        Its certificate's ``gap`` is the lesser of ``|gradient|^2 / (2 l2)``, by strong
        convexity, and the objective, which is never negative.
    """
    units = hinge.units
    tolerance = max(tol * float((np.abs(hinge.mu) / units).max(initial=0.0)), 4 * ROUNDING)
    precondition = _Preconditioner(lambda residual: residual)
    if quadratic is None:
        diagonal = hinge.diagonal()
        reciprocal = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        precondition = _Preconditioner(lambda residual: reciprocal * residual)
        at = _Point(np.zeros_like(hinge.mu), 0.5, -hinge.mu, units, hinge.mu_rounding)
    else:
        w = _inverse(quadratic.Sigma, hinge.l2)(hinge.mu)
        at = _point(hinge, w, Margins.of(hinge.scores(w)), quadratic)
    taken, steps, stopped = 0, 0, "maxIter"
    while at.kkt > tolerance and taken < max_iter:
        if at.hessian is not None:
            direction = _inverse(at.hessian, hinge.l2)(-at.gradient)
            scores, used = hinge.scores(at.w, direction), 1
        else:
            direction, scores, products = _direction(
                hinge, at, tolerance, precondition, max_iter - taken
            )
            precondition, used = precondition.knowing(products), len(products)
        taken, steps = taken + used, steps + 1
        found = _searched(hinge, at.w, direction, scores)
        if found is None:
            stopped = "stalled"
            break
        step, margins = found
        before, at = at, _point(hinge, at.w + step * direction, margins, quadratic)
        _log.info(
            "Newton step %d: objective %.10g, largest gradient %.3g of %.3g asked for, "
            "%d iterations, step length %.3g",
            *(steps, at.value, at.kkt, tolerance, used, step),
        )
        if at.kkt >= before.kkt and at.value >= before.value * (1 - 4 * np.finfo(float).eps):
            stopped = "stalled"
            break
    reason: Reason = "stalled" if stopped == "stalled" else "maxIter"
    if at.kkt <= tolerance:
        reason = "converged"
    bound = float(at.gradient @ at.gradient) / (2 * hinge.l2) if hinge.l2 > 0 else np.inf
    gap = min(bound, at.value)
    return Solution(at.w, Certificate(at.value, at.kkt, gap, taken, tolerance, reason))


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


def _point(hinge: PairHinge, w: Float, margins: Margins, quadratic: Quadratic | None) -> _Point:
    value = hinge.value(w, margins)
    if quadratic is None:
        return _Point(w, value, hinge.gradient(w, margins), hinge.units, hinge.mu_rounding)
    gradient, hessian = hinge.derivatives(w, margins)
    return _Point(w, value, gradient, hinge.units, hinge.mu_rounding, hessian)


def _inverse(Sigma: Matrix, l2: float) -> Callable[[Float], Float]:
    return inverse(Sigma, l2, tol=_EXACT, max_iter=_EXACT_STEPS)


@dataclass(frozen=True, eq=False)
class _Product:
    """A vector ``(d,)``, the Hessian times it, and the product of both."""

    vector: Float
    product: Float
    curvature: float


@dataclass(frozen=True, eq=False)
class _Preconditioner:
    """An approximate inverse of the Hessian, exact on the last of the products it knows.

    The products of one Newton step precondition the next (Morales and Nocedal, 2000), by the
    two loops of limited-memory BFGS: a positive definite matrix, whatever Hessians they are of.
    """

    base: Callable[[Float], Float]
    known: tuple[_Product, ...] = ()

    def __call__(self, residual: Float) -> Float:
        factors = []
        for p in reversed(self.known):
            factors.append(float(p.vector @ residual) / p.curvature)
            residual = residual - factors[-1] * p.product
        out = self.base(residual)
        for p, factor in zip(self.known, reversed(factors), strict=True):
            out = out + (factor - float(p.product @ out) / p.curvature) * p.vector
        return out

    def knowing(self, products: list[_Product]) -> _Preconditioner:
        curved = (p for p in products if p.curvature > 0)
        return replace(self, known=(*self.known, *curved)[-_REMEMBERED:])


def _direction(
    hinge: PairHinge, at: _Point, tolerance: float, precondition: _Preconditioner, most: int
) -> tuple[Float, RowScores, list[_Product]]:
    """The Newton direction by conjugate gradients, the scores by ``w`` and by it, the products.

    Each pass for the scores of a search direction brings those of what the directions before
    summed to, row by row, so that the result's scores need no pass of their own.
    """
    total, residual = np.zeros_like(at.w), -at.gradient
    search = z = precondition(residual)
    first = rho = float(residual @ z)
    forcing = max(_FORCING, 0.5 * tolerance / at.kkt)
    margins: Margins | None = None
    products: list[_Product] = []
    while True:
        margins = Margins.of(hinge.scores(at.w, search, total), margins)
        product = hinge.product(at.w, search, margins)
        curvature = float(search @ product)
        # Without curvature there is no gradient left along the way either.
        step = rho / curvature if curvature > 0 else 0.0
        scores = margins.scores.combined(np.array([[1.0, 0.0, 0.0], [0.0, step, 1.0]]))
        products.append(_Product(search, product, curvature))
        total, residual = total + step * search, residual - step * product
        z = precondition(residual)
        rho, before = float(residual @ z), rho
        if len(products) == most or not step or rho <= forcing**2 * first:
            return total, scores, products
        search = z + rho / before * search


def _searched(
    hinge: PairHinge, w: Float, direction: Float, scores: RowScores
) -> tuple[float, Margins] | None:
    """A step along the direction and the margins there; None where no step leads down.

    The slope grows along the way and is sought near 0, by false position: it tells down from up
    long after differences of the objective have drowned in rounding.
    """
    here = Margins.of(scores)
    start = hinge.slope(w, direction, here, 1)
    if not start < 0:
        return None
    most = hinge.value(w, here) * (1 + 4 * np.finfo(float).eps)
    low, slope_low, high, slope_high = 0.0, start, np.inf, np.nan
    step = 1.0
    for _ in range(_TRIALS):
        margins = Margins.of(scores.combined(np.array([[1.0, step], [0.0, 1.0]])))
        there = w + step * direction
        slope = hinge.slope(there, direction, margins, 1)
        if abs(slope) <= -_SLOPE_LEFT * start and hinge.value(there, margins) <= most:
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
