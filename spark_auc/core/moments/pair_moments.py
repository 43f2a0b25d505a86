"""Pair moments: the mergeable statistics that define the all-pairs squared loss.

With D the difference of a positive and a negative row, ``mu = E[D]`` and ``Sigma = E[D D']`` over
all pairs follow from each class's weight, mean and covariance (Gultekin et al., MBA, Eq. 8-14).
Pairs are never formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch
from spark_auc.core.moments.accumulator import PairAccumulator
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.column_sums import UNIT
from spark_auc.core.moments.moments_tile import MomentsTile, check_both_classes, part_names
from spark_auc.core.moments.objective import Quadratic, difference_rounding
from spark_auc.core.moments.tiles import SymmetricTiles, Tiling
from spark_auc.core.parallel import mapped
from spark_auc.core.row_source import complements
from spark_auc.core.state.schema import Part, Schema, Values
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float, Rows

# Rounded operations that make an element of Sigma of the classes' covariances and of mu.
_OPERATIONS = 8


def _of_one_dimension(values: Values) -> str | None:
    dimensions = [values[name].dimension for name in ("positive", "negative")]
    equal = dimensions[0] == dimensions[1]
    return None if equal else f"its classes have {dimensions} features"


@dataclass(frozen=True, eq=False)
class PairMoments(SchemaState):
    """Moments of both classes, which define the exact all-pairs quadratic.

    Parameters
    ----------
    positive, negative
        Moments of the rows of each class.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "PairMoments",
        1,
        {"positive": Part(ClassMoments), "negative": Part(ClassMoments)},
        _of_one_dimension,
    )

    positive: ClassMoments
    negative: ClassMoments

    @classmethod
    def zero(cls, dimension: int) -> PairMoments:
        """The moments of no rows."""
        return cls(ClassMoments.zero(dimension), ClassMoments.zero(dimension))

    @classmethod
    def of(cls, X: Rows, y: NDArray[np.bool_], weight: Float | None = None) -> PairMoments:
        """The moments of rows ``X`` ``(n, d)``, labels ``y`` ``(n,)`` and weights ``(n,)``."""
        return cls.fold([Batch(X, y, weight)], X.shape[1])

    @classmethod
    def fold(cls, batches: Iterable[Batch], dimension: int) -> PairMoments:
        """The moments of all batches.

        Raises
        ------
        DataError
            A batch has another number of columns.
        """
        return cls.of_parts(dict(cls.fold_parts(batches, dimension)), dimension)

    @staticmethod
    def fold_parts(batches: Iterable[Batch], dimension: int) -> Iterator[tuple[str, MomentsTile]]:
        """The `parts` of the moments of all batches, computed one by one."""
        accumulator = PairAccumulator(dimension)
        for batch in batches:
            accumulator.add(batch.X, batch.y, batch.weight)
        yield from accumulator.parts()

    def update(self, X: Rows, y: NDArray[np.bool_], weight: Float | None = None) -> PairMoments:
        """The moments including rows ``X`` ``(n, d)``; arguments as in `of`."""
        return self.merge(PairMoments.of(X, y, weight))

    def merge(self, other: PairMoments) -> PairMoments:
        """The moments of both sets of rows."""
        return PairMoments(self.positive.merge(other.positive), self.negative.merge(other.negative))

    def subtract(self, other: PairMoments) -> PairMoments:
        """The moments of the rows that are not in ``other``; see `ClassMoments.subtract`."""
        return PairMoments(
            self.positive.subtract(other.positive), self.negative.subtract(other.negative)
        )

    def scale(self, factor: float) -> PairMoments:
        """The moments with every weight multiplied by ``factor`` > 0 (forgetting)."""
        return PairMoments(self.positive.scale(factor), self.negative.scale(factor))

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""
        return self.positive.dimension

    def parts(self) -> Iterator[tuple[str, MomentsTile]]:
        """The tiles of the state by name; each merges independently of the others."""
        tiles = (*self.positive.tiles, *self.negative.tiles)
        return zip(part_names(self.dimension), tiles, strict=True)

    @classmethod
    def of_parts(cls, parts: dict[str, MomentsTile], dimension: int) -> PairMoments:
        """The state with the given `parts`."""
        tiles = [parts[name] for name in part_names(dimension)]
        half = len(tiles) // 2
        return cls(
            ClassMoments(dimension, tuple(tiles[:half])),
            ClassMoments(dimension, tuple(tiles[half:])),
        )

    @classmethod
    def total(cls, parts: Sequence[PairMoments]) -> PairMoments:
        """The moments of the rows of one or more parts, merged in their order, tile by tile."""
        named = zip(*(part.parts() for part in parts), strict=True)
        tiles = {
            tiles[0][0]: reduce(MomentsTile.merge, (tile for _, tile in tiles)) for tiles in named
        }
        return cls.of_parts(tiles, parts[0].dimension)

    @staticmethod
    def complements(own: list[PairMoments]) -> list[PairMoments]:
        """The moments of the rows of all other parts, for each part; see `complements`.

        The tiles are processed one by one, and the memory of each is released, so that the peak is
        little more than the size of the parts.

        Parameters
        ----------
        own
            Moments of the parts, at least two; the list is emptied.
        """
        dimension = own[0].dimension
        tiles = [dict(part.parts()) for part in own]
        own.clear()

        def complete(name: str) -> None:
            others = complements([part.pop(name) for part in tiles])
            for part, tile in zip(tiles, others, strict=True):
                part[name] = tile

        mapped(complete, part_names(dimension))
        return [PairMoments.of_parts(part, dimension) for part in tiles]

    @staticmethod
    def nbytes(dimension: int) -> int:
        """Size in bytes of a state of ``dimension`` features: two packed triangles."""
        return 2 * Tiling(dimension).nbytes

    def of_columns(self, columns: NDArray[np.int64]) -> PairMoments:
        """The moments of ``k`` of the columns ``(k,)``; see `ClassMoments.of_columns`."""
        return PairMoments(self.positive.of_columns(columns), self.negative.of_columns(columns))

    def columns(self) -> ColumnMoments:
        """The moments of single columns."""
        return self._of_each(lambda m: m.mean, ClassMoments.spread)

    def along(self, w: Float) -> ColumnMoments:
        """The moments of one column, the scores ``X w`` of the rows, for weights ``w`` ``(d,)``."""
        return self._of_each(
            lambda m: np.atleast_1d(m.mean @ w),
            lambda m: (np.atleast_1d(m.weight * m.variance_along(w)), np.zeros(1)),
        )

    def _of_each(
        self,
        mean: Callable[[ClassMoments], Float],
        spread: Callable[[ClassMoments], tuple[Float, Float]],
    ) -> ColumnMoments:
        classes = (self.positive, self.negative)
        rows = np.array([float(m.rows) for m in classes])
        return ColumnMoments(
            rows,
            rows * self.dimension,
            np.array([m.weight for m in classes]),
            np.stack([mean(m) for m in classes]),
            *np.stack([spread(m) for m in classes], axis=1),
        )

    def quadratic(self, scale: Float | None = None) -> Quadratic:
        """Exact ``Sigma = C+ + C- + delta delta'`` and ``mu = delta`` of all pairs (MBA, Eq. 8-9).

        Both are exactly 0 for constant columns; see `ColumnMoments.varies`.

        Parameters
        ----------
        scale : (d,), optional
            Divisors ``s`` of the columns: ``Sigma / (s s')`` and ``mu / s``. Default: 1.

        Raises
        ------
        DataError
            A class has no rows.
        """
        p, n = self.positive, self.negative
        check_both_classes(p.rows, n.rows)
        tiling = Tiling(self.dimension)
        inverse = self.columns().inverse(scale)
        # For columns far from 0 the difference of the means would cancel; that of the origins,
        # which are equal or close, is precise.
        mu = ((p.origin - n.origin) + (p.from_origin - n.from_origin)) * inverse
        tiles = np.empty((tiling.count, tiling.tile, tiling.tile))
        padded = np.zeros((2, tiling.blocks * tiling.tile))
        padded[:, : self.dimension] = inverse, mu
        factors, means = padded.reshape(2, tiling.blocks, tiling.tile)
        scaled = bool((inverse != 1.0).any())

        def fill(place: tuple[int, tuple[int, int]]) -> None:
            k, (i, j) = place
            tile = np.divide(p.tiles[k].scatter(), p.weight, out=tiles[k])
            tile += n.tiles[k].scatter() / n.weight
            if scaled:
                tile *= np.outer(factors[i], factors[j])
            tile += np.outer(means[i], means[j])

        mapped(fill, enumerate(tiling.places()))
        Sigma = SymmetricTiles(self.dimension, tiles)
        # The origins are exact numbers: only the means from them are rounded.
        class_means = np.stack([p.from_origin, n.from_origin]) * inverse
        diagonal = Sigma.diagonal()
        blur = np.zeros(self.dimension)
        np.divide((p.blur() + n.blur()) * inverse**2, diagonal, out=blur, where=diagonal > 0)
        blur[diagonal > 0] += _OPERATIONS * UNIT
        # A mean is a sum of first powers; its error is about the root of that of the squares.
        sum_rounding = float(np.sqrt(np.finfo(float).eps * blur.max(initial=0.0)))
        mu_rounding = difference_rounding(class_means, diagonal) + sum_rounding
        return Quadratic(Sigma, mu, mu_rounding, blur)
