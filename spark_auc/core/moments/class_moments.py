"""Weight, mean and covariance of one class's rows, mergeable and subtractable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.moments.accumulator import Accumulator
from spark_auc.core.moments.column_sums import UNIT
from spark_auc.core.moments.moments_tile import (
    MomentsTile,
    Vectors,
    about_inverse,
    other_dimension,
)
from spark_auc.core.moments.tiles import SymmetricTiles, Tiling
from spark_auc.core.state.schema import Parts, Schema, Size, Values
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float, Rows

# Rounded operations that make a variance of the squares about the origin and of the total.
_OPERATIONS = 8


def _tiled(values: Values) -> str | None:
    tiling, tiles = Tiling(values["dimension"]), values["tiles"]
    if {(len(tiles), len(t.gram)) for t in tiles} != {(tiling.count, tiling.tile)}:
        return f"its {len(tiles)} tiles are not those of {tiling.dimension} features"
    if len({(t.rows, t.weight) for t in tiles}) > 1:
        return "its tiles have different numbers or weights of rows"
    return None


@dataclass(frozen=True, eq=False)
class ClassMoments(SchemaState):
    """Weight, mean and scatter of the rows of one class.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    tiles
        One `MomentsTile` per tile of ``Tiling(d)``.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "ClassMoments", 1, {"dimension": Size("d"), "tiles": Parts(MomentsTile)}, _tiled
    )

    dimension: int
    tiles: tuple[MomentsTile, ...]

    @classmethod
    def zero(cls, dimension: int) -> ClassMoments:
        """The moments of no rows."""
        return cls(dimension, tuple(Accumulator(dimension).tiles()))

    @classmethod
    def of(cls, X: Rows, weight: Float | None = None) -> ClassMoments:
        """The moments of rows ``X`` ``(n, d)``, dense or CSR, with weights ``(n,)`` > 0."""
        accumulator = Accumulator(X.shape[1])
        accumulator.add(X, np.arange(X.shape[0]), weight)
        return cls(X.shape[1], tuple(accumulator.tiles()))

    def update(self, X: Rows, weight: Float | None = None) -> ClassMoments:
        """The moments including rows ``X`` ``(n, d)`` with weights ``(n,)``."""
        return self.merge(ClassMoments.of(X, weight))

    def _tilewise(self, other: ClassMoments, name: Literal["merge", "subtract"]) -> ClassMoments:
        if other.dimension != self.dimension:
            raise other_dimension(self.dimension, other.dimension)
        return ClassMoments(
            self.dimension,
            tuple(getattr(a, name)(b) for a, b in zip(self.tiles, other.tiles, strict=True)),
        )

    def merge(self, other: ClassMoments) -> ClassMoments:
        """The moments of both sets of rows."""
        return self._tilewise(other, "merge")

    def subtract(self, other: ClassMoments) -> ClassMoments:
        """The moments of the rows that are not in ``other``.

        Merging the moments of the remaining rows, if they are available, is more precise. The
        error of the difference is relative to the minuend; see `spread`.

        Raises
        ------
        DataError
            ``other`` is not a part of these moments, or the remaining weight is at most a rounding
            error.
        """
        difference = self._tilewise(other, "subtract")
        if not other.rows:
            return difference
        tiles = list(difference.tiles)
        for k in self._diagonal():
            rounding = self.tiles[k].remainder(other.tiles[k])
            tiles[k] = replace(tiles[k], rounding=rounding * bool(difference.rows))
        return replace(difference, tiles=tuple(tiles))

    def scale(self, factor: float) -> ClassMoments:
        """The moments with every weight multiplied by ``factor`` > 0 (forgetting)."""
        return ClassMoments(self.dimension, tuple(t.scale(factor) for t in self.tiles))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.tiles[0].rows

    @property
    def weight(self) -> float:
        """Total weight ``n``."""
        return self.tiles[0].weight

    def _diagonal(self) -> list[int]:
        return [i * (i + 3) // 2 for i in range(Tiling(self.dimension).blocks)]

    def _of_columns(self, part: Callable[[MomentsTile], Float]) -> Float:
        parts = [part(self.tiles[k]) for k in self._diagonal()]
        return np.concatenate(parts)[: self.dimension]

    @property
    def origin(self) -> Float:
        """The origin ``o`` ``(d,)`` about which the moments are taken."""
        return self._of_columns(lambda t: t.origin[0])

    @property
    def from_origin(self) -> Float:
        """The mean minus the origin, ``(d,)``."""
        return self._of_columns(lambda t: t.total[0]) / (self.weight or 1.0)

    @property
    def mean(self) -> Float:
        """Mean ``c`` ``(d,)``; 0 where there are no rows."""
        return self._of_columns(lambda t: Vectors(t.weight, t.origin[0], t.total[0]).mean)

    def spread(self) -> tuple[Float, Float]:
        """Scatter ``(d,)`` of each column, and a bound ``(d,)`` on its rounding error.

        A scatter within this bound is set to 0. This happens if all rows have the same value; if
        the origin is 0 because of sparse rows, and the rows with other values have less than a
        rounding error of the weight; and if the rows left by a subtraction have the same value.
        """
        squares = self._of_columns(lambda t: t.gram.diagonal())
        total = self._of_columns(lambda t: t.total[0])
        rounding = self._rounding(squares)
        unit = about_inverse(self.weight)
        scatter = squares - (unit * total) ** 2 / ((self.weight or 1.0) * unit * unit)
        return np.where(scatter > rounding, scatter, 0.0), rounding

    def blur(self) -> Float:
        """Bound ``(d,)`` on the rounding error of each column's variance.

        The error of the covariance of two columns is at most the root of the product of theirs. It
        is relative to the squares about the origin. They exceed the variance if sparse rows have a
        mean far from the origin 0, and after a subtraction.
        """
        squares = self._of_columns(lambda t: t.gram.diagonal())
        return self._rounding(squares) / (self.weight or 1.0)

    def _rounding(self, squares: Float) -> Float:
        rounding: Float = self._of_columns(lambda t: t.rounding) + UNIT * _OPERATIONS * squares
        return rounding

    def of_columns(self, columns: NDArray[np.int64]) -> ClassMoments:
        """The moments of ``k`` of the columns ``(k,)``: those of the same rows without the others.

        Parameters
        ----------
        columns
            Numbers of distinct columns, in the order of the result.
        """
        if np.array_equal(columns, np.arange(self.dimension)):
            return self
        tiling, grams = Tiling(columns.size), np.stack([t.gram for t in self.tiles])
        restricted = SymmetricTiles(self.dimension, grams).restricted(columns)
        parts = (lambda t: t.origin[0], lambda t: t.total[0], lambda t: t.rounding)
        padded = np.zeros((len(parts), tiling.blocks * tiling.tile))
        for vector, part in zip(padded, parts, strict=True):
            vector[: columns.size] = self._of_columns(part)[columns]
        origin, total, rounding = padded.reshape(len(parts), tiling.blocks, tiling.tile)
        tiles = (
            MomentsTile(
                self.rows,
                self.weight,
                origin[[i, j]],
                total[[i, j]],
                restricted.tiles[k],
                rounding[i] if i == j else np.zeros(tiling.tile),
            )
            for k, (i, j) in enumerate(tiling.places())
        )
        return ClassMoments(columns.size, tuple(tiles))

    def scatter(self) -> Float:
        """Scatter ``n C`` ``(d, d)`` about the mean, as a full matrix."""
        tiles = np.stack([tile.scatter() for tile in self.tiles])
        matrix = SymmetricTiles(self.dimension, tiles).toarray()
        constant = self.spread()[0] == 0.0
        matrix[constant], matrix[:, constant] = 0.0, 0.0
        return matrix

    def covariance(self, columns: NDArray[np.int64]) -> Float:
        """The covariance ``(k, k)`` of ``k`` distinct columns in ascending order; needs rows."""
        tiling = Tiling(self.dimension)
        block, inside = np.divmod(columns, tiling.tile)
        lower = np.zeros((columns.size, columns.size))
        for t, (i, j) in zip(self.tiles, tiling.places(), strict=True):
            rows, others = np.flatnonzero(block == i), np.flatnonzero(block == j)
            if rows.size and others.size:
                gram = t.gram[np.ix_(inside[rows], inside[others])]
                lower[np.ix_(rows, others)] = gram
        unit = about_inverse(self.weight)
        total = unit * self._of_columns(lambda t: t.total[0])[columns]
        full = np.tril(lower) + np.tril(lower, -1).T
        full -= np.outer(total, total) / (self.weight * unit * unit)
        covariance: Float = full / self.weight
        return covariance

    def variance_along(self, w: Float) -> float:
        """Variance ``w' C w`` of the scores of the rows."""
        if not self.rows:
            return 0.0
        tiling = Tiling(self.dimension)
        padded = np.zeros(tiling.blocks * tiling.tile)
        padded[: self.dimension] = w
        parts = padded.reshape(tiling.blocks, tiling.tile)
        unit = about_inverse(self.weight)
        total = sum(
            (1.0 if i == j else 2.0)
            * (
                parts[i] @ (t.gram @ parts[j])
                - (parts[i] @ (unit * t.total[0]))
                * (parts[j] @ (unit * t.total[1]))
                / (t.weight * unit * unit)
            )
            for t, (i, j) in zip(self.tiles, tiling.places(), strict=True)
        )
        return max(float(total), 0.0) / self.weight
