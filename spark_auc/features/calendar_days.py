"""Days of the year and of the month of a column of times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.types import Float
from spark_auc.errors import ConfigError
from spark_auc.features.derived import MOST_TIMES, Derived, Time
from spark_auc.features.kinds.numeric import Onnx
from spark_auc.features.raw_columns import Columns, Numbers
from spark_auc.features.single_values import is_missing, microseconds

# Days that the times of rows span from which on a period repeats often enough to be told from time.
_LEAST = {"year": 730.0, "month": 90.0}
# Days from 0000-03-01 to 1970-01-01. In years from March on, leap days are the last ones.
_MARCH_0 = 719_468.0
# Days of 400, 100 and 4 years; of 5 months from March or August on.
_DAYS_400, _DAYS_100, _DAYS_4, _DAYS_5_MONTHS = 146_097.0, 36_524.0, 1_460.0, 153.0
# Days of a year before March.
_TO_MARCH = 59.0


@dataclass(frozen=True)
class CalendarDay(Derived):
    """The day of the year or of the month of a time, from 1 on; missing if the time is.

    29 February counts as 1 March, so that a day of the year is one season in all years.

    Parameters
    ----------
    time
        Name of the column of times.
    period
        "year" or "month".

    Raises
    ------
    ConfigError
        The period is another one.
    """

    KIND = "calendarDay"
    NOTE = "the day of a year or month"

    time: str
    period: str

    def __post_init__(self) -> None:
        if self.period not in _LEAST:
            raise ConfigError(
                f"found the day of {self.period!r} of column {self.time!r}, expected that of "
                f"{' or '.join(_LEAST)}; change it"
            )

    @property
    def name(self) -> str:
        """See `Derived.name`."""
        return f"{self.time}: day of {self.period}"

    @property
    def inputs(self) -> tuple[Time]:
        """See `Derived.inputs`."""
        return (Time(self.time, "time"),)

    def is_told_by(self, days: Mapping[str, Float]) -> bool:
        """See `Derived.is_told_by`: times of two years, or of three months."""
        own = days[self.time]
        return own.size > 0 and bool(own.max() - own.min() >= _LEAST[self.period])

    def of(self, columns: Columns) -> Numbers:
        """See `Derived.of`."""
        (column,) = self._times(columns)
        days = self._days(column.values)
        return Numbers(days if column.validity is None else np.where(column.validity, days, np.nan))

    def of_row(self, row: Mapping[str, Any], zone: str) -> float:
        """See `Derived.of_row`."""
        if is_missing(row[self.time]):
            return np.nan
        time = np.array([microseconds(self.time, row[self.time], zone)]).view("datetime64[us]")
        return float(self._days(time)[0])

    def _days(self, times: NDArray[Any]) -> Float:
        dates = times.astype("datetime64[D]")
        months, years = (dates.astype(f"datetime64[{unit}]") for unit in "MY")
        if self.period == "month":
            days = (dates - months).astype(float)
        else:
            days = (dates - years).astype(float)
            # 1 March is the 60th day of a leap year.
            is_leap = (years + 1).astype("datetime64[D]") - years.astype("datetime64[D]") > 365
            days -= is_leap & (days >= _TO_MARCH + 1)
        return np.where(np.isnat(times), np.nan, days + 1.0)

    def onnx(self, graph: Onnx, *days: str) -> str:
        """See `Derived.onnx`, by the arithmetic of Howard Hinnant's `civil_from_days`."""

        def number(value: float) -> str:
            return graph.constant([[value]])

        def part(x: str, divisor: float) -> str:
            return graph.add("Floor", graph.add("Div", x, number(divisor)))

        def times(x: str, factor: float) -> str:
            return graph.add("Mul", x, number(factor))

        (x,) = days
        since = graph.add("Add", graph.add("Floor", x), number(_MARCH_0))
        of_400 = graph.add("Sub", since, times(part(since, _DAYS_400), _DAYS_400))
        leaps = graph.add("Sub", part(of_400, _DAYS_100), part(of_400, _DAYS_400 - 1.0))
        plain = graph.add("Sub", graph.add("Add", of_400, leaps), part(of_400, _DAYS_4))
        year = part(plain, 365.0)
        before = graph.add("Sub", part(year, 4.0), part(year, 100.0))
        before = graph.add("Add", before, times(year, 365.0))
        day = graph.add("Sub", of_400, before)
        if self.period == "year":
            day = graph.add("Add", day, number(_TO_MARCH))
            day = graph.add("Sub", day, times(part(day, 365.0), 365.0))
        else:
            month = part(graph.add("Add", times(day, 5.0), number(2.0)), _DAYS_5_MONTHS)
            first = part(graph.add("Add", times(month, _DAYS_5_MONTHS), number(2.0)), 5.0)
            day = graph.add("Sub", day, first)
        return graph.add("Add", day, number(1.0))


def calendar_days_of(times: Sequence[str], taken: Collection[str]) -> tuple[CalendarDay, ...]:
    """The days of year and month of columns of times, or none where there are many columns.

    Parameters
    ----------
    times
        Names of the columns of times.
    taken
        Names that a column of days cannot have.
    """
    if len(times) > MOST_TIMES:
        return ()
    made = (CalendarDay(time, period) for time in times for period in _LEAST)
    return tuple(day for day in made if day.name not in taken)
