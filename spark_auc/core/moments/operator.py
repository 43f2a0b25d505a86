"""The pair quadratic without a matrix: products with ``Sigma`` by passes over the rows.

For more features than a matrix of them fits in memory. The functions that fold rows into moments
are here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch
from spark_auc.core.labels import LabelCounts
from spark_auc.core.lockstep import Lockstep
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.column_sums import UNIT
from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.objective import Quadratic, difference_rounding
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.pair_products import NO_PART, PartOf, Vectors, products
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import Folding, State, batchwise
from spark_auc.core.types import Float

# A column's mean is subtracted before products if it is more than this number of standard
# deviations from 0, which takes three times as long. The mean of a 0-1 column is closer unless it
# is 0 in less than one of a thousand rows. The rounding error grows with this distance and with
# the number of rows, so that the distance is smaller for many rows.
_FAR, _FAR_OF_MANY, _MANY = 32.0, 4.0, 1_000_000


@dataclass(frozen=True, eq=False)
class PairOperator:
    """``Sigma`` of all pairs of some rows as a linear operator; see `products`.

    Columns far from 0 are centred at their mean, without storing the zeros of sparse rows, so that
    an offset of a column costs no precision.

    Parameters
    ----------
    rows
        All rows.
    columns
        Column moments of the rows of the pairs.
    scale : (d,), optional
        Divisors of the columns. Default: 1.
    part_of
        The part of each row, if the rows of a part are left out.
    without
        The number of this part.
    multiply
        Multiplies raw vectors by ``Sigma`` in a pass that other operators share. Default: in a pass
        of its own.
    """

    rows: Folding
    columns: ColumnMoments
    scale: Float | None = None
    part_of: PartOf | None = None
    without: int = NO_PART
    multiply: Callable[[Vectors], Float] | None = None
    _last: dict[bytes, SymmetricTiles] = field(default_factory=dict, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

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
        """Product with a vector ``(d,)``; one pass."""
        return self.matmat(vector[:, None])[:, 0]

    def matmat(self, vectors: Float) -> Float:
        """Products ``(d, k)`` with the columns of ``vectors`` ``(d, k)``; see `products`."""
        inverse = self._inverse[:, None]
        block = Vectors(self.columns, vectors * inverse, self.without)
        if self.multiply:
            return self.multiply(block) * inverse
        return products(self.rows, [block], self._origin, self.part_of)[0] * inverse

    def diagonal(self) -> Float:
        """The diagonal ``(d,)``."""
        diagonal = self.columns.squares
        return diagonal * self._inverse**2

    def restricted(self, features: NDArray[np.int64]) -> SymmetricTiles:
        """The matrix ``(k, k)`` between ``k`` features in ascending order, in one pass.

        The last one is kept: all degrees of smoothness need the matrix of the same features.
        """
        key = features.tobytes()
        with self._lock:
            if key not in self._last:
                self._last.clear()
                self._last[key] = self._restricted(features)
            return self._last[key]

    def _restricted(self, features: NDArray[np.int64]) -> SymmetricTiles:
        part_of, without = self.part_of, self.without

        def selected(batch: Batch) -> Batch:
            if part_of is not None:
                batch = batch.take(np.flatnonzero(part_of(batch) != without))
            return batch._replace(X=batch.X[:, features])

        rows = self.rows.changed(batchwise(selected), features.size)
        scale = None if self.scale is None else self.scale[features]
        return cast(SymmetricTiles, pair_moments(rows).quadratic(scale).Sigma)

    def quadratic(self) -> Quadratic:
        """The quadratic of the pairs."""
        columns, diagonal = self.columns, self.diagonal()
        rounding = difference_rounding(columns.mean * self._inverse, diagonal)
        # A column's products are added one by one. By the Cauchy-Schwarz inequality, the sum of
        # their sizes is at most the root of its mean squares and of those of the scores.
        squares = (columns.variance + (columns.mean - self._origin) ** 2).sum(axis=0)
        squares = squares[diagonal > 0] * self._inverse[diagonal > 0] ** 2 / diagonal[diagonal > 0]
        size = float(np.sqrt(2.0 * squares.max(initial=0.0)))
        product_rounding = UNIT * float(columns.rows.sum()) * size
        mu = columns.delta * self._inverse
        return Quadratic(self, mu, rounding, product_rounding=product_rounding)


def offsets(columns: ColumnMoments) -> Float:
    """Offsets ``(d,)`` to subtract from columns: the mean if it is far from 0, otherwise 0.

    Differences of rows do not depend on the offsets.
    """
    mean: Float = columns.weight @ columns.mean / columns.weight.sum()
    spread = columns.squares
    far = _FAR_OF_MANY if columns.rows.sum() > _MANY else _FAR
    return np.where(mean**2 > far**2 * spread, mean, 0.0)


def operator_quadratic(rows: Folding, scale: Float | None) -> Quadratic:
    """The quadratic of all pairs of the rows, without a matrix; one pass.

    Parameters
    ----------
    rows
        The rows.
    scale : (d,), optional
        Divisors of the columns. Default: 1.
    """
    return PairOperator(rows, column_moments(rows), scale).quadratic()


def fold_quadratics(
    rows: Folding, part_of: PartOf, folds: Sequence[tuple[ColumnMoments, Float | None]]
) -> tuple[Lockstep[Vectors, Float], list[Quadratic]]:
    """The quadratic of each fold's training rows, without a matrix, and the passes they share.

    Solvers that run in the threads of the lockstep multiply by all of them in one pass.

    Parameters
    ----------
    rows
        All rows.
    part_of
        The fold of each row; the training rows of a fold are the others.
    folds
        For each fold, the column moments of its training rows, and the divisors ``(d,)`` of their
        columns.
    """
    # Any offsets near the means will do: those of one fold serve all.
    origin = offsets(folds[0][0])
    shared = Lockstep[Vectors, Float](lambda blocks: products(rows, blocks, origin, part_of))
    return shared, [
        PairOperator(rows, columns, scale, part_of, k, shared.ask).quadratic()
        for k, (columns, scale) in enumerate(folds)
    ]


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


def score_moments(rows: Folding, w: Float) -> ColumnMoments:
    """The moments of one column, the scores of all rows by weights ``w`` ``(d,)``; one pass."""
    scored = batchwise(lambda batch: batch._replace(X=settled_scores(batch.X, w)[:, None]))
    return column_moments(rows.changed(scored, 1))


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
