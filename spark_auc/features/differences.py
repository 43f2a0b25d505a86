"""Differences of two columns of times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from spark_auc.features.derived import MOST_TIMES, Derived, Time
from spark_auc.features.kinds.numeric import Onnx
from spark_auc.features.raw_columns import Columns, Numbers
from spark_auc.features.single_values import is_missing, microseconds
from spark_auc.features.times import MICROSECONDS_OF_DAY


@dataclass(frozen=True)
class Difference(Derived):
    """The days from one time of a row to another; missing if one of them is.

    Parameters
    ----------
    later, earlier
        Names of the two columns. The days are negative where ``later`` is before ``earlier``.
    """

    KIND = "difference"
    NOTE = "days from one time to another"

    later: str
    earlier: str

    @property
    def name(self) -> str:
        """See `Derived.name`."""
        return f"{self.later} - {self.earlier}"

    @property
    def inputs(self) -> tuple[Time, Time]:
        """See `Derived.inputs`."""
        return Time(self.later, "time"), Time(self.earlier, "time")

    def of(self, columns: Columns) -> Numbers:
        """See `Derived.of`."""
        later, earlier = self._times(columns)
        days = (later.values - earlier.values).astype(np.int64) / MICROSECONDS_OF_DAY
        valid = ~(np.isnat(later.values) | np.isnat(earlier.values))
        for column in (later, earlier):
            if column.validity is not None:
                valid &= column.validity
        return Numbers(np.where(valid, days, np.nan))

    def of_row(self, row: Mapping[str, Any], zone: str) -> float:
        """See `Derived.of_row`."""
        values = [(name, row[name]) for name in (self.later, self.earlier)]
        if any(is_missing(value) for _, value in values):
            return np.nan
        later, earlier = (microseconds(name, value, zone) for name, value in values)
        # As of arrays: larger integers lose their last bits first.
        return float(later - earlier) / MICROSECONDS_OF_DAY

    def onnx(self, graph: Onnx, *days: str) -> str:
        """See `Derived.onnx`."""
        return graph.add("Sub", *days)


def differences_of(times: Sequence[str], taken: Collection[str]) -> tuple[Difference, ...]:
    """The differences of all pairs of columns of times, or of none where there are many.

    Parameters
    ----------
    times
        Names of the columns of times.
    taken
        Names that a difference cannot have.
    """
    if len(times) > MOST_TIMES:
        return ()
    every = [Difference(later, earlier) for earlier, later in combinations(times, 2)]
    made = {each.name: each for each in reversed(every)}
    return tuple(each for each in every if made[each.name] is each and each.name not in taken)
