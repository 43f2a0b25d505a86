"""The Nystroem map: features whose inner products approximate a kernel."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy import linalg

from spark_auc.core.batch import divided
from spark_auc.core.products import settled_product
from spark_auc.core.state.rules import ABOVE_0, NOT_EMPTY
from spark_auc.core.state.schema import REAL, TEXT, WHOLE, Schema, reals
from spark_auc.core.types import Float, Rows
from spark_auc.core.validation import check_whole
from spark_auc.errors import DataError
from spark_auc.features.embedding import Mixing, check_columns
from spark_auc.features.kernels import Kernel

# Smallest eigenvalue that is used, relative to the largest one and to the number of landmarks or
# columns. Rounding turns zero eigenvalues into at most 0.1 eps per landmark with any BLAS kernel.
_FLOOR = 64 * np.finfo(float).eps
# Rows mapped at a time, to bound the memory for their kernel with all landmarks.
_ROWS = 4096


@dataclass(frozen=True, eq=False)
class NystroemMap(Mixing):
    """``phi(x) = S_r^(-1/2) Q_r' [k(x, u_1) .. k(x, u_v)]'`` (Khalid et al. [1]_, Section 3.2).

    With ``W_ij = k(u_i, u_j) = Q S Q'`` over landmarks, and the ``r`` largest eigenvalues. Inner
    products of mapped rows are ``E W_r^+ E'``, which is exact between landmarks. (The paper prints
    ``W = U S^(-1) U'`` and omits the transpose of ``U_r``.) O(v (d + r)) time per row.

    The constructor is `of_landmarks`.

    Parameters
    ----------
    kernel
        ``k``.
    landmarks : (v, d)
        ``u_1 .. u_v``, in units of ``scale``; in the paper 1,600 centres of k-means of
        standardised rows.
    projection : (v, r)
        ``Q_r S_r^(-1/2)``.
    scale : (d,)
        Divisors of the columns of the mapped rows.

    References
    ----------
    .. [1] M. Khalid, I. Ray, H. Chitsaz. Scalable Nonlinear AUC Maximization Methods. ECML
       PKDD 2018.
    """

    kernel: Kernel
    landmarks: Float
    projection: Float
    scale: Float

    @classmethod
    def of_landmarks(
        cls,
        landmarks: Rows,
        kernel: Kernel,
        rank: int | None = None,
        scale: Float | None = None,
    ) -> Self:
        """The map of landmarks ``(v, d)``.

        Landmarks may repeat, and there may be more landmarks than the kernel has features:
        eigenvalues below ``64 eps max(v, d)`` times the largest are rounding errors and dropped.

        Parameters
        ----------
        landmarks : (v, d)
            Landmarks, dense or CSR, in units of ``scale``; stored dense.
        kernel
            The kernel to approximate.
        rank
            Largest number of features; by default all eigenvalues that are not dropped.
        scale : (d,), optional
            Unit of each column of the landmarks; 1 by default.

        Raises
        ------
        ConfigError
            The rank is not a whole number of at least 1.
        DataError
            There are no landmarks, or their kernel matrix is 0 or not finite.
        """
        U = np.array(landmarks if isinstance(landmarks, np.ndarray) else landmarks.toarray(), float)
        if rank is not None:
            check_whole("rank", rank, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            W = kernel.between(U, U) if U.size else np.zeros((0, 0))
        if not np.isfinite(W).all() or not W.any():
            raise DataError(
                f"found {U.shape[0]} landmarks whose {kernel.name} kernel is empty, 0 or not "
                "finite, expected a finite one; give standardised landmarks without NaN"
            )
        # Rounding differs above and below the diagonal; the mean of both is symmetric.
        values, vectors = linalg.eigh((W + W.T) / 2, overwrite_a=True, driver="evd")
        values, vectors = values[::-1], vectors[:, ::-1]
        floor = _FLOOR * max(U.shape) * values[0]
        count = min(int((values > floor).sum()), values.size if rank is None else rank)
        projection = np.ascontiguousarray(vectors[:, :count] / np.sqrt(values[:count]))
        unit = np.ones(U.shape[1]) if scale is None else scale
        return cls(kernel, np.ascontiguousarray(U), projection, unit)

    @property
    def input_dimension(self) -> int:
        """Number of features ``d``."""
        return int(self.landmarks.shape[1])

    @property
    def dimension(self) -> int:
        """Number of features ``F = r``."""
        return int(self.projection.shape[1])

    def transform(self, X: Rows) -> Float:
        """Map rows ``(n, d)`` to dense ``(n, F)``; see `Embedding.transform`."""
        check_columns(X, self.input_dimension)
        out = np.empty((X.shape[0], self.dimension))
        for start in range(0, X.shape[0], _ROWS):
            block = slice(start, start + _ROWS)
            rows = divided(X[block], self.scale)
            kernel = self.kernel.between(rows, self.landmarks)
            out[block] = settled_product(kernel, self.projection)
        return out

    def to_bytes(self) -> bytes:
        """Versioned bytes of the kernel, the landmarks and the projection."""
        arrays = {name: value for name, value in vars(self).items() if name != "kernel"}
        return _SCHEMA.encode(asdict(self.kernel) | arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The map from the bytes of `to_bytes`; `ModelFormatError` if they are invalid."""
        return _SCHEMA.restore(data, cls._restored)

    @classmethod
    def _restored(cls, **values: Any) -> Self:
        arrays = {k: v.copy() for k, v in values.items() if isinstance(v, np.ndarray)}
        return cls(Kernel(**{k: v for k, v in values.items() if k not in arrays}), **arrays)


_SCHEMA = Schema(
    "NystroemMap",
    1,
    {
        "name": TEXT,
        "bandwidth": REAL,
        "degree": WHOLE,
        "offset": REAL,
        "landmarks": reals("v", "d"),
        "projection": reals("v", "r", rule=NOT_EMPTY),
        "scale": reals("d", rule=ABOVE_0),
    },
)
