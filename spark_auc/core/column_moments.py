"""Weight, mean and variance of each column in each class: what one cheap pass tells of any rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.codec import decode, encode
from spark_auc.core.moments_tile import other_dimension

Float = NDArray[np.float64]

# Stored entries per column that are worth a sweep over all columns.
_DENSITY = 4


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Moments of single columns; index 0 of the first axis is the positive class.

    Parameters
    ----------
    rows : (2,)
        Number of rows.
    entries : (2,)
        Number of entries that they store: all of dense rows, some of sparse ones.
    weight : (2,)
        Total row weight ``n_k``.
    mean, scatter : (2, d)
        Mean, and sum of squared deviations from it.
    """

    rows: Float
    entries: Float
    weight: Float
    mean: Float
    scatter: Float

    @classmethod
    def zero(cls, dimension: int) -> ColumnMoments:
        """The moments of no rows."""
        return cls(*np.zeros((3, 2)), *np.zeros((2, 2, dimension)))

    @classmethod
    def of(cls, batch: Batch) -> ColumnMoments:
        """The moments of some rows."""
        parts = [_of_class(batch, mine) for mine in (batch.y, ~batch.y)]
        return cls(*(np.array(values) for values in zip(*parts, strict=True)))

    @classmethod
    def fold(cls, batches: Iterable[Batch], dimension: int) -> ColumnMoments:
        """The moments of all batches; `DataError` for one of another dimension."""
        total, waiting, entries = cls.zero(dimension), [], 0
        for batch in batches:
            if batch.X.shape[1] != dimension:
                raise other_dimension(dimension, batch.X.shape[1])
            waiting.append(batch)
            entries += batch.X.size
            if entries >= _DENSITY * dimension:
                total, waiting, entries = total.merge(cls.of(stacked(waiting))), [], 0
        return total.merge(cls.of(stacked(waiting))) if waiting else total

    def merge(self, other: ColumnMoments) -> ColumnMoments:
        """The moments of both sets of rows (Chan's formula)."""
        if self.mean.shape != other.mean.shape:
            raise other_dimension(self.mean.shape[1], other.mean.shape[1])
        weight = self.weight + other.weight
        share = np.divide(other.weight, weight, out=np.zeros(2), where=weight > 0)[:, None]
        apart = other.mean - self.mean
        return ColumnMoments(
            self.rows + other.rows,
            self.entries + other.entries,
            weight,
            self.mean + share * apart,
            self.scatter + other.scatter + (self.weight[:, None] * share) * apart**2,
        )

    @property
    def delta(self) -> Float:
        """Difference ``c_+ - c_-`` ``(d,)`` of the means: ``mu`` of all pairs."""
        delta: Float = self.mean[0] - self.mean[1]
        return delta

    @property
    def variance(self) -> Float:
        """Variance ``(2, d)`` in each class, dividing by ``n_k``; 0 where there are no rows."""
        weight = self.weight[:, None]
        return np.divide(self.scatter, weight, out=np.zeros_like(self.scatter), where=weight > 0)

    def standard_deviation(self) -> Float:
        """Standard deviation ``(d,)`` of each column over all rows; 1 where it is constant."""
        weight, rows = self.weight.sum(), self.rows.sum()
        shares = self.weight / weight
        variance = shares @ self.variance + shares[0] * shares[1] * self.delta**2
        # What rounding alone leaves of a constant column is no scale to divide by.
        floor = (64 * np.finfo(float).eps * np.abs(self.mean).max(axis=0)) ** 2
        variance *= rows / max(rows - 1, 1)
        return np.where(variance > floor, np.sqrt(variance), 1.0)

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return encode("ColumnMoments", 1, vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> ColumnMoments:
        """The moments that `to_bytes` stored; `ModelFormatError` if they are none."""
        return cls(**decode("ColumnMoments", 1, data))


def _of_class(batch: Batch, mine: NDArray[np.bool_]) -> tuple[float, float, float, Float, Float]:
    u, d = batch.weights[mine], batch.X.shape[1]
    X, n = batch.X[np.flatnonzero(mine)], float(u.sum())
    if not u.size:
        return 0.0, 0.0, 0.0, np.zeros(d), np.zeros(d)
    if isinstance(X, np.ndarray):
        mean = u @ X / n
        return u.size, X.size, n, mean, u @ (X - mean) ** 2
    by_entry = np.repeat(u, np.diff(X.indptr))
    mean = np.bincount(X.indices, by_entry * X.data, d) / n
    stored = np.bincount(X.indices, by_entry, d)
    squares = np.bincount(X.indices, by_entry * (X.data - mean[X.indices]) ** 2, d)
    # Columns that every row stores have nothing left over but rounding.
    return u.size, X.nnz, n, mean, squares + np.maximum(n - stored, 0.0) * mean**2
