"""Reduction to a band matrix, ``Sigma = Q B Q'``, for ridges with many penalties."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.linalg import lapack

from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.types import Float
from spark_auc.solvers.solution import ROUNDING_OF_EIGENVALUES

# Number of diagonals below the main one: enough for fast matrix products, few enough for a cheap
# factor of the band. A reduction to one diagonal spends half of its operations on matrix-vector
# products, which are bound by memory; LAPACK's takes twice the CPU time.
_WIDTH = 128
# Rows of a strip of the remaining matrix, whose tiles stay in a core's cache.
_STRIP = 256


class Banded:
    """The reduction of a symmetric matrix to a band, by Householder reflections.

    The reduction takes ``4/3 d^3`` operations, all in matrix products, and ends early for a matrix
    of low rank, such as that of few rows; each penalty then takes ``O(d)``. It needs the memory of
    one full matrix: the reflections are stored in place of the entries that they eliminate.

    Parameters
    ----------
    Sigma
        The matrix ``(d, d)``.
    """

    def __init__(self, Sigma: SymmetricTiles) -> None:
        d = self._dimension = Sigma.dimension
        matrix = Sigma.toarray().T
        self._band = np.zeros((_WIDTH + 1, d), order="F")
        # One buffer for all strips avoids page faults of new allocations.
        buffer = np.empty(_STRIP * d)
        # Of the remaining features alone, which may be of a smaller scale than the first ones.
        rounding = ROUNDING_OF_EIGENVALUES * matrix.diagonal()
        self._reflections: list[tuple[int, Float, Float]] = []
        for start in range(0, d, _WIDTH):
            if _is_zero(matrix[start:, start:], float(rounding[start:].sum())):
                break
            end = min(start + _WIDTH, d)
            columns = np.zeros((2 * _WIDTH, end - start))
            columns[: end - start] = matrix[start:end, start:end]
            if end < d:
                V, T, R = _reflected(matrix[end:, start:end])
                columns[_WIDTH : _WIDTH + len(R)] = R
                _reflect_both(matrix[end:, end:], V, T, _STRIP - end % _STRIP, buffer)
                matrix[end:, start : start + V.shape[1]] = V
                self._reflections.append((end, matrix[end:, start : start + V.shape[1]], T))
            across = np.arange(end - start)
            self._band[:, start:end] = columns[np.arange(_WIDTH + 1)[:, None] + across, across]

    def indefinite(self, rounding: float) -> bool:
        """Whether an eigenvalue is negative by more than rounding.

        ``rounding`` bounds the error of the eigenvalues of the matrix itself.
        """
        # The largest column sum of absolute values bounds the eigenvalues.
        size = float((np.abs(self._band[0]) + 2 * np.abs(self._band[1:]).sum(axis=0)).max())
        shift = ROUNDING_OF_EIGENVALUES * self._dimension * size + rounding
        return bool(size) and lapack.dpbtrf(self._shifted(shift), lower=1, overwrite_ab=1)[-1] > 0

    def solved(self, vectors: Float, factors: Sequence[float]) -> Float:
        """Solutions ``(Sigma + l2 I)^-1 v`` ``(d, l)``; 0 where the matrix is not definite.

        Parameters
        ----------
        vectors : (d, l)
            Right-hand sides ``v``.
        factors : (l,)
            Factor ``l2`` of each right-hand side.
        """
        solutions = vectors.copy()
        for start, V, T in self._reflections:
            solutions[start:] -= V @ (T.T @ (V.T @ solutions[start:]))
        for i, l2 in enumerate(factors):
            band = self._shifted(l2)
            _, out, failed = lapack.dpbsv(band, solutions[:, i], lower=1, overwrite_ab=1)
            solutions[:, i] = 0.0 if failed or not np.isfinite(out).all() else out.ravel()
        for start, V, T in reversed(self._reflections):
            solutions[start:] -= V @ (T @ (V.T @ solutions[start:]))
        return solutions

    def _shifted(self, shift: float) -> Float:
        band = self._band.copy(order="F")
        band[0] += shift
        return band


def _is_zero(matrix: Float, rounding: float) -> bool:
    """Whether no entry on or below the diagonal is beyond rounding."""
    # Eigenvalues of either sign may cancel in the trace. Row by row, no copy is made.
    return float(matrix.trace()) <= rounding and all(
        np.abs(row[: i + 1]).max() <= rounding for i, row in enumerate(matrix)
    )


def _reflected(panel: Float) -> tuple[Float, Float, Float]:
    """``V``, ``T`` and ``R`` of a panel's QR factorisation, with ``Q = I - V T V'``."""
    # NumPy's LAPACK, because SciPy has a BLAS library of its own. Its idle threads would spin
    # beside those of the matrix products, which doubles the time on two cores.
    reduced, tau = np.linalg.qr(panel, mode="raw")
    reduced, count = reduced.T, tau.size
    V = np.tril(reduced[:, :count], -1)
    V[np.diag_indices(count)] = 1.0
    # tau = 0 stands for the identity.
    V[:, tau == 0] = 0.0
    inverse = np.triu(V.T @ V, 1)
    inverse[np.diag_indices(count)] = 1.0 / np.where(tau == 0, 1.0, tau)
    return V, np.linalg.inv(inverse), np.triu(reduced[:count])


def _reflect_both(matrix: Float, V: Float, T: Float, first: int, buffer: Float) -> None:
    """Multiply a symmetric matrix by ``I - V T V'`` from both sides, in place.

    The lower triangle is processed in strips of rows, each up to the end of its diagonal block. The
    first strip has ``first`` rows. ``buffer`` has space for one strip.
    """
    strips = list(itertools.pairwise([0, *range(first, len(matrix), _STRIP), len(matrix)]))
    right, X = V @ T, np.zeros_like(V)
    for start, end in strips:
        strip = matrix[start:end]
        X[start:end] += strip[:, :end] @ right[:end]
        X[:start] += strip[:, :start].T @ right[start:end]
    W = X - V @ (T.T @ (V.T @ X)) / 2
    # V W' + W V' as the product of two overlapping views.
    factors = np.hstack([V, W, V])
    left, right_factor = factors[:, : -V.shape[1]], factors[:, V.shape[1] :]
    for start, end in strips:
        product = buffer[: (end - start) * end].reshape(end - start, end)
        matrix[start:end, :end] -= np.matmul(left[start:end], right_factor[:end].T, out=product)
