"""Weights and scores of rows by class: a state that keeps every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.accumulator import Rows
from spark_auc.core.batch import Batch
from spark_auc.core.codec import decode, encode
from spark_auc.core.kernels import Index, compiled, sparse_entries

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowScores:
    """What a loss of pairs needs of the rows, by class and in no given order.

    Parameters
    ----------
    positive, negative : (k + 1, n_class)
        The weights of the rows, then their signed scores by each of ``k`` vectors: ``-X v`` of
        the positive rows and ``X v`` of the negative ones.
    """

    positive: Float
    negative: Float

    @classmethod
    def zero(cls, vectors: int) -> RowScores:
        """The scores of no rows by ``vectors`` vectors."""
        return cls(np.empty((vectors + 1, 0)), np.empty((vectors + 1, 0)))

    @classmethod
    def of(cls, batch: Batch, vectors: Float) -> RowScores:
        """The scores of some rows by the vectors ``(k, d)``."""
        table = np.vstack([batch.weights, *(signed(batch, v) for v in vectors)])
        return cls(table[:, batch.y], table[:, ~batch.y])

    @classmethod
    def union(cls, parts: Sequence[RowScores]) -> RowScores:
        """The scores of the rows of all parts, of which there is at least one."""
        return cls(
            np.concatenate([part.positive for part in parts], axis=1),
            np.concatenate([part.negative for part in parts], axis=1),
        )

    def merge(self, other: RowScores) -> RowScores:
        """The scores of both sets of rows."""
        return self.union([self, other])

    def combined(self, factors: Float) -> RowScores:
        """The scores by linear combinations ``(l, k)`` of the vectors."""
        return RowScores(
            *(np.vstack([side[:1], factors @ side[1:]]) for side in (self.positive, self.negative))
        )

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return encode("RowScores", 1, vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> RowScores:
        """The scores that `to_bytes` stored; `ModelFormatError` if they are none."""
        return cls(**decode("RowScores", 1, data))


def signed(batch: Batch, v: Float) -> Float:
    """Signed scores ``(n,)``: see `settled_scores`."""
    out = settled_scores(batch.X, v)
    np.negative(out, out=out, where=batch.y)
    return out


def settled_scores(X: Rows, v: Float) -> Float:
    """Scores ``X v`` ``(n,)``, of which neither other rows nor the place in memory change a bit.

    BLAS sums a row differently by where it lies.
    """
    out = np.empty(X.shape[0])
    if isinstance(X, np.ndarray):
        _dense_scores(X, v, out)
    else:
        _sparse_scores(*sparse_entries(X), v, out)
    return out


@compiled()
def _dense_scores(X: Float, v: Float, out: Float) -> None:
    whole = v.size - v.size % 4
    for i in range(out.size):
        # Four sums hide the latency of an addition; their order is fixed, on any processor.
        a = b = c = e = 0.0
        for j in range(0, whole, 4):
            a += X[i, j] * v[j]
            b += X[i, j + 1] * v[j + 1]
            c += X[i, j + 2] * v[j + 2]
            e += X[i, j + 3] * v[j + 3]
        for j in range(whole, v.size):
            a += X[i, j] * v[j]
        out[i] = (a + b) + (c + e)


@compiled()
def _sparse_scores(data: Float, indices: Index, indptr: Index, v: Float, out: Float) -> None:
    for i in range(out.size):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p] * v[indices[p]]
        out[i] = total
