"""Weight, mean and variance of each column in each class, from one cheap pass over the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.kernels import sparse_entries
from spark_auc.core.moments.column_sums import dense_sums, rounded, sparse_sums
from spark_auc.core.moments.constant_columns import dense_means, sparse_means
from spark_auc.core.moments.moments_tile import other_dimension
from spark_auc.core.state.rules import FROM_0_ON
from spark_auc.core.state.schema import Schema, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float

# A deviation of at most this share of a column's mean counts as rounding of its values.
_LEAST_DEVIATION = 64 * float(np.finfo(float).eps)
# The weight of the rows that do not store a column is the total weight minus that of the others. If
# it is less than this share of the total, it is summed directly: a difference would lose digits.
_FEW = 1e-3
# Rounded operations of the scatter of a batch (`dense_sums` of up to 10^6 rows), and of a merge.
_OF_BATCH, _OF_MERGE = 160, 8

# Stored entries per column for which an update of all columns pays.
_DENSITY = 4


@dataclass(frozen=True, eq=False)
class ColumnMoments(SchemaState):
    """Moments of single columns; index 0 of the first axis is the positive class.

    Parameters
    ----------
    rows : (2,)
        Number of rows.
    entries : (2,)
        Number of stored entries: all entries of dense rows, the stored ones of sparse rows.
    weight : (2,)
        Total row weight ``n_k``.
    mean, scatter : (2, d)
        Mean, and sum of squared deviations from it. For a constant column they are exactly its
        value and 0.
    rounding : (2, d)
        Bound on the rounding error of the scatter.
    """

    SCHEMA: ClassVar[Schema] = Schema(
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
        """The moments of a batch of rows."""
        classes = [_of_class(batch, in_class) for in_class in (batch.y, ~batch.y)]
        rows, entries, weight, mean, scatter = (np.array(x) for x in zip(*classes, strict=True))
        return cls(rows, entries, weight, mean, scatter, rounded(_OF_BATCH, scatter))

    @classmethod
    def fold(cls, batches: Iterable[Batch], dimension: int) -> ColumnMoments:
        """The moments of all batches; raises `DataError` unless all have ``dimension`` columns."""
        total = ColumnAccumulator(dimension)
        for batch in batches:
            total.add(batch)
        return total.finish()

    def merge(self, other: ColumnMoments) -> ColumnMoments:
        """The moments of both sets of rows (Chan, Golub and LeVeque 1983)."""
        if self.mean.shape != other.mean.shape:
            raise other_dimension(self.mean.shape[1], other.mean.shape[1])
        weight = self.weight + other.weight
        # The mean of the heavier set is updated, as it moves less.
        lesser = np.minimum(self.weight, other.weight)
        share = np.divide(lesser, weight, out=np.zeros(2), where=weight > 0)[:, None]
        heavier = (self.weight >= other.weight)[:, None]
        difference = other.mean - self.mean
        step = share * difference
        between = (np.maximum(self.weight, other.weight)[:, None] * step) * difference
        scatter = self.scatter + other.scatter + between
        both = (self.weight > 0) & (other.weight > 0)
        return ColumnMoments(
            self.rows + other.rows,
            self.entries + other.entries,
            weight,
            np.where(heavier, self.mean + step, other.mean - step),
            scatter,
            self.rounding + other.rounding + both[:, None] * rounded(_OF_MERGE, scatter),
        )

    def scale(self, factor: float) -> ColumnMoments:
        """The moments with every weight multiplied by ``factor`` > 0 (forgetting)."""
        return ColumnMoments(
            self.rows,
            self.entries,
            factor * self.weight,
            self.mean,
            factor * self.scatter,
            factor * self.rounding,
        )

    def without(self, side: int) -> ColumnMoments:
        """The moments without the rows of a class: 0 for the positive, 1 for the negative one."""
        zero = {name: value.copy() for name, value in vars(self).items()}
        for value in zero.values():
            value[side] = 0.0
        return ColumnMoments(**zero)

    def widened(self, columns: NDArray[np.int64], dimension: int) -> ColumnMoments:
        """The moments of these columns ``(k,)`` and of others, which are 0 in all rows."""
        changed = {}
        for name in ("mean", "scatter", "rounding"):
            changed[name] = np.zeros((2, dimension))
            changed[name][:, columns] = getattr(self, name)
        return replace(self, **changed)

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
        """Variance ``(2, d)`` in each class, with divisor ``n_k``; 0 for a class without rows."""
        return self._by_weight(self.scatter)

    @property
    def squares(self) -> Float:
        """Mean squared difference ``(d,)`` of all pairs: the diagonal of their ``Sigma``."""
        squares: Float = self.variance.sum(axis=0) + self.delta**2
        return squares

    def variance_rounding(self) -> Float:
        """Bound ``(2, d)`` on the rounding error of the `variance`."""
        return self._by_weight(self.rounding)

    def _by_weight(self, sums: Float) -> Float:
        weight = self.weight[:, None]
        return np.divide(sums, weight, out=np.zeros_like(sums), where=weight > 0)

    def _rounding(self, shares: Float) -> Float:
        """Bound ``(d,)`` on the rounding of the sum of the classes' variances times ``shares``."""
        relative = _LEAST_DEVIATION * np.abs(self.mean).max(axis=0)
        bound: Float = relative**2 + shares @ self.variance_rounding()
        return bound

    def varies(self) -> NDArray[np.bool_]:
        """Whether each column ``(d,)`` varies over pairs of a positive and a negative row.

        Only this method decides it. A column that is constant in each class has a scatter of
        exactly 0, for any number of merges and any weights, and varies if the two values differ. A
        column counts as constant if its deviation, the root of ``Sigma_jj``, is at most 64 units in
        the last place of its mean, or within the rounding error of a subtraction: scores from such
        a column would be rounding.
        """
        spread = self.squares
        return np.asarray(spread > self._rounding(np.ones(2)))

    def inverse(self, scale: Float | None = None) -> Float:
        """Factors ``(d,)`` of columns: ``1 / scale`` (default: 1), and 0 for constant columns."""
        return np.where(self.varies(), 1.0 if scale is None else 1.0 / scale, 0.0)

    def standard_deviation(self) -> Float:
        """Standard deviation ``(d,)`` of each column over all rows; 1 for constant columns.

        Unbiased. The number of rows is the greater of their count and their total weight: a row of
        weight 2 counts as two rows.
        """
        weight = self.weight.sum()
        rows = max(self.rows.sum(), weight)
        shares = self.weight / weight
        variance = shares @ self.variance + shares[0] * shares[1] * self.delta**2
        unbiased = np.sqrt(variance * (rows / max(rows - 1, 1)))
        return np.where(variance > self._rounding(shares), unbiased, 1.0)


