"""Numeric columns of a recipe: splines and standardised numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Float
from spark_auc.core.validation import check_above
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.raw_columns import Column, Numbers, read_only, validity_of
from spark_auc.features.recipe_columns import Named
from spark_auc.features.splines import Splines, hat
from spark_auc.features.times import doubles, iso_of

NUMERIC = ("integer", "float", "boolean")
# Numbers so many deviations from the mean are extreme.
_FAR = 5.0
# A function that fills the slots of rows: the first row, indices (slots, m), values (slots, m).
FillNumbers: TypeAlias = Callable[[int, NDArray[np.int32], Float], None]


class NumberColumn(Named):
    """A column of numbers."""

    TYPES: ClassVar[tuple[str, ...]] = NUMERIC
    SAME = NUMERIC

    def doubles(self, column: Column) -> tuple[Float, Bool]:
        """Values and validity as kernels take them; `DataError` if the column was retyped."""
        self.check(column)
        return read_only(doubles(cast(Numbers, column).values)), validity_of(column)


@dataclass(frozen=True)
class Spline(NumberColumn):
    """Hats on knots, and an indicator of missing values; see `spark_auc.features.splines.Splines`.

    Times are days since 1970-01-01.

    Parameters
    ----------
    name, type
        Name and type of the column.
    knots
        Increasing knots, in the unit of the column.
    """

    TYPES = (*NUMERIC, "time")
    slots: ClassVar[int] = 2

    knots: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            Splines.of_knots([self.knots])
        except ConfigError:
            raise ConfigError(
                f"found knots {list(self.knots)} of column {self.name!r}, expected finite, "
                "increasing knots; change the knots"
            ) from None

    def names(self) -> list[str]:
        """Names of the features, without the indicator of missing values."""
        return [f"{self.name}: knot {text}" for text in self.knot_texts()]

    def knot_texts(self) -> list[str]:
        """The knots as text: dates of times, else the shortest text of each number."""
        return [iso_of(knot) if self.type == "time" else _short(knot) for knot in self.knots]

    @property
    def bounds(self) -> tuple[float, float]:
        """The outer knots."""
        return (self.knots[0], self.knots[-1]) if self.knots else (-np.inf, np.inf)

    @cached_property
    def _knots(self) -> Float:
        return np.array(self.knots, float)

    def filler(self, column: Column, first: int, indicator: bool) -> FillNumbers:
        """A function that fills the slots with features from index ``first`` on.

        Raises
        ------
        DataError
            The column has another type than in the rows of the fit.
        """
        values, validity = self.doubles(column)

        def fill(begin: int, indices: NDArray[np.int32], out: Float) -> None:
            missing = first, indicator
            _spline_features(values, validity, begin, self._knots, *missing, indices, out)

        return fill


@dataclass(frozen=True)
class Standard(NumberColumn):
    """``(value - mean) / deviation``, and an indicator of missing values.

    Parameters
    ----------
    name, type
        Name and type of the column.
    mean, deviation
        In the unit of the column.
    """

    slots: ClassVar[int] = 1

    mean: float
    deviation: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above(f"deviation of column {self.name!r}", self.deviation, 0.0)
        if not np.isfinite(self.mean):
            raise ConfigError(
                f"found mean {self.mean} of column {self.name!r}, expected a finite number; fit "
                "the recipe again"
            )

    def names(self) -> list[str]:
        """Names of the features, without the indicator of missing values."""
        return [self.name]

    @property
    def bounds(self) -> tuple[float, float]:
        """The numbers that are 5 deviations from the mean."""
        return self.mean - _FAR * self.deviation, self.mean + _FAR * self.deviation

    def usable(self, column: Column) -> Bool:
        """Whether each value ``(n,)`` is missing, or has a finite feature."""
        values, validity = self.doubles(column)
        with np.errstate(over="ignore"):
            usable: Bool = ~np.isinf((values - self.mean) / self.deviation)
        return usable | ~validity if validity.size else usable

    def filler(self, column: Column, first: int, indicator: bool) -> FillNumbers:
        """As `Spline.filler`; the function raises `DataError` for an infinite value."""
        values, validity = self.doubles(column)
        scale = self.mean, self.deviation, first, indicator

        def fill(begin: int, indices: NDArray[np.int32], out: Float) -> None:
            fault = _standard_features(values, validity, begin, *scale, indices, out)
            if fault >= 0:
                raise DataError(
                    f"found {values[fault]} in column {self.name!r}, expected a number whose "
                    f"distance from {self.mean:g} in units of {self.deviation:g} is finite; "
                    "repair or drop the row, or use splines"
                )

        return fill


Numeric: TypeAlias = Spline | Standard


def _short(knot: float) -> str:
    """The shortest text of a number that reads back as the same number."""
    short = f"{knot:g}"
    return short if float(short) == knot else repr(float(knot))


@compiled()
def _spline_features(
    values: Float,
    validity: Bool,
    begin: int,
    knots: Float,
    first: int,
    indicator: bool,
    indices: NDArray[np.int32],
    out: Float,
) -> None:
    """Fill two slots with the hats of numbers, the first at index ``first``.

    A missing value has the feature after the last hat if ``indicator``, else none.
    """
    for row in range(indices.shape[1]):
        x = values[begin + row]
        indices[0, row] = indices[1, row] = -1
        out[0, row] = out[1, row] = 0.0
        if np.isnan(x) or (validity.size and not validity[begin + row]):
            if indicator:
                indices[0, row], out[0, row] = first + knots.size, 1.0
        elif knots.size:
            low, share = hat(x, knots, 0, knots.size - 1)
            indices[0, row], out[0, row] = first + low, 1.0 - share
            if share > 0.0:
                indices[1, row], out[1, row] = first + low + 1, share


@compiled()
def _standard_features(
    values: Float,
    validity: Bool,
    begin: int,
    mean: float,
    deviation: float,
    first: int,
    indicator: bool,
    indices: NDArray[np.int32],
    out: Float,
) -> int:
    """Fill a slot with ``(value - mean) / deviation`` of numbers, at index ``first``.

    A missing value has the feature ``first + 1`` if ``indicator``, else none. Returns a row whose
    feature is not finite, or -1.
    """
    for row in range(indices.shape[1]):
        x = values[begin + row]
        indices[0, row], out[0, row] = -1, 0.0
        if np.isnan(x) or (validity.size and not validity[begin + row]):
            if indicator:
                indices[0, row], out[0, row] = first + 1, 1.0
        else:
            indices[0, row], out[0, row] = first, (x - mean) / deviation
            if not np.isfinite(out[0, row]):
                return begin + row
    return -1
