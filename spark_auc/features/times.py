"""Columns of times: their days, hours and weekdays, on the clocks of the recipe's zone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_auc.core.types import Float

# Microseconds of an hour and a day.
MICROSECONDS_OF_HOUR = 3_600_000_000
MICROSECONDS_OF_DAY = 24 * MICROSECONDS_OF_HOUR
# 1970-01-01 was a Thursday, the fourth day of a week.
THURSDAY = 3


def doubles(values: NDArray[Any]) -> Float:
    """Numbers as doubles, and times as days since 1970-01-01; NaT becomes NaN."""
    if values.dtype.kind != "M":
        return np.asarray(values, float)
    return np.where(np.isnat(values), np.nan, _microseconds(values) / MICROSECONDS_OF_DAY)


def hours(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Hours of times, from 0; NaT becomes 24."""
    return _codes(values, _microseconds(values) // MICROSECONDS_OF_HOUR % 24, 24)


def weekdays(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Weekdays of times, 0 for Monday; NaT becomes 7."""
    return _codes(values, (_microseconds(values) // MICROSECONDS_OF_DAY + THURSDAY) % 7, 7)


def datetimes(days: ArrayLike) -> NDArray[np.datetime64]:
    """Times ``(n,)`` of days since 1970-01-01, to the microsecond; NaT beyond the years 1-9999."""
    values = np.asarray(days, float)
    inside = (values >= -719_162) & (values < 2_932_897)
    whole = np.rint(np.where(inside, values, 0.0) * MICROSECONDS_OF_DAY).astype(np.int64)
    return np.where(inside, whole.view("M8[us]"), np.datetime64("NaT"))


def iso_of(day: float) -> str:
    """The text of a time in days since 1970-01-01.

    A date, or a date and time to the second or microsecond. Days that are no whole number of
    microseconds of the years 1 to 9999 are texts such as ``day 1.5e10``.
    """
    microseconds = round(day * MICROSECONDS_OF_DAY) if abs(day) < 3e6 else 0
    time = str(np.datetime64(microseconds, "us"))
    if len(time) != len("1970-01-01T00:00:00.000000") or microseconds / MICROSECONDS_OF_DAY != day:
        return f"day {day!r}"
    return time.removesuffix(".000000").removesuffix("T00:00:00")


def _microseconds(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.ascontiguousarray(values).view(np.int64)


def _codes(values: NDArray[Any], codes: NDArray[Any], missing: int) -> NDArray[np.uint8]:
    return np.where(np.isnat(values), missing, codes).astype(np.uint8)
