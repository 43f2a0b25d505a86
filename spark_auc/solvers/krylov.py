"""The Krylov space of a vector, which serves the ridges of all penalties (Lanczos)."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from spark_auc.core.moments.objective import Matrix
from spark_auc.core.types import Float
from spark_auc.solvers.solution import ROUNDING_OF_EIGENVALUES


class KrylovSpace:
    """Orthonormal vectors ``V`` with ``Sigma V = V T + b v_next e_m'`` and a tridiagonal ``T``.

    Parameters
    ----------
    mu : (d,)
        The vector.
    most
        Greatest number ``m`` of vectors.
    """

    def __init__(self, mu: Float, most: int) -> None:
        self._norm = float(np.linalg.norm(mu))
        # The system provides the memory of a vector when it is first written.
        self._V = np.empty((most + 1, mu.size))
        self._V[0] = mu / (self._norm or 1.0)
        self._diagonal, self._off_diagonal = np.zeros(most), np.zeros(most)
        self._most = most if self._norm else 0
        self._invariant = False
        self.size = 0

    @property
    def complete(self) -> bool:
        """Whether no further vector is possible, or allowed."""
        return self._invariant or self.size >= self._most

    def grow(self, Sigma: Matrix) -> None:
        """Add a vector, with one matrix product."""
        m, V = self.size, self._V
        v = Sigma.matvec(V[m])
        self._diagonal[m] = V[m] @ v
        # Twice is enough (Kahan and Parlett), and the first time all but two products are 0.
        v -= self._diagonal[m] * V[m]
        if m:
            v -= self._off_diagonal[m - 1] * V[m - 1]
        v -= (V[: m + 1] @ v) @ V[: m + 1]
        norm = float(np.linalg.norm(v))
        # In an invariant space the remainder is rounding.
        size = np.abs(self._diagonal[: m + 1]).max() + 2 * self._off_diagonal[:m].max(initial=0.0)
        self._invariant = norm <= v.size * np.finfo(float).eps * size
        self._off_diagonal[m] = 0.0 if self._invariant else norm
        V[m + 1] = 0.0 if self._invariant else v / norm
        self.size = m + 1

    def coordinates(self, l2: float) -> Float | None:
        """``y`` ``(m,)`` with ``(T + l2 I) y = |mu| e_1``; None unless positive definite.

        The ridge in this space is ``V y``.
        """
        right = np.zeros(self.size)
        right[:1] = self._norm
        diagonal = self._diagonal[: self.size] + l2
        # A decoupled row is added because LAPACK's wrapper does not accept a matrix of one row.
        *_, out, failed = lapack.dptsv(
            np.append(diagonal, 1.0),
            np.append(self._off_diagonal[: max(self.size - 1, 0)], 0.0),
            np.append(right, 0.0),
        )
        return None if failed or not np.isfinite(out).all() else out.ravel()[:-1]

    def residual(self, y: Float) -> Float:
        """Sizes ``(d,)`` of ``(Sigma + l2 I) V y - mu`` for the `coordinates` ``y``."""
        size = abs(float(self._off_diagonal[self.size - 1] * y[-1]))
        return np.asarray(size * np.abs(self._V[self.size]))

    def vectors(self, Y: Float) -> Float:
        """``V Y`` ``(d, l)`` for coordinates ``(m, l)``; its columns are contiguous."""
        return (Y.T @ self._V[: self.size]).T

    def indefinite(self, rounding: float) -> bool:
        """Whether an eigenvalue of ``T`` is negative by more than rounding.

        ``rounding`` bounds the error of the eigenvalues of the matrix itself.
        """
        diagonal = self._diagonal[: self.size]
        off_diagonal = self._off_diagonal[: max(self.size - 1, 0)]
        size = np.abs(diagonal).max(initial=0.0) + 2 * off_diagonal.max(initial=0.0)
        shifted = diagonal + ROUNDING_OF_EIGENVALUES * self._V.shape[1] * size + rounding
        failed = lapack.dpttrf(np.append(shifted, 1.0), np.append(off_diagonal, 0.0))[-1]
        return bool(size) and failed > 0
