"""Ridge for many penalties: one decomposition, or one Krylov space, serves them all."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from scipy.linalg import lapack

from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.types import Float
from spark_auc.solvers.banded import Banded
from spark_auc.solvers.ridge import LARGEST_DIRECT, STEPS, ridge
from spark_auc.solvers.solution import (
    ROUNDING_OF_EIGENVALUES,
    Solution,
    absolute_tolerance,
    certified_together,
)

_log = logging.getLogger(__name__)

# Steps of a Krylov space, what its vectors may take, and after how many it is asked for solutions.
_LONGEST = 400
_SPACE_BYTES = 1 << 30
_BETWEEN = 8


def ridges(
    quadratic: Quadratic, factors: Sequence[float], *, tol: float, max_iter: int
) -> list[Solution]:
    """The solutions of ``(Sigma + l2 I) w = mu`` for many factors ``l2 >= 0`` at once.

    A matrix of up to 8192 features is reduced to a band once, after which a penalty costs
    ``O(d)`` and all are turned back together; one step of refinement with ``Sigma`` itself
    follows where it is needed. Above, and for rows, Lanczos vectors from ``mu`` are shared by all
    penalties. What is not solved so takes up to 256 conjugate-gradient steps from there. Every
    certificate is made with ``Sigma``.

    Parameters
    ----------
    quadratic
        The loss.
    factors
        The penalties.
    tol, max_iter
        See `ridge`.
    """
    Sigma = quadratic.Sigma
    penalties = [ElasticNet(0.0, l2) for l2 in factors]
    if isinstance(Sigma, SymmetricTiles) and Sigma.dimension <= LARGEST_DIRECT:
        found, indefinite = _by_band(quadratic, Sigma, penalties, tol)
    else:
        found, indefinite = _by_krylov(quadratic, penalties, tol, min(max_iter, _LONGEST))
    if indefinite:
        return [solution.indefinite() for solution in found]
    for i in _unsolved(found):
        _log.info("l2 = %.3g: %s; conjugate gradients follow", factors[i], found[i].certificate)
        most = min(max_iter, STEPS)
        found[i] = ridge(quadratic, factors[i], tol=tol, max_iter=most, start=found[i].w)
    return found


def _unsolved(found: Sequence[Solution]) -> list[int]:
    return [i for i, solution in enumerate(found) if not solution.converged]


def _by_band(
    quadratic: Quadratic, Sigma: SymmetricTiles, penalties: Sequence[ElasticNet], tol: float
) -> tuple[list[Solution], bool]:
    matrix = Banded(Sigma)
    factors = np.array([penalty.l2 for penalty in penalties])
    W = matrix.solved(np.tile(quadratic.mu[:, None], len(factors)), factors.tolist())

    def certificates(chosen: list[int]) -> list[Solution]:
        some = [penalties[i] for i in chosen]
        return certified_together(
            quadratic, some, W[:, chosen], iterations=0, tol=tol, stopped="stalled"
        )

    found = certificates(list(range(len(factors))))
    if again := _unsolved(found):
        residual = quadratic.mu[:, None] - quadratic.Sigma.matmat(W[:, again])
        residual -= factors[again] * W[:, again]
        W[:, again] += matrix.solved(residual, factors[again].tolist())
        for i, solution in zip(again, certificates(again), strict=True):
            found[i] = solution
    return found, matrix.indefinite


def _by_krylov(
    quadratic: Quadratic, penalties: Sequence[ElasticNet], tol: float, most: int
) -> tuple[list[Solution], bool]:
    """Lanczos from ``mu`` with full reorthogonalisation: ``(T_m + l2 I) y = |mu| e_1``."""
    Sigma, mu = quadratic.Sigma, quadratic.mu
    d, length = mu.size, float(np.linalg.norm(mu))
    most = max(1, min(most, d, _SPACE_BYTES // (8 * d)))
    units = np.stack([quadratic.units(penalty) for penalty in penalties])
    targets = [0.5 * absolute_tolerance(quadratic, penalty, tol) for penalty in penalties]
    V = np.zeros((1, d))
    V[0] = mu / (length or 1.0)
    diagonal, beside = np.zeros(most), np.zeros(most)
    Y, m = np.zeros((most, len(penalties))), 0
    last = 0.0
    while m < most and length:
        if m + 1 >= len(V):
            V = np.vstack([V, np.zeros((min(len(V) + _BETWEEN, most + 1 - len(V)), d))])
        v = Sigma.matvec(V[m])
        diagonal[m] = V[m] @ v
        # Twice is enough (Kahan and Parlett).
        for _ in range(2):
            v -= (V[: m + 1] @ v) @ V[: m + 1]
        beside[m] = np.linalg.norm(v)
        m += 1
        size = np.abs(diagonal[:m]).max() + 2 * beside[: m - 1].max(initial=0.0)
        # What is left of a space that Sigma maps into itself is rounding.
        if ended := bool(beside[m - 1] <= d * np.finfo(float).eps * size):
            last = 0.0
        else:
            V[m] = v / beside[m - 1]
            last = float(beside[m - 1])
        if ended or m == most or m % _BETWEEN == 0:
            left = last * (np.abs(V[m]) / units).max(axis=1) if last else np.zeros(len(units))
            solved = True
            for i, penalty in enumerate(penalties):
                right = np.zeros(m)
                right[0] = length
                y = _solved(diagonal[:m] + penalty.l2, beside[: m - 1], right)
                Y[:m, i] = 0.0 if y is None else y
                solved &= y is not None and abs(float(y[-1])) * left[i] <= targets[i]
            if solved or ended:
                break
    W = V[:m].T @ Y[:m]
    found = certified_together(quadratic, penalties, W, iterations=m, tol=tol, stopped="maxIter")
    solved_count = len(found) - len(_unsolved(found))
    _log.info("a Krylov space of %d steps solved %d penalties", m, solved_count)
    return found, _is_indefinite(diagonal[:m], beside[: max(m - 1, 0)], d)


def _solved(diagonal: Float, beside: Float, right: Float) -> Float | None:
    """``T^-1 v`` of a symmetric tridiagonal matrix; None where it is not positive definite."""
    # LAPACK's wrapper takes no matrix of one row: another row stands beside it.
    *_, out, failed = lapack.dptsv(
        np.append(diagonal, 1.0), np.append(beside, 0.0), np.append(right, 0.0)
    )
    return None if failed or not np.isfinite(out).all() else out.ravel()[:-1]


def _is_indefinite(diagonal: Float, beside: Float, dimension: int) -> bool:
    """Whether an eigenvalue of a tridiagonal matrix is negative beyond rounding."""
    size = np.abs(diagonal).max(initial=0.0) + 2 * np.abs(beside).max(initial=0.0)
    shifted = diagonal + ROUNDING_OF_EIGENVALUES * dimension * size
    failed = lapack.dpttrf(np.append(shifted, 1.0), np.append(beside, 0.0))[-1]
    return bool(size) and failed > 0
