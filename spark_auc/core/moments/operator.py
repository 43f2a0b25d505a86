"""The pair quadratic without a matrix: products with ``Sigma`` by passes over the rows.

For more features than a matrix of them fits in memory. The functions that fold rows into moments
are here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch
from spark_auc.core.kernels import compiled, sparse_entries
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.objective import Quadratic, difference_rounding
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.row_source import Folding, State, batchwise
from spark_auc.core.state.schema import ANY, Schema, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float, Index

# A column's mean is subtracted before products if it is more than this number of standard
# deviations from 0. The mean of a column that many rows do not store is closer.
_FAR = 4.0


@dataclass(frozen=True, eq=False)
class VectorSum(SchemaState):
    """A mergeable sum of arrays of one shape, such as vectors ``(d,)``."""

    SCHEMA: ClassVar[Schema] = Schema("VectorSum", 1, {"total": reals(*ANY)})

    total: Float

    def merge(self, other: VectorSum) -> VectorSum:
        """The sum of both."""
        return VectorSum(self.total + other.total)


@dataclass(frozen=True, eq=False)
class PairOperator:
    """``Sigma`` of all pairs as a linear operator; each product is one pass over the rows.

    With z_i = x_i'v, ``Sigma v = X'b`` for ``b_i = u_i (z_i - c_other'v) / n_own``, where own is
    the row's class and other the opposite one (MBA, Eq. 8-9, without forming Sigma). Columns far
    from 0 are centred at their mean, without storing the zeros of sparse rows, so that an offset of
    a column costs no precision.

    Parameters
    ----------
    rows
        The rows.
    columns
        Column moments of the rows.
    scale : (d,), optional
        Divisors of the columns. Default: 1.
    """

    rows: Folding
    columns: ColumnMoments
    scale: Float | None = None

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""
        return self.rows.dimension

    @cached_property
    def _inverse(self) -> Float:
        return self.columns.inverse(self.scale)

    @cached_property
    def _origin(self) -> Float:
        return offsets(self.columns)

    def matvec(self, vector: Float) -> Float:
        """Product with a vector ``(d,)``, in one pass."""
        v = vector * self._inverse
        origin = self._origin
        opposite = ((self.columns.mean - origin) @ v)[::-1]
        weight, dimension = self.columns.weight, self.dimension

        def products(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            out = np.zeros(dimension)
            for batch in batches:
                side = (~batch.y).astype(int)
                share = batch.weights / weight[side]
                _add_product(batch, v, opposite[side], share, origin, out)
            yield "product", VectorSum(out)

        result = self.rows.fold(
            products, (VectorSum,), state_bytes=8 * dimension, what=f"{dimension} sums"
        )
        return cast(VectorSum, result["product"]).total * self._inverse

    def matmat(self, vectors: Float) -> Float:
        """Products ``(d, k)`` with the columns of ``vectors`` ``(d, k)``, one pass each."""
        return np.stack([self.matvec(vector) for vector in vectors.T], axis=1)

    def diagonal(self) -> Float:
        """The diagonal ``(d,)``."""
        diagonal: Float = self.columns.variance.sum(axis=0) + self.columns.delta**2
        return diagonal * self._inverse**2

    def restricted(self, features: NDArray[np.int64]) -> SymmetricTiles:
        """The matrix ``(k, k)`` between ``k`` features in ascending order, in one pass."""
        rows = self.rows.changed(
            batchwise(lambda batch: batch._replace(X=batch.X[:, features])), features.size
        )
        scale = None if self.scale is None else self.scale[features]
        return cast(SymmetricTiles, pair_moments(rows).quadratic(scale).Sigma)


def offsets(columns: ColumnMoments) -> Float:
    """Offsets ``(d,)`` to subtract from columns: the mean if it is far from 0, otherwise 0.

    Differences of rows do not depend on the offsets.
    """
    mean: Float = columns.weight @ columns.mean / columns.weight.sum()
    spread = columns.variance.sum(axis=0) + columns.delta**2
    return np.where(mean**2 > _FAR**2 * spread, mean, 0.0)


def operator_quadratic(rows: Folding, scale: Float | None) -> Quadratic:
    """The quadratic of all pairs of the rows, without a matrix; one pass.

    Parameters
    ----------
    rows
        The rows.
    scale : (d,), optional
        Divisors of the columns. Default: 1.
    """
    columns = column_moments(rows)
    inverse = columns.inverse(scale)
    Sigma = PairOperator(rows, columns, scale)
    rounding = difference_rounding(columns.mean * inverse, Sigma.diagonal())
    return Quadratic(Sigma, columns.delta * inverse, rounding)


def pair_moments(rows: Folding) -> PairMoments:
    """The pair moments of all rows; one pass."""
    return labelled_pair_moments(rows)[0]


def labelled_pair_moments(rows: Folding) -> tuple[PairMoments, LabelCounts]:
    """The pair moments of all rows, and the number of rows of each label; one pass."""
    dimension = rows.dimension

    def fold(batches: Iterable[Batch]) -> Iterator[tuple[str, State]]:
        return PairMoments.fold_parts(batches, dimension)

    result = rows.fold(
        fold,
        (MomentsTile,),
        state_bytes=PairMoments.nbytes(dimension),
        what=f"moments of {dimension} features",
    )
    parts = cast(dict[str, MomentsTile], result.states)
    return PairMoments.of_parts(parts, dimension), result.labels


def column_moments(rows: Folding) -> ColumnMoments:
    """The column moments of all rows; one pass."""
    return labelled_column_moments(rows)[0]


def labelled_column_moments(rows: Folding) -> tuple[ColumnMoments, LabelCounts]:
    """The column moments of all rows, and the number of rows of each label; one pass."""
    dimension = rows.dimension

    def fold(batches: Iterable[Batch]) -> Iterator[tuple[str, State]]:
        yield "columns", ColumnMoments.fold(batches, dimension)

    result = rows.fold(
        fold,
        (ColumnMoments,),
        state_bytes=6 * 8 * dimension + 1024,
        what=f"means and variances of {dimension} features",
    )
    return cast(ColumnMoments, result["columns"]), result.labels


def _add_product(
    batch: Batch, v: Float, opposite: Float, share: Float, origin: Float, out: Float
) -> None:
    X = batch.X
    if isinstance(X, np.ndarray):
        centred = X - origin if origin.any() else X
        out += (share * (centred @ v - opposite)) @ centred
    else:
        _add_sparse_product(*sparse_entries(X), v, opposite, share, origin, bool(origin.any()), out)


@compiled()
def _add_sparse_product(
    data: Float,
    indices: Index,
    indptr: Index,
    v: Float,
    opposite: Float,
    share: Float,
    origin: Float,
    far: bool,
    out: Float,
) -> None:
    if not far:
        for i in range(share.size):
            score = 0.0
            for p in range(indptr[i], indptr[i + 1]):
                score += data[p] * v[indices[p]]
            b = share[i] * (score - opposite[i])
            for p in range(indptr[i], indptr[i + 1]):
                out[indices[p]] += data[p] * b
        return
    # The centred value of an entry that is not stored is minus the origin. Sums over all entries
    # and over stored entries run in the same order, so that their difference is exactly 0 for a row
    # or a column that stores every entry.
    origin_score = 0.0
    for j in range(origin.size):
        origin_score += origin[j] * v[j]
    total, stored = 0.0, np.zeros(origin.size)
    for i in range(share.size):
        score, stored_score = 0.0, 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            score += (data[p] - origin[j]) * v[j]
            stored_score += origin[j] * v[j]
        b = share[i] * (score - (origin_score - stored_score) - opposite[i])
        total += b
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            out[j] += (data[p] - origin[j]) * b
            stored[j] += b
    for j in range(origin.size):
        out[j] -= origin[j] * (total - stored[j])
