"""What a fit knows of a numeric column: its distribution, mean and deviation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.state.schema import COUNT, Part, Schema
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float
from spark_auc.features.knots import knots_of
from spark_auc.features.value_counts import ValueCounts

# Means and deviations are rounded to so many bits of the deviation, so that the order in which
# sums were added seldom matters.
_PRECISION = 20


@dataclass(frozen=True, eq=False)
class ColumnSummary(SchemaState):
    """What a fit knows of a numeric column.

    Parameters
    ----------
    missing, lowest, highest
        Numbers of rows with a missing value, with ``-inf`` and with ``inf``.
    moments
        Moments of the finite values, as the one column of negative rows.
    counts
        Distribution of the finite values.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "ColumnSummary",
        1,
        {
            "missing": COUNT,
            "lowest": COUNT,
            "highest": COUNT,
            "moments": Part(ColumnMoments),
            "counts": Part(ValueCounts),
        },
        lambda v: None if v["moments"].mean.shape[1] == 1 else "its moments are not of one column",
    )

    missing: int
    lowest: int
    highest: int
    moments: ColumnMoments
    counts: ValueCounts

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.missing + self.infinite + self.counts.rows

    @property
    def infinite(self) -> int:
        """Number of rows with an infinite value."""
        return self.lowest + self.highest

    @classmethod
    def zero(cls) -> ColumnSummary:
        """The summary of no rows."""
        return cls(0, 0, 0, ColumnMoments.zero(1), ValueCounts.zero())

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of(cls, values: Float) -> ColumnSummary:
        """The summary of values ``(n,)``; NaN is a missing value, and moments may overflow."""
        finite = values[np.isfinite(values)]
        missing = int(np.isnan(values).sum())
        moments = ColumnMoments.of(Batch(finite[:, None], np.zeros(finite.size, np.bool_)))
        highest = int(np.isposinf(values).sum())
        lowest = values.size - missing - finite.size - highest
        return cls(missing, lowest, highest, moments, ValueCounts.of(finite))

    @np.errstate(over="ignore", invalid="ignore")
    def merge(self, other: ColumnSummary) -> ColumnSummary:
        """The summary of both sets of rows."""
        return ColumnSummary(
            self.missing + other.missing,
            self.lowest + other.lowest,
            self.highest + other.highest,
            self.moments.merge(other.moments),
            self.counts.merge(other.counts),
        )

    def knots(self, count: int) -> tuple[float, ...]:
        """At most ``count`` knots, increasing; see `knots_of`."""
        return tuple(knots_of(*self.counts.weighted(), count).tolist())

    def scale(self) -> tuple[float, float]:
        """Mean and standard deviation of the finite values; the deviation is 1 for a constant."""
        if self.counts.values.size <= 1:
            return float(self.counts.values.sum()), 1.0
        mean = float(self.moments.mean[1, 0])
        deviation = float(self.moments.standard_deviation()[0])
        if not (np.isfinite(mean) and 0.0 < deviation < np.inf):
            return mean, deviation
        places = _PRECISION - int(np.frexp(deviation)[1])
        return _rounded(mean, places), _rounded(deviation, places)


def _rounded(value: float, places: int) -> float:
    """The value rounded to a multiple of ``2^-places``."""
    scaled = float(np.ldexp(value, places))
    return float(np.ldexp(np.rint(scaled), -places)) if abs(scaled) < 2.0**52 else value
