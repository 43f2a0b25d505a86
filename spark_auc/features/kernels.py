"""Kernels between rows and landmarks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.kernels import compiled
from spark_auc.core.products import settled_product, settled_scores
from spark_auc.core.types import Float, Rows
from spark_auc.core.validation import check_above, check_at_least, check_whole
from spark_auc.errors import ConfigError

# Columns whose mean exceeds so many standard deviations of the landmarks are centred.
_FAR = 4.0
# Landmarks whose distances to a row fit in the processor's cache.
_BLOCK = 512


@dataclass(frozen=True)
class Kernel:
    """A kernel ``k(x, u)`` of bandwidth ``b``.

    =========== ==========================
    gaussian    ``exp(-|x - u|^2 / b)``
    laplacian   ``exp(-|x - u|_1 / b)``
    polynomial  ``(x'u / b + offset)^degree``
    linear      ``x'u / b``
    =========== ==========================

    Parameters
    ----------
    name
        Name of the kernel.
    bandwidth
        ``b > 0``.
    degree, offset
        Parameters of the polynomial: a whole number of at least 1, and a number of at least 0 (a
        negative offset is not positive semidefinite).

    Raises
    ------
    ConfigError
        A parameter is out of range.
    """

    name: str = "gaussian"
    bandwidth: float = 1.0
    degree: int = 2
    offset: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in _FORMULAS:
            raise ConfigError(
                f"found kernel {self.name!r}, expected one of {', '.join(_FORMULAS)}; set "
                "kernel to one of these"
            )
        b, degree, offset = self.bandwidth, self.degree, self.offset
        check_above("bandwidth", b, 0)
        check_whole("degree", degree, 1)
        check_at_least("offset", offset, 0)

    def between(self, X: Rows, U: Float) -> Float:
        """Kernel values ``(n, v)`` between rows ``(n, d)``, dense or CSR, and landmarks ``(v, d)``.

        Needs O(n v) memory, not O(n v d).
        """
        return _FORMULAS[self.name](self, X, U)


def _gaussian(kernel: Kernel, X: Rows, U: Float) -> Float:
    # Squared lengths cancel in columns far from 0, so these are centred. The landmarks alone decide
    # which columns are far: a row's kernel does not depend on whether the row is dense or sparse.
    with np.errstate(over="ignore", invalid="ignore"):
        origin, spread = U.mean(axis=0), U.std(axis=0)
        origin[np.abs(origin) <= _FAR * spread] = 0.0
        X, U = _centred(X, origin), U - origin
        out = settled_product(X, U.T)
        _to_gaussian(_squared_lengths(X), _squared_lengths(U), kernel.bandwidth, out)
    return out


def _centred(X: Rows, origin: Float) -> Rows:
    if isinstance(X, np.ndarray):
        return np.asarray(X - origin)
    columns = np.flatnonzero(origin)
    rows = X.shape[0]
    starts = np.arange(rows + 1) * columns.size
    origins = (np.tile(origin[columns], rows), np.tile(columns, rows), starts)
    return sparse.csr_matrix(X) - sparse.csr_matrix(origins, X.shape) if columns.size else X


def _squared_lengths(X: Rows) -> Float:
    ones = np.ones(X.shape[1])
    if isinstance(X, np.ndarray):
        return settled_scores(X * X, ones)
    return settled_scores(sparse.csr_matrix((X.data**2, X.indices, X.indptr), X.shape), ones)


def _laplacian(kernel: Kernel, X: Rows, U: Float) -> Float:
    rows = sparse.csr_matrix(X)
    out = np.empty((X.shape[0], U.shape[0]))
    _add_distances(
        np.asarray(rows.data, float), rows.indices, rows.indptr, np.ascontiguousarray(U.T), out
    )
    _to_exponential(kernel.bandwidth, out)
    return out


def _polynomial(kernel: Kernel, X: Rows, U: Float) -> Float:
    out = settled_product(X, U.T)
    _to_power(kernel.bandwidth, kernel.offset, kernel.degree, out)
    return out


def _linear(kernel: Kernel, X: Rows, U: Float) -> Float:
    return settled_product(X, U.T) / kernel.bandwidth


_FORMULAS: dict[str, Callable[[Kernel, Rows, Float], Float]] = {
    "gaussian": _gaussian,
    "laplacian": _laplacian,
    "polynomial": _polynomial,
    "linear": _linear,
}


@compiled()
def _add_distances(
    data: Float, indices: NDArray[np.int32], indptr: NDArray[np.int32], columns: Float, out: Float
) -> None:
    d, v = columns.shape
    for start in range(0, v, _BLOCK):
        stop = min(start + _BLOCK, v)
        lengths = np.zeros(stop - start)
        for j in range(d):
            for k in range(stop - start):
                lengths[k] += abs(columns[j, start + k])
        for i in range(out.shape[0]):
            total = out[i, start:stop]
            for k in range(stop - start):
                total[k] = lengths[k]
            for p in range(indptr[i], indptr[i + 1]):
                x, column = data[p], columns[indices[p], start:stop]
                for k in range(stop - start):
                    total[k] += abs(x - column[k]) - abs(column[k])
            for k in range(stop - start):
                total[k] = max(total[k], 0.0)


# Scalar math functions: the rounding of numpy's depends on the processor's vector width.
@compiled()
def _to_gaussian(of_rows: Float, of_landmarks: Float, bandwidth: float, out: Float) -> None:
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            squared = (of_rows[i] - 2.0 * out[i, k]) + of_landmarks[k]
            out[i, k] = math.exp(-max(squared, 0.0) / bandwidth)


@compiled()
def _to_exponential(bandwidth: float, out: Float) -> None:
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = math.exp(-out[i, k] / bandwidth)


@compiled()
def _to_power(bandwidth: float, offset: float, degree: int, out: Float) -> None:
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            square, power, exponent = out[i, k] / bandwidth + offset, 1.0, degree
            while exponent:
                if exponent & 1:
                    power *= square
                square *= square
                exponent >>= 1
            out[i, k] = power
