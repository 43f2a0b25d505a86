"""Sums of the rows of a batch times a factor each."""

from __future__ import annotations

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.kernels import compiled, sparse_entries
from spark_auc.core.types import Float, Index


def add_rows(batch: Batch, factor: Float, out: Float) -> None:
    """Add the rows times ``factor`` ``(n,)``, and its sum, to ``out`` ``(d + 1,)``."""
    X = batch.X
    out[-1] += factor.sum()
    if isinstance(X, np.ndarray):
        out[:-1] += factor @ X
    else:
        _add_sparse_rows(*sparse_entries(X), factor, out)


def add_sizes(batch: Batch, factor: Float, origin: Float, out: Float) -> None:
    """Add a bound on the sizes ``|x - origin|`` times ``factor`` ``(n,)`` to ``out`` ``(d,)``.

    It is exact for dense rows, and ``|x| + |origin|`` for sparse ones.
    """
    X = batch.X
    if isinstance(X, np.ndarray):
        out += factor @ np.abs(X - origin)
    else:
        data, indices, indptr = sparse_entries(X)
        _add_sparse_rows(np.abs(data), indices, indptr, factor, out)
        out += factor.sum() * np.abs(origin)


@compiled()
def _add_sparse_rows(
    data: Float,
    indices: Index,
    indptr: Index,
    factor: Float,
    out: Float,
) -> None:
    for i in range(factor.size):
        for p in range(indptr[i], indptr[i + 1]):
            out[indices[p]] += data[p] * factor[i]
