"""Columns in which all rows of a batch have one value: their mean is that value, to the bit.

A computed mean misses such a value by a rounding error, and the squared deviations from it are
then rounding that looks like variation. About the value itself they are exactly 0, and stay so
when states are merged or scaled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import Entries, compiled
from spark_auc.core.types import Float, Index


def dense_means(X: Float, mean: Float) -> Float:
    """The means ``(d,)``, exact where a column of the rows ``X`` ``(n, d)`` is constant."""
    # Most columns differ in these two rows. A computed mean of zeros is exact.
    alike = np.flatnonzero((X[0] == X[-1]) & (X[0] != 0.0))
    constant = alike[(X[:, alike] == X[0, alike]).all(axis=0)]
    exact = mean.copy()
    exact[constant] = X[0, constant]
    return exact


def sparse_means(
    parts: Sequence[Entries], rank: Index, full: NDArray[np.bool_], mean: Float
) -> Float:
    """The means ``(d,)``, exact where a column of sparse rows is constant.

    Parameters
    ----------
    parts
        Values, column numbers and row starts; no column is stored twice in a row.
    rank : (d,)
        Each column's place in the means.
    full : (d,)
        Places whose column is stored in every row: another column has some zeros, and is
        constant only if all are, whose computed mean is exact.
    mean : (d,)
        Computed means, by place.
    """
    if not full.any():
        return mean
    # Infinite until a value is met; NaN once two values differ.
    shared = np.where(full, np.inf, np.nan)
    for part in parts:
        _compare(*part, rank, shared)
    return np.where(np.isfinite(shared), shared, mean)


@compiled()
def _compare(data: Float, indices: Index, indptr: Index, rank: Index, shared: Float) -> None:
    for p in range(indptr[0], indptr[-1]):
        place = rank[indices[p]]
        value = shared[place]
        if value == np.inf:
            shared[place] = data[p]
        elif value != data[p]:
            shared[place] = np.nan
