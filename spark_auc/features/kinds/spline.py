"""Splines: hats of numbers and times on knots."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Float
from spark_auc.errors import ConfigError
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.kinds.numeric import NUMERIC, Constants, FillNumbers, Numeric, Onnx, Sql
from spark_auc.features.raw_columns import Column
from spark_auc.features.splines import Splines, hat
from spark_auc.features.times import iso_of


@dataclass(frozen=True)
class Spline(Numeric):
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

    @classmethod
    def fitted(cls, name: str, type: str, summary: ColumnSummary, knots: int) -> Self:
        """See `Numeric.fitted`."""
        return cls(name, type, summary.knots(knots))

    @property
    def heights(self) -> int:
        """See `Numeric.heights`."""
        return len(self.knots)

    def names(self) -> list[str]:
        """See `Numeric.names`."""
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
        """See `Numeric.filler`."""
        values, validity = self.doubles(column)

        def fill(begin: int, indices: NDArray[np.int32], out: Float) -> None:
            missing = first, indicator
            _spline_features(values, validity, begin, self._knots, *missing, indices, out)

        return fill

    @property
    def constants(self) -> Constants:
        """See `Numeric.constants`."""
        return Constants(self.knots)

    def curve(self, w: Float) -> tuple[tuple[float, ...], Float] | None:
        """See `Numeric.curve`."""
        return (self.knots, w) if self.knots else None

    def sql(self, x: str, w: Float, sql: Sql) -> tuple[str, str]:
        """See `Numeric.sql`."""
        if not self.knots:
            return sql.number(0.0), sql.number(0.0)
        return sql.curve(x, self.knots, w.tolist()), sql.squared_hats(x, self.knots)

    def onnx(self, x: str, graph: Onnx) -> str | None:
        """See `Numeric.onnx`."""
        return graph.hats(x, self._knots) if self.knots else None


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
            low, share = hat(x, knots, np.int64(0), knots.size - 1)
            indices[0, row], out[0, row] = first + low, 1.0 - share
            if share > 0.0:
                indices[1, row], out[1, row] = first + low + 1, share
