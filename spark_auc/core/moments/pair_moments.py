"""Pair moments: the mergeable statistics from which every all-pairs squared loss is made.

Over all pairs of a positive and a negative row, with D their difference,
``mu = E[D]`` and ``Sigma = E[D D']`` follow from each class's weight, mean and covariance
(Gultekin et al., MBA, Eq. 8-14), so that no pair is ever formed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch
from spark_auc.core.moments.accumulator import PairAccumulator
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.moments_tile import MomentsTile, part_names
from spark_auc.core.moments.objective import Quadratic, lost
from spark_auc.core.moments.tiles import SymmetricTiles, Tiling
from spark_auc.core.state.schema import Part, Schema, Values
from spark_auc.core.types import Float, Rows
from spark_auc.errors import DataError


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Moments of both classes, and the exact all-pairs quadratic that they define.

    Parameters
    ----------
    positive, negative
        Moments of the rows of each class.
    """

    positive: ClassMoments
    negative: ClassMoments

    @classmethod
    def zero(cls, dimension: int) -> PairMoments:
        """The moments of no rows."""
        return cls(ClassMoments.zero(dimension), ClassMoments.zero(dimension))

    @classmethod
    def of(cls, X: Rows, y: NDArray[np.bool_], weight: Float | None = None) -> PairMoments:
        """The moments of rows ``X`` ``(n, d)``, ``y`` ``(n,)`` true where positive."""
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
        """The `parts` of the moments of all batches, each made when asked for."""
        accumulator = PairAccumulator(dimension)
        for batch in batches:
            accumulator.add(batch.X, batch.y, batch.weight)
        yield from accumulator.parts()

    def update(self, X: Rows, y: NDArray[np.bool_], weight: Float | None = None) -> PairMoments:
        """The moments with the rows ``X`` added."""
        return self.merge(PairMoments.of(X, y, weight))

    def merge(self, other: PairMoments) -> PairMoments:
        """The moments of both sets of rows."""
        return PairMoments(self.positive.merge(other.positive), self.negative.merge(other.negative))

    def subtract(self, other: PairMoments) -> PairMoments:
        """The moments of the rows that are not in ``other``; `DataError` if it is no part."""
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
        """The independent tiles of the state, each under its name."""
        tiles = (*self.positive.tiles, *self.negative.tiles)
        return zip(part_names(self.dimension), tiles, strict=True)

    @classmethod
    def of_parts(cls, parts: dict[str, MomentsTile], dimension: int) -> PairMoments:
        """The state whose `parts` are given."""
        tiles = [parts[name] for name in part_names(dimension)]
        half = len(tiles) // 2
        return cls(
            ClassMoments(dimension, tuple(tiles[:half])),
            ClassMoments(dimension, tuple(tiles[half:])),
        )

    @staticmethod
    def complements(own: list[PairMoments]) -> list[PairMoments]:
        """The moments of all rows but each part's own, by merging alone.

        What is left of a difference is rounding where nothing should be, which a merge never
        leaves. The parts before each one are merged in order, and so are those after it: fewer
        than three merges a part. This is done tile by tile, and each tile's memory is given back,
        so that little more is needed at any time than for the parts.

        Parameters
        ----------
        own
            The parts, two or more; the list is emptied.
        """
        dimension = own[0].dimension
        tiles = [dict(part.parts()) for part in own]
        own.clear()

        def complete(name: str) -> None:
            mine = [part.pop(name) for part in tiles]
            after = list(accumulate(reversed(mine[1:]), lambda b, a: a.merge(b)))
            before = mine[0]
            found = [after.pop()]
            for tile in mine[1:-1]:
                found.append(before.merge(after.pop()))
                before = before.merge(tile)
            found.append(before)
            for part, tile in zip(tiles, found, strict=True):
                part[name] = tile

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(complete, part_names(dimension)))
        return [PairMoments.of_parts(part, dimension) for part in tiles]

    @staticmethod
    def nbytes(dimension: int) -> int:
        """Bytes of a state of ``dimension`` features: two packed triangles."""
        return 2 * Tiling(dimension).nbytes

    def columns(self) -> ColumnMoments:
        """The moments of single columns."""
        return self._of_each(lambda m: m.mean, ClassMoments.spread)

    def along(self, w: Float) -> ColumnMoments:
        """The moments of one column, the scores ``X w`` of the rows."""
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
        """Exact ``Sigma = C+ + C- + delta delta'`` and ``mu = delta`` over all pairs.

        Both are exactly 0 in columns that do not vary; see `ColumnMoments.varies`.

        Parameters
        ----------
        scale : (d,), optional
            Columns are divided by it: ``Sigma / (s s')`` and ``mu / s``.

        Raises
        ------
        DataError
            One of the classes has no rows.
        """
        p, n = self.positive, self.negative
        if not (p.rows and n.rows):
            raise DataError(
                f"found {p.rows} positive and {n.rows} negative rows, expected both classes; "
                "check the label column and the positive label"
            )
        tiling = Tiling(self.dimension)
        inverse = self.columns().inverse(scale)
        # Of columns far from 0 means would be rounded; their origins are equal or close.
        mu = ((p.origin - n.origin) + (p.from_origin - n.from_origin)) * inverse
        tiles = np.empty((tiling.count, tiling.tile, tiling.tile))
        padded = np.zeros((2, tiling.blocks * tiling.tile))
        padded[:, : self.dimension] = inverse, mu
        factors, means = padded.reshape(2, tiling.blocks, tiling.tile)
        divided = bool((inverse != 1.0).any())

        def fill(k: int, i: int, j: int) -> None:
            here = np.divide(p.tiles[k].scatter(), p.weight, out=tiles[k])
            here += n.tiles[k].scatter() / n.weight
            if divided:
                here *= np.outer(factors[i], factors[j])
            here += np.outer(means[i], means[j])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(fill, range(tiling.count), *zip(*tiling.places(), strict=True)))
        Sigma = SymmetricTiles(self.dimension, tiles)
        of_classes, diagonal = np.stack([p.mean, n.mean]) * inverse, Sigma.diagonal()
        blur = np.zeros(self.dimension)
        np.divide((p.blur() + n.blur()) * inverse**2, diagonal, out=blur, where=diagonal > 0)
        # A mean is a sum of first powers: its error is about the root of that of the squares.
        of_sums = float(np.sqrt(np.finfo(float).eps * blur.max(initial=0.0)))
        return Quadratic(Sigma, mu, lost(of_classes, diagonal) + of_sums, blur)

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _SCHEMA.encode(vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> PairMoments:
        """The moments that `to_bytes` stored; `ModelFormatError` if they are none."""
        return _SCHEMA.restore(data, cls)


def _of_one_dimension(values: Values) -> str | None:
    found = [values[name].dimension for name in ("positive", "negative")]
    return None if found[0] == found[1] else f"its classes have {found} features"


_SCHEMA = Schema(
    "PairMoments",
    1,
    {"positive": Part(ClassMoments), "negative": Part(ClassMoments)},
    _of_one_dimension,
)
