"""Ridge with many penalties, from one decomposition or one Krylov space."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.types import Float
from spark_auc.solvers.banded import Banded
from spark_auc.solvers.krylov import KrylovSpace
from spark_auc.solvers.ridge import LARGEST_DIRECT, STEPS, ridge
from spark_auc.solvers.solution import (
    Solution,
    absolute_tolerance,
    certified_together,
)

_log = logging.getLogger(__name__)

# Greatest dimension of a Krylov space.
_LONGEST = 400
# Greatest size of its vectors in bytes, and that of all spaces that grow together.
_SPACE_BYTES, _SPACES_BYTES = 1 << 30, 1 << 31
# Without a matrix, one in so many penalties may be left unsolved after so many steps: the weakest
# take most steps.
_SPARED, _AFTER = 3, 64
# Number of steps between two tests for convergence.
_BETWEEN = 8


def ridges(
    quadratic: Quadratic, factors: Sequence[float], *, tol: float, max_iter: int
) -> list[Solution]:
    """The solutions of ``(Sigma + l2 I) w = mu`` for many factors ``l2 >= 0``.

    A matrix of up to 8192 features is reduced to a band once. Each penalty then takes ``O(d)``, and
    the solutions are transformed back together. One step of iterative refinement with ``Sigma``
    follows for solutions that need it. For more features, or without a matrix, all penalties share
    the Krylov space of ``mu``. Solutions that have not converged get up to 256 conjugate-gradient
    steps if there is a matrix. Without one, each step is a pass over the rows: after 64 of them a
    fifth of the penalties, the weakest, may be left unsolved. Every certificate is computed with
    ``Sigma``.

    Parameters
    ----------
    quadratic
        The loss.
    factors
        Factors ``l2`` of the penalties.
    tol, max_iter
        See `ridge`.
    """
    Sigma = quadratic.Sigma
    penalties = [ElasticNet(0.0, l2) for l2 in factors]
    if isinstance(Sigma, SymmetricTiles) and Sigma.dimension <= LARGEST_DIRECT:
        solutions, indefinite = _by_band(quadratic, Sigma, penalties, tol)
    else:
        solutions, indefinite = _by_krylov(quadratic, penalties, tol, min(max_iter, _LONGEST))
    if indefinite:
        return [solution.indefinite() for solution in solutions]
    for i in _unsolved(solutions) if isinstance(Sigma, SymmetricTiles) else ():
        _log.info(
            "ridge with l2 = %.3g did not converge (%s); continuing with conjugate gradients",
            factors[i],
            solutions[i].certificate,
        )
        steps, start = min(max_iter, STEPS), solutions[i].start(penalties[i], penalties[i])
        solutions[i] = ridge(quadratic, factors[i], tol=tol, max_iter=steps, start=start)
    return solutions


def space_bytes(dimension: int) -> int:
    """Most bytes of a Krylov space of vectors ``(d,)``."""
    return min(8 * dimension * _LONGEST, _SPACE_BYTES)


def spaces_at_once(dimension: int) -> int:
    """Number of Krylov spaces of vectors ``(d,)`` that may grow together."""
    return _SPACES_BYTES // space_bytes(dimension)


def _unsolved(solutions: Sequence[Solution]) -> list[int]:
    return [i for i, solution in enumerate(solutions) if not solution.converged]


def _by_band(
    quadratic: Quadratic, Sigma: SymmetricTiles, penalties: Sequence[ElasticNet], tol: float
) -> tuple[list[Solution], bool]:
    matrix = Banded(Sigma)
    factors = np.array([penalty.l2 for penalty in penalties])
    W = matrix.solved(np.tile(quadratic.mu[:, None], len(factors)), factors.tolist())

    def certificates(chosen: list[int]) -> list[Solution]:
        selected = [penalties[i] for i in chosen]
        return certified_together(
            quadratic, selected, W[:, chosen], iterations=0, tol=tol, stopped="stalled"
        )

    solutions = certificates(list(range(len(factors))))
    if unsolved := _unsolved(solutions):
        residual = quadratic.mu[:, None] - quadratic.Sigma.matmat(W[:, unsolved])
        residual -= factors[unsolved] * W[:, unsolved]
        W[:, unsolved] += matrix.solved(residual, factors[unsolved].tolist())
        for i, solution in zip(unsolved, certificates(unsolved), strict=True):
            solutions[i] = solution
    return solutions, matrix.indefinite(quadratic.eigenvalue_rounding)


def _by_krylov(
    quadratic: Quadratic, penalties: Sequence[ElasticNet], tol: float, max_steps: int
) -> tuple[list[Solution], bool]:
    """The solutions of all penalties from one space, and whether ``Sigma`` is indefinite."""
    # The space is freed before the certificates: it takes more memory than all else.
    W, steps, indefinite = _in_krylov(quadratic, penalties, tol, max_steps)
    solutions = certified_together(
        quadratic, penalties, W, iterations=steps, tol=tol, stopped="maxIter"
    )
    _log.info(
        "%d Lanczos steps solved %d of %d ridge penalties",
        steps,
        len(solutions) - len(_unsolved(solutions)),
        len(solutions),
    )
    return solutions, indefinite


def _in_krylov(
    quadratic: Quadratic, penalties: Sequence[ElasticNet], tol: float, max_steps: int
) -> tuple[Float, int, bool]:
    """The weights ``(d, l)``, the number of steps, and whether ``Sigma`` is indefinite."""
    Sigma, d = quadratic.Sigma, quadratic.dimension
    has_matrix = isinstance(Sigma, SymmetricTiles)
    space = KrylovSpace(quadratic.mu, max(1, min(max_steps, d, space_bytes(d) // (8 * d))))
    from_weak = sorted(penalties, key=lambda penalty: penalty.l2)

    def solved(penalty: ElasticNet) -> bool:
        y = space.coordinates(penalty.l2)
        if y is None:
            return False
        residual = float((space.residual(y) / quadratic.units(penalty)).max())
        return residual <= 0.5 * absolute_tolerance(quadratic, penalty, tol)

    while not space.complete:
        space.grow(Sigma)
        spared = 0 if has_matrix or space.size < _AFTER else len(penalties) // _SPARED
        if space.size % _BETWEEN == 0 and all(map(solved, from_weak[spared:])):
            break
    Y = np.zeros((space.size, len(penalties)))
    for i, penalty in enumerate(penalties):
        y = space.coordinates(penalty.l2)
        if y is not None:
            Y[:, i] = y
    return space.vectors(Y), space.size, space.indefinite(quadratic.eigenvalue_rounding)
