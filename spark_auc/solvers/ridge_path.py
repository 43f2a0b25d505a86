"""Ridge with many penalties, from one decomposition or one Krylov space."""

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

# Greatest dimension of a Krylov space.
_LONGEST = 400
# Greatest size of its vectors in bytes.
_SPACE_BYTES = 1 << 30
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
    steps. Every certificate is computed with ``Sigma``.

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
    for i in _unsolved(solutions):
        _log.info(
            "ridge with l2 = %.3g did not converge (%s); continuing with conjugate gradients",
            factors[i],
            solutions[i].certificate,
        )
        steps = min(max_iter, STEPS)
        solutions[i] = ridge(quadratic, factors[i], tol=tol, max_iter=steps, start=solutions[i].w)
    return solutions


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
    return solutions, matrix.indefinite


def _by_krylov(
    quadratic: Quadratic, penalties: Sequence[ElasticNet], tol: float, max_steps: int
) -> tuple[list[Solution], bool]:
    """Lanczos from ``mu`` with full reorthogonalisation: ``(T_m + l2 I) y = |mu| e_1``."""
    Sigma, mu = quadratic.Sigma, quadratic.mu
    d, mu_norm = mu.size, float(np.linalg.norm(mu))
    max_steps = max(1, min(max_steps, d, _SPACE_BYTES // (8 * d)))
    units = np.stack([quadratic.units(penalty) for penalty in penalties])
    targets = [0.5 * absolute_tolerance(quadratic, penalty, tol) for penalty in penalties]
    V = np.zeros((1, d))
    V[0] = mu / (mu_norm or 1.0)
    diagonal, off_diagonal = np.zeros(max_steps), np.zeros(max_steps)
    Y, m = np.zeros((max_steps, len(penalties))), 0
    next_norm = 0.0
    while m < max_steps and mu_norm:
        if m + 1 >= len(V):
            V = np.vstack([V, np.zeros((min(len(V) + _BETWEEN, max_steps + 1 - len(V)), d))])
        v = Sigma.matvec(V[m])
        diagonal[m] = V[m] @ v
        # Two orthogonalisations are enough (Kahan and Parlett).
        for _ in range(2):
            v -= (V[: m + 1] @ v) @ V[: m + 1]
        off_diagonal[m] = np.linalg.norm(v)
        m += 1
        size = np.abs(diagonal[:m]).max() + 2 * off_diagonal[: m - 1].max(initial=0.0)
        # In an invariant space the remainder is rounding.
        if invariant := bool(off_diagonal[m - 1] <= d * np.finfo(float).eps * size):
            next_norm = 0.0
        else:
            V[m] = v / off_diagonal[m - 1]
            next_norm = float(off_diagonal[m - 1])
        if invariant or m == max_steps or m % _BETWEEN == 0:
            residual_size = (
                next_norm * (np.abs(V[m]) / units).max(axis=1)
                if next_norm
                else np.zeros(len(units))
            )
            solved = True
            for i, penalty in enumerate(penalties):
                right = np.zeros(m)
                right[0] = mu_norm
                y = _solved(diagonal[:m] + penalty.l2, off_diagonal[: m - 1], right)
                Y[:m, i] = 0.0 if y is None else y
                solved &= y is not None and abs(float(y[-1])) * residual_size[i] <= targets[i]
            if solved or invariant:
                break
    W = V[:m].T @ Y[:m]
    solutions = certified_together(
        quadratic, penalties, W, iterations=m, tol=tol, stopped="maxIter"
    )
    _log.info(
        "%d Lanczos steps solved %d of %d ridge penalties",
        m,
        len(solutions) - len(_unsolved(solutions)),
        len(solutions),
    )
    return solutions, _is_indefinite(diagonal[:m], off_diagonal[: max(m - 1, 0)], d)


def _solved(diagonal: Float, off_diagonal: Float, right: Float) -> Float | None:
    """``T^-1 v`` for a symmetric tridiagonal matrix; None if it is not positive definite."""
    # A decoupled row is added because LAPACK's wrapper does not accept a matrix of one row.
    *_, out, failed = lapack.dptsv(
        np.append(diagonal, 1.0), np.append(off_diagonal, 0.0), np.append(right, 0.0)
    )
    return None if failed or not np.isfinite(out).all() else out.ravel()[:-1]


def _is_indefinite(diagonal: Float, off_diagonal: Float, dimension: int) -> bool:
    """Whether an eigenvalue of a tridiagonal matrix is negative by more than rounding."""
    size = np.abs(diagonal).max(initial=0.0) + 2 * np.abs(off_diagonal).max(initial=0.0)
    shifted = diagonal + ROUNDING_OF_EIGENVALUES * dimension * size
    failed = lapack.dpttrf(np.append(shifted, 1.0), np.append(off_diagonal, 0.0))[-1]
    return bool(size) and failed > 0
