"""Kernels between rows and landmarks, and the bandwidth that data suggest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.accumulator import Rows
from spark_auc.core.kernels import compiled
from spark_auc.core.settings import above, at_least, whole
from spark_auc.embeddings.embedding import Float
from spark_auc.errors import ConfigError, DataError

# Landmarks whose distances to a row stay in the processor's cache while they are added up.
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
        One of these.
    bandwidth
        ``b > 0``.
    degree, offset
        Of the polynomial alone: a whole number of at least 1, and a number of at least 0 (below
        it the kernel is none).

    Raises
    ------
    ConfigError
        A setting is not one of these.
    """

    name: str = "gaussian"
    bandwidth: float = 1.0
    degree: int = 2
    offset: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in _FORMULAS:
            raise ConfigError(
                f"found kernel {self.name!r}, expected one of {', '.join(_FORMULAS)}; set one"
            )
        b, degree, offset = self.bandwidth, self.degree, self.offset
        above("bandwidth", b, 0)
        whole("degree", degree, 1)
        at_least("offset", offset, 0)

    def between(self, X: Rows, U: Float) -> Float:
        """The kernel ``(n, v)`` of each row ``(n, d)``, dense or CSR, and each landmark ``(v, d)``.

        No array of ``n v d`` numbers is made.
        """
        return _FORMULAS[self.name](self, X, U)


def _products(X: Rows, U: Float) -> Float:
    return np.asarray(X @ U.T, float)


def _gaussian(kernel: Kernel, X: Rows, U: Float) -> Float:
    if isinstance(X, np.ndarray):
        # Where columns lie far from 0, squared lengths would cancel.
        origin = U.mean(axis=0)
        X, U = X - origin, U - origin
        lengths = np.einsum("ij,ij->i", X, X)
    else:
        lengths = np.asarray(X.multiply(X).sum(axis=1), float).ravel()
    out = _products(X, U)
    out *= -2.0
    out += lengths[:, None]
    out += np.einsum("ij,ij->i", U, U)
    np.maximum(out, 0.0, out=out)
    out /= -kernel.bandwidth
    np.exp(out, out=out)
    return out


def _laplacian(kernel: Kernel, X: Rows, U: Float) -> Float:
    rows = sparse.csr_matrix(X)
    out = np.empty((X.shape[0], U.shape[0]))
    _add_distances(
        np.asarray(rows.data, float), rows.indices, rows.indptr, np.ascontiguousarray(U.T), out
    )
    out /= -kernel.bandwidth
    np.exp(out, out=out)
    return out


def _polynomial(kernel: Kernel, X: Rows, U: Float) -> Float:
    out = _products(X, U)
    out /= kernel.bandwidth
    out += kernel.offset
    powers: Float = out**kernel.degree
    return powers


def _linear(kernel: Kernel, X: Rows, U: Float) -> Float:
    return _products(X, U) / kernel.bandwidth


_FORMULAS: dict[str, Callable[[Kernel, Rows, Float], Float]] = {
    "gaussian": _gaussian,
    "laplacian": _laplacian,
    "polynomial": _polynomial,
    "linear": _linear,
}


def suggested_bandwidth(X: Rows) -> float:
    """Mean squared distance of rows ``(n, d)`` to their mean (Khalid et al., Section 5.2).

    It is the sum of the variances of the columns: ``d`` where they are standardised. The paper
    takes it over at most 80,000 rows.

    Raises
    ------
    DataError
        It is 0 or not finite.
    """
    if isinstance(X, np.ndarray):
        found = float(np.asarray(X, float).var(axis=0).sum())
    else:
        mean = np.asarray(X.mean(axis=0), float).ravel()
        found = float(X.multiply(X).sum() / X.shape[0] - mean @ mean)
    if not 0 < found < np.inf:
        raise DataError(
            f"found {X.shape[0]} rows whose mean squared distance to their mean is {found}, "
            "expected a finite number above 0; give rows that differ, without NaN"
        )
    return found


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
            total[:] = lengths
            for p in range(indptr[i], indptr[i + 1]):
                x, column = data[p], columns[indices[p], start:stop]
                for k in range(stop - start):
                    total[k] += abs(x - column[k]) - abs(column[k])
            for k in range(stop - start):
                total[k] = max(total[k], 0.0)
