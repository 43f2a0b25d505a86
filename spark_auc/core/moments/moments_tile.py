"""Moments of one class between two ranges of columns: the unit of merging and of storage.

A class's moments are taken about an origin ``o`` per column: ``n = sum u``,
``m = sum u (x - o)`` and ``G = sum u (x - o)(x - o)'``. Moments about the same origin are added;
moments about different origins are first moved to a common one (Chan, Golub and LeVeque 1983).
The origin of a column that some row does not store is 0, so that moments of sparse rows stay
sparse. The origin of a column that every row stores is its mean, so that a large offset causes no
cancellation. The mean of a constant column is its exact value, so that its ``m`` and its part of
``G`` are exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from spark_auc.core.moments.column_sums import UNIT, rounded
from spark_auc.core.moments.tiles import Tiling
from spark_auc.core.state.rules import FROM_0_ON
from spark_auc.core.state.schema import COUNT, REAL, Field, Schema, Values, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float
from spark_auc.errors import DataError

# Bound on the relative error of a sum of n terms of one sign, divided by n.
ROUNDING = 4.0 * UNIT
# Rounded operations of a merge or a subtraction.
_OPERATIONS = 16


def part_names(dimension: int) -> list[str]:
    """Names of the tiles of both classes: sign, tile row, tile column."""
    return [f"{sign}/{i}/{j}" for sign in "+-" for i, j in Tiling(dimension).places()]


def other_dimension(expected: int, found: int) -> DataError:
    """The error for rows with another number of features than the first rows."""
    return DataError(
        f"found vectors of {found} features, expected {expected} as in the first; "
        "give every vector the same dimension"
    )


def check_both_classes(positive: float, negative: float) -> None:
    """`DataError` if a class has no rows."""
    if not (positive and negative):
        raise DataError(
            f"found {positive:.0f} positive and {negative:.0f} negative rows, expected both "
            "classes; check the label column and the positive label"
        )


def about_inverse(weight: float) -> float:
    """A power of two near ``1 / weight``.

    Totals times this factor are of the size of a mean, so that their products do not underflow for
    a class of small weight. A power of two changes no bits of the significand.
    """
    return float(np.ldexp(1.0, min(-int(np.frexp(weight)[1]), 1000)))


@dataclass(frozen=True, eq=False)
class Vectors:
    """Weight ``n``, origin ``o`` ``(d,)`` and total ``m`` ``(d,)`` of the moments of a class."""

    weight: float
    origin: Float
    total: Float

    @property
    def mean(self) -> Float:
        """Mean ``(d,)`` of the columns; the origin if there are no rows."""
        return self.origin + self.total / self.weight if self.weight else self.origin

    def moved(self, origin: Float) -> tuple[Vectors, Float, Float]:
        """The moments about another origin, and ``p, t``: ``G`` changes by ``p t' + t p'``."""
        t = self.origin - origin
        return (
            Vectors(self.weight, origin, self.total + self.weight * t),
            self.total + self.weight / 2 * t,
            t,
        )

    def plus(self, other: Vectors) -> Vectors:
        """The sum of moments about the same origin."""
        return Vectors(self.weight + other.weight, self.origin, self.total + other.total)


def common_origin(a: Vectors, b: Vectors) -> Float:
    """The origin ``(d,)`` for the merge of two sets of rows.

    It is 0 if either origin is 0, the origin if both are equal, and otherwise the common mean. A
    column with a 0 in some row has a variance of at least the size that this 0 contributes, so that
    the origin 0 costs little precision.
    """
    weight = a.weight + b.weight
    if not weight:
        return a.origin
    mean = (a.weight * a.mean + b.weight * b.mean) / weight
    either = np.where(a.origin == b.origin, a.origin, mean)
    return np.where((a.origin == 0.0) | (b.origin == 0.0), 0.0, either)


def _weighed(values: Values) -> str | None:
    rows, weight = values["rows"], values["weight"]
    fits = 0 < weight < np.inf if rows else weight == 0
    return None if fits else f"{rows} rows weigh {weight}"


def _with_rounding(values: dict[str, Any]) -> dict[str, Any]:
    """Tiles of version 1 were sums of rows one by one, without a bound on their error."""
    sums = ROUNDING * values["rows"] * np.abs(values["gram"].diagonal())
    return values | {"rounding": values["rounding"] + sums}


@dataclass(frozen=True, eq=False)
class MomentsTile(SchemaState):
    """One tile of a class's moments: a state that merges independently of the other tiles.

    Parameters
    ----------
    rows
        Number of rows.
    weight
        Total weight ``n`` of the rows.
    origin, total : (2, tile)
        ``o`` and ``m`` of the tile's row features and of its column features.
    gram : (tile, tile)
        ``G`` between the row features and the column features.
    rounding : (tile,)
        In a diagonal tile, a bound ``r`` on the rounding error of the diagonal of ``G`` and of the
        scatter. The error of ``G_ij`` is at most ``sqrt(r_i r_j)``.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "MomentsTile",
        2,
        {
            "rows": COUNT,
            "weight": REAL,
            "origin": reals(2, "tile"),
            "total": reals(2, "tile"),
            "gram": Field(("<f8",), ("tile", "tile"), repeating=True),
            "rounding": reals("tile", rule=FROM_0_ON),
        },
        _weighed,
        earlier={1: _with_rounding},
    )

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
        weight = a.weight + b.weight
        if rows < 0 or weight < -ROUNDING * self.rows * a.weight:
            raise DataError(
                f"found {other.rows} rows of weight {other.weight:g} to subtract from "
                f"{self.rows} rows of weight {self.weight:g}, expected a part of them; "
                "subtract only rows that were merged before"
            )
        if sign < 0 and weight <= ROUNDING * self.rows * a.weight:
            raise DataError(
                f"found {other.rows} rows of weight {other.weight:g} to subtract from "
                f"{self.rows} rows of weight {self.weight:g}, expected the remaining rows to weigh "
                "more than the rounding error; compute their moments from these rows"
            )
        # A subtraction uses the origin of the minuend: the mean of the difference may be far from
        # both origins, and sums about it would be large.
        origin = common_origin(a, b) if sign > 0 else a.origin
        gram: Float = (np.add if sign > 0 else np.subtract)(self.gram, other.gram)
        (a, p_a, t_a), (b, p_b, t_b) = a.moved(origin), b.moved(origin)
        for p, t in ((p_a, t_a), (p_b, t_b)):
            if t.any():
                gram += np.outer(p[0], t[1]) + np.outer(t[0], p[1])
        both = a.plus(b)
        rounding = self.rounding + other.rounding
        if sign > 0:
            rounding = rounding + rounded(_OPERATIONS, np.abs(gram.diagonal()))
        return MomentsTile(rows, both.weight, both.origin, both.total, gram, rounding)

    def merge(self, other: MomentsTile) -> MomentsTile:
        """The tile of both sets of rows."""
        return self._combine(other, 1)

    def subtract(self, other: MomentsTile) -> MomentsTile:
        """The tile of the rows that are not in ``other``.

        Raises
        ------
        DataError
            ``other`` is not a part of these rows, or the remaining weight is at most a rounding
            error.
        """
        return self._combine(other, -1)

    def remainder(self, part: MomentsTile) -> Float:
        """Bound ``(tile,)`` on the rounding error of the diagonal when ``part`` is subtracted.

        The bound is relative to the sums of squares of the minuend and the subtrahend, column by
        column. Only diagonal tiles have one.

        Raises
        ------
        DataError
            ``part`` has more scatter than this tile in some column, or, if both have the same
            number of rows, a different scatter.
        """
        t = part.origin[0] - self.origin[0]
        squares, part_squares = self.gram.diagonal(), part.gram.diagonal()
        moved = part_squares + 2.0 * part.total[0] * t + part.weight * t**2
        size = squares + part_squares + part.weight * t**2
        weight = self.weight - part.weight
        # An error of the weight shifts the mean of the remaining rows in inverse proportion to
        # their weight.
        magnification = self.weight / weight if self.rows > part.rows else 1.0
        error = self.rounding + part.rounding + UNIT * _OPERATIONS * size
        rounding: Float = 2.0 * magnification * error
        total = self.total[0] - (part.total[0] + part.weight * t)
        difference = squares - moved
        unit = about_inverse(self.weight)
        squared = (unit * total) ** 2
        if self.rows == part.rows:
            squared /= self.weight * unit * unit
            contradictory = np.maximum(np.abs(difference), squared) > rounding
        else:
            squared /= weight * unit * unit
            contradictory = difference - squared < -rounding
        if contradictory.any():
            raise DataError(
                f"found {part.rows} rows to subtract that are no part of the {self.rows} rows, by "
                f"the scatter of {int(contradictory.sum())} columns, expected a part of them; "
                "subtract only rows that were merged before"
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
        """Scatter ``sum u (x - c)(x - c)'`` ``(tile, tile)`` about the mean ``c``."""
        if not self.rows:
            return self.gram
        unit = about_inverse(self.weight)
        correction: Float = np.outer(*(unit * self.total))
        correction /= self.weight * unit * unit
        np.subtract(self.gram, correction, out=correction)
        return correction
