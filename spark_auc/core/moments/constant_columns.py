"""Exact means of constant columns.

The computed mean of a constant column differs from its value by a rounding error, and the squared
deviations from this mean look like variation. With the value itself as the mean, the deviations are
exactly 0, and stay 0 when states are merged or scaled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import Entries, compiled
from spark_auc.core.types import Float, Index


def dense_means(X: Float, mean: Float) -> Float:
    """The means ``(d,)``, made exact for constant columns of the rows ``X`` ``(n, d)``.

    ``mean`` ``(d,)`` are the computed means.
    """
    # Most columns differ between the first and the last row. The computed mean of zeros is exact.
    candidates = np.flatnonzero((X[0] == X[-1]) & (X[0] != 0.0))
    constant = candidates[(X[:, candidates] == X[0, candidates]).all(axis=0)]
    exact = mean.copy()
    exact[constant] = X[0, constant]
    return exact


def sparse_means(
    parts: Sequence[Entries], rank: Index, full: NDArray[np.bool_], mean: Float
) -> Float:
    """The means ``(d,)``, made exact for constant columns of sparse rows.

    Parameters
    ----------
    parts
        Values, column indices and row starts; a row stores a column at most once.
    rank : (d,)
        Position of each column in the means.
    full : (d,)
        Whether the column at a position is stored in every row. Other columns have zeros; they are
        constant only if all values are 0, and then their computed mean is exact.
    mean : (d,)
        Computed means, by position.
    """
    if not full.any():
        return mean
    # Infinity means that no value was read yet, NaN that two values differ.
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
