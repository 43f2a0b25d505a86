"""The values of a single row as the kernels of columns take them: numbers, words and integers.

A value means the same in whichever class it comes: an integer of Python or NumPy, or a whole float
that pandas made of an integer; a time with a zone, or without one on the clocks of the recipe's.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from spark_auc.errors import DataError
from spark_auc.features.raw_columns import Column, Numbers, Text
from spark_auc.features.time_zones import on_clocks
from spark_auc.features.times import MICROSECONDS_OF_DAY

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAN = float("nan")
_PANDAS_MISSING = ("NaTType", "NAType")


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA, which do not equal themselves."""
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return value is None or type(value).__name__ in _PANDAS_MISSING


def number(name: str, value: Any) -> float:
    """A number or a boolean as a double, NaN if it is missing; `DataError` for others."""
    if type(value) is float:
        return value
    if is_missing(value):
        return _NAN
    if not isinstance(value, str | bytes | datetime | date | np.datetime64):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise other(name, value, "a number or a boolean")


def whole_number(name: str, value: Any) -> float:
    """A number as `number` has it, NaN if it is infinite."""
    found = number(name, value)
    return _NAN if math.isinf(found) else found


def days(name: str, value: Any, zone: str) -> float:
    """A time as days since 1970-01-01, NaN if it is missing; `DataError` for others."""
    if is_missing(value):
        return _NAN
    return float(microseconds(name, value, zone)) / float(MICROSECONDS_OF_DAY)


def microseconds(name: str, value: Any, zone: str) -> int:
    """Microseconds since 1970 on the clocks of a zone; a date is its midnight."""
    if isinstance(value, np.datetime64):
        return int(value.astype("datetime64[us]").astype(np.int64))
    if isinstance(value, datetime):
        known = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        gap = known - _EPOCH
        since = (gap.days * 86_400 + gap.seconds) * 1_000_000 + gap.microseconds
        if value.tzinfo is None:
            return since
        return int(on_clocks(np.array([since]).view("datetime64[us]"), zone).astype(np.int64)[0])
    if isinstance(value, date):
        return (value.toordinal() - _EPOCH.toordinal()) * MICROSECONDS_OF_DAY
    raise other(name, value, "a date or a time")


def whole(name: str, kind: str, value: Any) -> int:
    """An integer; pandas makes floats of integers among which some are missing.

    Parameters
    ----------
    name, kind
        Name and type of its column.
    value
        The value; `DataError` for others.
    """
    if isinstance(value, float | np.floating) and kind == "integer":
        known, limit = value % 1 == 0, 2**53
    else:
        known, limit = isinstance(value, int | np.integer) and not isinstance(value, bool), 2**63
    if known and -limit <= value < limit:
        return int(value)
    raise other(name, value, "text or an integer of 64 bits")


def other(name: str, value: Any, expected: str) -> DataError:
    """The error for a value of another class than expected."""
    return DataError(
        f"found {str(value)[:100]!r} of class {type(value).__name__} in column {name!r}, expected "
        f"{expected} as in the rows of the fit; convert it"
    )


def column_of(name: str, kind: str, value: Any, zone: str) -> Column:
    """A column of one row, of a type of the recipe."""
    if kind == "text":
        known = not is_missing(value)
        if known and not isinstance(value, str):
            raise other(name, value, "text")
        data = np.frombuffer(value.encode() if known else b"", np.uint8)
        ends = np.array([data.size], np.int64)
        return Text(np.zeros(1, np.int64), ends, data, np.array([known]))
    if kind == "time":
        missing = is_missing(value)
        since = 0 if missing else microseconds(name, value, zone)
        return Numbers(np.array([since]).view("datetime64[us]"), np.array([not missing]))
    return Numbers(np.array([number(name, value)]))
