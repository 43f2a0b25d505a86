"""``Sigma = Q B Q'`` with a band matrix ``B``: what solves ridges of many penalties."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.linalg import lapack

from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.types import Float
from spark_auc.solvers.solution import ROUNDING_OF_EIGENVALUES

# Diagonals below the main one: as wide as matrix products need to be fast, as narrow as factors
# of a band are cheap. Down to a single one, half of the work would be products with vectors,
# which wait for memory: LAPACK's reduction takes twice the processor time.
_WIDTH = 128
# Side of the tiles of the rest, which stay in a core's cache.
_STRIP = 256


class Banded:
    """Householder reflections that leave a band of a symmetric matrix, and the band.

    They take ``4/3 d^3`` operations, all in matrix products, and after them a penalty takes
    ``O(d)``. Memory is that of one full matrix: the reflections take the place of what they
    annihilate.

    Parameters
    ----------
    Sigma
        The matrix.
    """

    def __init__(self, Sigma: SymmetricTiles) -> None:
        d = self._dimension = Sigma.dimension
        matrix = Sigma.toarray().T
        self._band = np.zeros((_WIDTH + 1, d))
        self._reflections: list[tuple[int, Float, Float]] = []
        for start in range(0, d, _WIDTH):
            end = min(start + _WIDTH, d)
            columns = np.zeros((2 * _WIDTH, end - start))
            columns[: end - start] = matrix[start:end, start:end]
            if end < d:
                V, T, R = _reflected(matrix[end:, start:end])
                columns[_WIDTH : _WIDTH + len(R)] = R
                _turn(matrix[end:, end:], V, T, _STRIP - end % _STRIP)
                matrix[end:, start : start + V.shape[1]] = V
                self._reflections.append((end, matrix[end:, start : start + V.shape[1]], T))
            across = np.arange(end - start)
            self._band[:, start:end] = columns[np.arange(_WIDTH + 1)[:, None] + across, across]

    @property
    def indefinite(self) -> bool:
        """Whether an eigenvalue is negative beyond rounding."""
        # The largest sum of a column bounds the eigenvalues.
        size = float((np.abs(self._band[0]) + 2 * np.abs(self._band[1:]).sum(axis=0)).max())
        shift = ROUNDING_OF_EIGENVALUES * self._dimension * size
        return bool(size) and lapack.dpbtrf(self._shifted(shift), lower=1)[-1] > 0

    def solved(self, vectors: Float, factors: Sequence[float]) -> Float:
        """``(Sigma + l2 I)^-1 v`` ``(d, l)`` for each column ``v`` and its factor ``l2``.

        0 where it does not exist.
        """
        turned = vectors.copy()
        for start, V, T in self._reflections:
            turned[start:] -= V @ (T.T @ (V.T @ turned[start:]))
        for i, l2 in enumerate(factors):
            _, out, failed = lapack.dpbsv(self._shifted(l2), turned[:, i], lower=1)
            turned[:, i] = 0.0 if failed or not np.isfinite(out).all() else out.ravel()
        for start, V, T in reversed(self._reflections):
            turned[start:] -= V @ (T @ (V.T @ turned[start:]))
        return turned

    def _shifted(self, shift: float) -> Float:
        band = self._band.copy()
        band[0] += shift
        return band


def _reflected(panel: Float) -> tuple[Float, Float, Float]:
    """``V`` and ``T`` of the reflections ``I - V T V'`` that leave ``R`` of a panel's columns."""
    # NumPy's LAPACK: SciPy brings a BLAS of its own, whose threads would wait in a busy loop beside
    # those of the products, which doubles the time on two cores.
    reduced, tau = np.linalg.qr(panel, mode="raw")
    reduced, count = reduced.T, tau.size
    V = np.tril(reduced[:, :count], -1)
    V[np.diag_indices(count)] = 1.0
    # Without a reflection there is nothing to turn.
    V[:, tau == 0] = 0.0
    inverse = np.triu(V.T @ V, 1)
    inverse[np.diag_indices(count)] = 1.0 / np.where(tau == 0, 1.0, tau)
    return V, np.linalg.inv(inverse), np.triu(reduced[:count])


def _turn(matrix: Float, V: Float, T: Float, first: int) -> None:
    """Turn a symmetric matrix by ``I - V T V'`` from both sides.

    It is held in strips of rows of its lower triangle, each up to the end of its diagonal block;
    the first strip may be thinner than others.
    """
    strips = list(itertools.pairwise([0, *range(first, len(matrix), _STRIP), len(matrix)]))
    right, X = V @ T, np.zeros_like(V)
    for start, end in strips:
        strip = matrix[start:end]
        X[start:end] += strip[:, :end] @ right[:end]
        X[:start] += strip[:, :start].T @ right[start:end]
    W = X - V @ (T.T @ (V.T @ X)) / 2
    left, beside = np.hstack([V, W]), np.hstack([W, V])
    # One array for all strips: memory that is allocated anew is touched anew.
    change = np.empty(_STRIP * len(matrix))
    for start, end in strips:
        into = change[: (end - start) * end].reshape(end - start, end)
        matrix[start:end, :end] -= np.matmul(left[start:end], beside[:end].T, out=into)
