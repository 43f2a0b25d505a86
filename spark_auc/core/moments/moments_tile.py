"""Moments of one class between two ranges of columns: the unit that merges and travels.

A class's moments are kept about an origin ``o`` per column: ``n = sum u``,
``m = sum u (x - o)`` and ``G = sum u (x - o)(x - o)'``. States about the same origin add;
states about different origins are first moved to their common mean, which is Chan's formula.
Columns that some row omits keep the origin 0, so that the moments of sparse rows stay sparse;
columns stored in every row take their mean, so that a large offset cancels nothing. The mean of
a constant column is its value to the bit, so that its ``m`` and its part of ``G`` are exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_auc.core.moments.tiles import Tiling
from spark_auc.core.state.rules import FROM_0_ON
from spark_auc.core.state.schema import COUNT, REAL, Field, Schema, Values, reals
from spark_auc.core.types import Float
from spark_auc.errors import DataError

# A sum of n terms of one sign is in error by n times this, relative to it, or less.
ROUNDING = 2.0 * float(np.finfo(float).eps)


def part_names(dimension: int) -> list[str]:
    """Names of the tiles of both classes: sign, tile row, tile column."""
    return [f"{sign}/{i}/{j}" for sign in "+-" for i, j in Tiling(dimension).places()]


def other_dimension(expected: int, found: int) -> DataError:
    """The error of rows with another number of features."""
    return DataError(
        f"found vectors of {found} features, expected {expected} as in the first; "
        "make every vector of the same dimension"
    )


def about_inverse(weight: float) -> float:
    """A power of two near ``1 / weight``.

    Totals times it are about as large as a mean: their products lose no light class to underflow,
    and keep their bits.
    """
    return float(np.ldexp(1.0, min(-int(np.frexp(weight)[1]), 1000)))


@dataclass(frozen=True, eq=False)
class Vectors:
    """The part of a class's moments that is no matrix: ``n``, ``o`` and ``m`` of some columns."""

    weight: float
    origin: Float
    total: Float

    @property
    def mean(self) -> Float:
        """Mean of the columns; the origin where there are no rows."""
        return self.origin + self.total / self.weight if self.weight else self.origin

    def moved(self, origin: Float) -> tuple[Vectors, Float, Float]:
        """The same about another origin, and the ``p, t`` for which G gains ``p t' + t p'``."""
        t = self.origin - origin
        return (
            Vectors(self.weight, origin, self.total + self.weight * t),
            self.total + self.weight / 2 * t,
            t,
        )

    def plus(self, other: Vectors) -> Vectors:
        """The sum with moments about the same origin."""
        return Vectors(self.weight + other.weight, self.origin, self.total + other.total)


def common_origin(a: Vectors, b: Vectors) -> Float:
    """The origin about which two sets of rows are added: 0 once either has it, else their mean.

    A column that is 0 in some row varies at least as much as that 0 makes it, so the origin 0
    costs it little precision, and sparse columns stay sparse.
    """
    weight = a.weight + b.weight
    if not weight:
        return a.origin
    mean = (a.weight * a.mean + b.weight * b.mean) / weight
    either = np.where(a.origin == b.origin, a.origin, mean)
    return np.where((a.origin == 0.0) | (b.origin == 0.0), 0.0, either)


