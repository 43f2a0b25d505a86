"""Standardised numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Float
from spark_auc.core.validation import check_above
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.kinds.numeric import Constants, FillNumbers, Numeric, Onnx, Sql
from spark_auc.features.raw_columns import Column

# Numbers so many deviations from the mean are extreme.
_FAR = 5.0


@dataclass(frozen=True)
class Standard(Numeric):
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

    @classmethod
    def fitted(cls, name: str, type: str, summary: ColumnSummary, knots: int) -> Self:
        """See `Numeric.fitted`."""
        mean, deviation = summary.scale()
        if summary.infinite or not (np.isfinite(mean) and np.isfinite(deviation)):
            raise DataError(
                f"found {summary.infinite} infinite values in column {name!r}, mean {mean:g} and "
                f"deviation {deviation:g} of the others, expected finite numbers; repair the "
                "values, or use splines"
            )
        return cls(name, type, mean, deviation)

    def names(self) -> list[str]:
        """See `Numeric.names`."""
        return [self.name]

    @property
    def bounds(self) -> tuple[float, float]:
        """The numbers that are 5 deviations from the mean."""
        return self.mean - _FAR * self.deviation, self.mean + _FAR * self.deviation

    def usable(self, column: Column) -> Bool:
        """See `Numeric.usable`."""
        values, validity = self.doubles(column)
        with np.errstate(over="ignore"):
            usable: Bool = ~np.isinf((values - self.mean) / self.deviation)
        return usable | ~validity if validity.size else usable

    def filler(self, column: Column, first: int, indicator: bool) -> FillNumbers:
        """See `Numeric.filler`; the function raises `DataError` for an infinite value."""
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

    @property
    def constants(self) -> Constants:
        """See `Numeric.constants`."""
        return Constants(None, self.mean, self.deviation)

    def curve(self, w: Float) -> tuple[tuple[float, ...], Float]:
        """See `Numeric.curve`: a line from one deviation below the mean to one above it."""
        ends = self.mean - self.deviation, self.mean + self.deviation
        return ends, np.array([-w[0], w[0]])

    def sql(self, x: str, w: Float, sql: Sql) -> tuple[str, str]:
        """See `Numeric.sql`."""
        scaled = f"(({x} - {sql.number(self.mean)}) / {sql.number(self.deviation)})"
        return f"{sql.number(w[0])} * {scaled}", f"POWER({scaled}, 2E0)"

    def onnx(self, x: str, graph: Onnx) -> str:
        """See `Numeric.onnx`."""
        scaled = graph.add("Sub", x, graph.constant(self.mean))
        scaled = graph.add("Div", scaled, graph.constant(self.deviation))
        return graph.add("Where", graph.add("IsNaN", x), graph.constant(0.0), scaled)


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
