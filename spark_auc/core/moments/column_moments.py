"""Weight, mean and variance of each column in each class: what one cheap pass tells of any rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.kernels import sparse_entries
from spark_auc.core.moments.constant_columns import dense_means, sparse_means
from spark_auc.core.moments.moments_tile import other_dimension
from spark_auc.core.state.rules import FROM_0_ON
from spark_auc.core.state.schema import Schema, reals
from spark_auc.core.types import Float

# A deviation of at most this share of a column's mean is rounding of its values.
_LEAST_DEVIATION = 64 * float(np.finfo(float).eps)
# Rows that do not store a column have their weights added up where they have less than this share
# of all weight: a difference would lose its digits.
_FEW = 1e-3

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
        Mean, and sum of squared deviations from it: exactly a value and 0 where all rows have
        this one.
    rounding : (2, d)
        How much of the scatter rounding may have made: 0 of rows that were added.
    """

    rows: Float
    entries: Float
    weight: Float
    mean: Float
    scatter: Float
    rounding: Float

    @classmethod
    def zero(cls, dimension: int) -> ColumnMoments:
        """The moments of no rows."""
        sums, columns = np.zeros(2), np.zeros((2, dimension))
        return cls(sums, sums, sums, columns, columns, columns)

    @classmethod
    def of(cls, batch: Batch) -> ColumnMoments:
        """The moments of some rows."""
        parts = [_of_class(batch, mine) for mine in (batch.y, ~batch.y)]
        rows, entries, weight, mean, scatter = (np.array(each) for each in zip(*parts, strict=True))
        return cls(rows, entries, weight, mean, scatter, np.zeros_like(mean))

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
        # Seen from the heavier, whose mean moves less.
        light = np.minimum(self.weight, other.weight)
        share = np.divide(light, weight, out=np.zeros(2), where=weight > 0)[:, None]
        heavier = (self.weight >= other.weight)[:, None]
        apart = other.mean - self.mean
        moved = share * apart
        return ColumnMoments(
            self.rows + other.rows,
            self.entries + other.entries,
            weight,
            np.where(heavier, self.mean + moved, other.mean - moved),
            self.scatter
            + other.scatter
            + (np.maximum(self.weight, other.weight)[:, None] * moved) * apart,
            self.rounding + other.rounding,
        )

    @property
    def delta(self) -> Float:
        """Difference ``c_+ - c_-`` ``(d,)`` of the means: ``mu`` of all pairs."""
        delta: Float = self.mean[0] - self.mean[1]
        return delta

    @property
    def centre(self) -> Float:
        """Mean ``(d,)`` over all rows."""
        centre: Float = self.mean[1] + self.weight[0] / self.weight.sum() * self.delta
        return centre

    @property
    def variance(self) -> Float:
        """Variance ``(2, d)`` in each class, dividing by ``n_k``; 0 where there are no rows."""
        return self._by_weight(self.scatter)

    def _by_weight(self, sums: Float) -> Float:
        weight = self.weight[:, None]
        return np.divide(sums, weight, out=np.zeros_like(sums), where=weight > 0)

    def _rounding(self, shares: Float) -> Float:
        """What rounding may make ``(d,)`` of a sum of the classes' variances times ``shares``."""
        relative = _LEAST_DEVIATION * np.abs(self.mean).max(axis=0)
        bound: Float = relative**2 + shares @ self._by_weight(self.rounding)
        return bound

    def varies(self) -> NDArray[np.bool_]:
        """Whether each column ``(d,)`` varies over pairs of a positive and a negative row.

        This is the one place that decides it. A column that is constant in each class has a
        scatter of exactly 0 there, however many rows of whatever weights were merged, and varies
        if the two values differ. A column does not vary either where its deviation, the root of
        ``Sigma_jj``, is at most 64 units in the last place of its mean: scores of such a column
        are rounding, and so is what the sums of a subtraction may have lost.
        """
        spread = self.variance.sum(axis=0) + self.delta**2
        return np.asarray(spread > self._rounding(np.ones(2)))

    def inverse(self, scale: Float | None = None) -> Float:
        """Factors ``(d,)`` of columns: ``1 / scale``, or 1, and 0 where a column does not vary."""
        return np.where(self.varies(), 1.0 if scale is None else 1.0 / scale, 0.0)

    def standard_deviation(self) -> Float:
        """Standard deviation ``(d,)`` of each column over all rows; 1 where it does not vary.

        Unbiased, of as many rows as there are or as their weight says if that is more: a row of
        weight 2 is a row twice.
        """
        weight = self.weight.sum()
        rows = max(self.rows.sum(), weight)
        shares = self.weight / weight
        variance = shares @ self.variance + shares[0] * shares[1] * self.delta**2
        unbiased = np.sqrt(variance * (rows / max(rows - 1, 1)))
        return np.where(variance > self._rounding(shares), unbiased, 1.0)

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _SCHEMA.encode(vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> ColumnMoments:
        """The moments that `to_bytes` stored; `ModelFormatError` if they are none."""
        return _SCHEMA.restore(data, cls)


_SCHEMA = Schema(
    "ColumnMoments",
    1,
    {
        "rows": reals(2, rule=FROM_0_ON),
        "entries": reals(2, rule=FROM_0_ON),
        "weight": reals(2, rule=FROM_0_ON),
        "mean": reals(2, "d"),
        "scatter": reals(2, "d"),
        "rounding": reals(2, "d", rule=FROM_0_ON),
    },
)


def _of_class(batch: Batch, mine: NDArray[np.bool_]) -> tuple[float, float, float, Float, Float]:
    chosen = np.flatnonzero(mine)
    u, d = batch.weights[chosen], batch.X.shape[1]
    X, n = batch.X[chosen], float(u.sum())
    if not u.size:
        return 0.0, 0.0, 0.0, np.zeros(d), np.zeros(d)
    if isinstance(X, np.ndarray):
        mean = dense_means(X, u @ X / n)
        return u.size, X.size, n, mean, u @ (X - mean) ** 2
    entries = X.nnz
    X.sum_duplicates()
    by_entry = np.repeat(u, np.diff(X.indptr))
    count = np.bincount(X.indices, minlength=d)
    mean = np.bincount(X.indices, by_entry * X.data, d) / n
    rank = np.arange(d, dtype=np.uint32)
    mean = sparse_means([sparse_entries(X)], rank, count == u.size, mean)
    squares = np.bincount(X.indices, by_entry * (X.data - mean[X.indices]) ** 2, d)
    return u.size, entries, n, mean, squares + _weight_without(X, u, count, by_entry) * mean**2


def _weight_without(
    X: sparse.csr_matrix, u: Float, count: NDArray[np.int64], by_entry: Float
) -> Float:
    """Weight ``(d,)`` of the rows that do not store a column; ``count`` ``(d,)`` of them do."""
    n, absent = float(u.sum()), u.size - count
    if u.min() == u.max():
        return np.asarray(u[0] * absent)
    without = n - np.bincount(X.indices, by_entry, count.size)
    # The difference of two nearly equal sums would be rounding.
    few = np.flatnonzero((without < _FEW * n) & (absent > 0))
    without[absent == 0] = 0.0
    if few.size:
        stored = sparse.csr_matrix((np.ones(X.nnz, np.bool_), X.indices, X.indptr), X.shape)
        without[few] = u @ ~stored[:, few].toarray()
    return np.asarray(without)
