"""Arrow arrays of all types and forms as raw columns, against Python's values."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from spark_auc.errors import DataError
from spark_auc.features.raw_columns import Text, type_of
from spark_auc.tables.arrow_columns import raw_column

WORDS = ["", "a", None, "köln", "a longer text than a view holds", "a"]
MOMENTS = [datetime.datetime(1900, 1, 1, 5), None, datetime.datetime(1969, 12, 31, 23, 59, 59, 9)]


def values(array: pa.Array) -> list[object]:
    """The values of a column; None where they are missing."""
    column = raw_column("c", array)
    if isinstance(column, Text):
        places = zip(column.starts.tolist(), column.ends.tolist(), strict=True)
        found = [bytes(column.data[begin:end]).decode() for begin, end in places]
    else:
        found = column.values.tolist()
    if column.validity is None:
        return found
    return [v if valid else None for v, valid in zip(found, column.validity, strict=True)]


def dictionary(words: list[object], kind: pa.DataType) -> pa.DictionaryArray:
    """Values by numbers, of which some are missing, and some are those of a missing value."""
    numbers = pa.array([None if k == 0 else k for k in range(len(words))], pa.int8())
    return pa.DictionaryArray.from_arrays(numbers, pa.array(words, kind))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_text(kind: pa.DataType) -> None:
    for k in range(len(WORDS) + 1):
        assert values(pa.array(WORDS, kind).slice(k)) == WORDS[k:]
        assert values(dictionary(WORDS, kind).slice(k)) == [None, *WORDS[1:]][k:]
    assert values(pa.nulls(3)) == values(pa.nulls(3, kind)) == [None] * 3
    assert values(pa.array([], kind)) == []


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint64(), pa.float32()])
def test_numbers(kind: pa.DataType) -> None:
    numbers = [1, None, 100, 0, None, 127]
    for k in range(len(numbers) + 1):
        assert values(pa.array(numbers, kind).slice(k)) == numbers[k:]
        assert values(dictionary(numbers, kind).slice(k)) == [None, *numbers[1:]][k:]
    flags = [True, None, False, True, None] * 4
    for k in range(len(flags)):
        assert values(pa.array(flags).slice(k)) == flags[k:]
        assert values(dictionary(flags, pa.bool_()).slice(k, 3)) == [None, *flags[1:]][k : k + 3]


def test_decimals_are_the_nearest_doubles() -> None:
    """Arrow's own cast of decimals misses some of them by a bit."""
    rng = np.random.default_rng(0)
    whole = rng.integers(-(10**16), 10**16, 2_000).tolist()
    for scale in (0, 2, 7, 16):
        decimals = [None, *(Decimal(v).scaleb(-scale) for v in whole)]
        found = values(pa.array(decimals, pa.decimal128(38, scale)))
        assert found == [None, *map(float, decimals[1:])]


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kathmandu"])
def test_times(zone: str | None) -> None:
    given = [m and (m.replace(tzinfo=datetime.UTC) if zone else m) for m in MOMENTS]
    assert values(pa.array(given, pa.timestamp("us", zone))) == MOMENTS
    whole = [m and m.replace(microsecond=0) for m in MOMENTS]
    assert values(pa.array(given, pa.timestamp("s", zone), safe=False)) == whole
    # Times before 1970 are rounded down too.
    nano = pa.array([-1, -1_001, None, 1_999]).cast(pa.timestamp("ns", zone))
    epoch, step = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
    assert values(nano) == [epoch - step, epoch - 2 * step, None, epoch + step]
    days = [m and m.date() for m in MOMENTS]
    midnights = [m and m.replace(hour=0, minute=0, second=0, microsecond=0) for m in MOMENTS]
    for kind in (pa.date32(), pa.date64()):
        assert values(pa.array(days, kind)) == midnights


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s")])
def test_times_that_are_too_late(kind: pa.DataType) -> None:
    late = pa.array([2**31 - 1 if kind == pa.date32() else 2**60]).cast(pa.int32(), safe=False)
    late = late if kind == pa.date32() else pa.array([2**60])
    with pytest.raises(DataError, match=r"column 'c' that 64 bits of microseconds cannot hold"):
        raw_column("c", late.cast(kind))


@pytest.mark.parametrize("kind", [pa.binary(), pa.duration("us"), pa.list_(pa.int8())])
def test_other_types_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(DataError, match=r"found column 'c' of type .*, expected text, numbers"):
        raw_column("c", pa.nulls(2, kind))


def test_types_of_recipes() -> None:
    found = {
        kind: type_of("c", raw_column("c", pa.nulls(1, kind)))
        for kind in (pa.uint8(), pa.bool_(), pa.decimal128(9, 2), pa.float32(), pa.date32())
    }
    assert list(found.values()) == ["integer", "boolean", "float", "float", "time"]