class ColumnAccumulator:
    """Adds up the column moments of batches with ``dimension`` columns."""

    def __init__(self, dimension: int) -> None:
        self._total = ColumnMoments.zero(dimension)
        self._batches: list[Batch] = []
        self._entries = 0

    def add(self, batch: Batch) -> None:
        """Add a batch; raises `DataError` unless it has ``dimension`` columns."""
        dimension = self._total.mean.shape[1]
        if batch.X.shape[1] != dimension:
            raise other_dimension(dimension, batch.X.shape[1])
        self._batches.append(batch)
        self._entries += batch.X.size
        if self._entries >= _DENSITY * dimension:
            self.finish()

    def finish(self) -> ColumnMoments:
        """The moments of all batches."""
        if self._batches:
            self._total = self._total.merge(ColumnMoments.of(stacked(self._batches)))
            self._batches, self._entries = [], 0
        return self._total


def _of_class(
    batch: Batch, in_class: NDArray[np.bool_]
) -> tuple[float, float, float, Float, Float]:
    """Rows, stored entries, weight, mean ``(d,)`` and scatter ``(d,)`` of one class."""
    numbers = np.flatnonzero(in_class)
    u, d = batch.weights[numbers], batch.X.shape[1]
    X, n = batch.X[numbers], float(u.sum())
    if not u.size:
        return 0.0, 0.0, 0.0, np.zeros(d), np.zeros(d)
    if isinstance(X, np.ndarray):
        weighted = u.min() != 1.0 or u.max() != 1.0
        mean = dense_means(X, dense_sums(X * u[:, None] if weighted else X) / n)
        squares = (X - mean) ** 2
        return u.size, X.size, n, mean, dense_sums(squares * u[:, None] if weighted else squares)
    entries = X.nnz
    X.sum_duplicates()
    entry_weight = np.repeat(u, np.diff(X.indptr))
    count = np.bincount(X.indices, minlength=d)
    mean = sparse_sums(X.indices, entry_weight * X.data, d) / n
    rank = np.arange(d, dtype=np.uint32)
    mean = sparse_means([sparse_entries(X)], rank, count == u.size, mean)
    squares = sparse_sums(X.indices, entry_weight * (X.data - mean[X.indices]) ** 2, d)
    return u.size, entries, n, mean, squares + _weight_absent(X, u, count, entry_weight) * mean**2


def _weight_absent(
    X: sparse.csr_matrix, u: Float, count: NDArray[np.int64], entry_weight: Float
) -> Float:
    """Weight ``(d,)`` of the rows that do not store a column; ``count`` ``(d,)`` rows store it."""
    n, absent = float(u.sum()), u.size - count
    if u.min() == u.max():
        return np.asarray(u[0] * absent)
    weight = n - sparse_sums(X.indices, entry_weight, count.size)
    few = np.flatnonzero((weight < _FEW * n) & (absent > 0))
    weight[absent == 0] = 0.0
    if few.size:
        stored = sparse.csr_matrix((np.ones(X.nnz, np.bool_), X.indices, X.indptr), X.shape)
        weight[few] = u @ ~stored[:, few].toarray()
    return np.asarray(weight)