@dataclass(frozen=True, eq=False)
class MomentsTile:
    """One tile of a class's moments: its own state, which merges without the other tiles.

    Parameters
    ----------
    rows
        Number of rows seen.
    weight
        Their total weight ``n``.
    origin, total : (2, tile)
        ``o`` and ``m`` of the tile's row features and of its column features.
    gram : (tile, tile)
        ``G`` between the two.
    rounding : (tile,)
        In a diagonal tile, what subtraction may have left in the diagonal of the scatter by
        rounding; else 0.
    """

    rows: int
    weight: float
    origin: Float
    total: Float
    gram: Float
    rounding: Float

    def _combine(self, other: MomentsTile, sign: int) -> MomentsTile:
        rows = self.rows + sign * other.rows
        if not other.rows:
            return self
        if not self.rows and sign > 0:
            return other
        if rows == 0:
            arrays = (self.origin, self.total, self.gram, self.rounding)
            return MomentsTile(0, 0.0, *map(np.zeros_like, arrays))
        a = Vectors(self.weight, self.origin, self.total)
        b = Vectors(sign * other.weight, other.origin, sign * other.total)
        left = a.weight + b.weight
        if rows < 0 or left < -ROUNDING * self.rows * a.weight:
            raise DataError(
                f"found {other.rows} rows of weight {other.weight:g} to subtract from "
                f"{self.rows} rows of weight {self.weight:g}, expected a part of them; "
                "subtract only what was merged before"
            )
        if sign < 0 and left <= ROUNDING * self.rows * a.weight:
            raise DataError(
                f"found {other.rows} rows of weight {other.weight:g} to subtract from "
                f"{self.rows} rows of weight {self.weight:g}, expected more than rounding to be "
                "left; make the moments of the rows that are left from these"
            )
        # Both are moved to the origin of the whole. The mean of what is left may be far from
        # both, and sums about it would be large.
        origin = common_origin(a, b) if sign > 0 else a.origin
        gram: Float = (np.add if sign > 0 else np.subtract)(self.gram, other.gram)
        (a, p_a, t_a), (b, p_b, t_b) = a.moved(origin), b.moved(origin)
        for p, t in ((p_a, t_a), (p_b, t_b)):
            if t.any():
                gram += np.outer(p[0], t[1]) + np.outer(t[0], p[1])
        both = a.plus(b)
        rounding = self.rounding + other.rounding
        return MomentsTile(rows, both.weight, both.origin, both.total, gram, rounding)

    def merge(self, other: MomentsTile) -> MomentsTile:
        """The tile of both sets of rows."""
        return self._combine(other, 1)

    def subtract(self, other: MomentsTile) -> MomentsTile:
        """The tile of the rows that are not in ``other``.

        Raises
        ------
        DataError
            ``other`` is not a part of this.
        """
        return self._combine(other, -1)

    def remainder(self, part: MomentsTile) -> Float:
        """What rounding may leave ``(tile,)`` of the diagonal when ``part`` is subtracted.

        It is relative to the sums of squares that are subtracted from each other, column by
        column, of this diagonal tile.

        Raises
        ------
        DataError
            ``part`` varies more than this in a column, or, with as many rows, otherwise.
        """
        t = part.origin[0] - self.origin[0]
        squares, less = self.gram.diagonal(), part.gram.diagonal()
        moved = less + 2.0 * part.total[0] * t + part.weight * t**2
        size = squares + less + part.weight * t**2
        weight = self.weight - part.weight
        # An error of the weight shifts the mean of what is left: by more, the less is left.
        lighter = self.weight / weight if self.rows > part.rows else 1.0
        lost: Float = ROUNDING * 4.0 * self.rows * lighter * size
        rounding = self.rounding + part.rounding + lost
        total = self.total[0] - (part.total[0] + part.weight * t)
        left = squares - moved
        unit = about_inverse(self.weight)
        squared = (unit * total) ** 2
        if self.rows == part.rows:
            squared /= self.weight * unit * unit
            unlike = np.maximum(np.abs(left), squared) > rounding
        else:
            squared /= weight * unit * unit
            unlike = left - squared < -rounding
        if unlike.any():
            raise DataError(
                f"found {part.rows} rows to subtract from {self.rows} that are no part of them, "
                f"as {int(unlike.sum())} columns show, expected rows that were merged before; "
                "subtract only these"
            )
        return rounding

    def scale(self, factor: float) -> MomentsTile:
        """The tile with every row's weight multiplied by ``factor`` > 0 (forgetting)."""
        return MomentsTile(
            self.rows,
            factor * self.weight,
            self.origin,
            factor * self.total,
            factor * self.gram,
            factor * self.rounding,
        )

    def scatter(self) -> Float:
        """Centred scatter ``sum u (x - c)(x - c)'`` of the tile."""
        if not self.rows:
            return self.gram
        unit = about_inverse(self.weight)
        correction: Float = np.outer(*(unit * self.total))
        correction /= self.weight * unit * unit
        np.subtract(self.gram, correction, out=correction)
        return correction

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _SCHEMA.encode(vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> MomentsTile:
        """The tile that `to_bytes` stored; `ModelFormatError` if it is none."""
        return _SCHEMA.restore(data, cls)


def _weighed(values: Values) -> str | None:
    rows, weight = values["rows"], values["weight"]
    fits = 0 < weight < np.inf if rows else weight == 0
    return None if fits else f"{rows} rows weigh {weight}"


_SCHEMA = Schema(
    "MomentsTile",
    1,
    {
        "rows": COUNT,
        "weight": REAL,
        "origin": reals(2, "tile"),
        "total": reals(2, "tile"),
        "gram": Field(("<f8",), ("tile", "tile"), repeating=True),
        "rounding": reals("tile", rule=FROM_0_ON),
    },
    _weighed,
)
