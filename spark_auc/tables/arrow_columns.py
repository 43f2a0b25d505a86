"""Arrow arrays of raw columns as the arrays of recipes: text, numbers and booleans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.core.types import Bool
from spark_auc.errors import DataError
from spark_auc.features.absent_text import present_text
from spark_auc.features.raw_columns import Column, Numbers, Text
from spark_auc.features.time_zones import DEFAULT, on_clocks
from spark_auc.tables.types import is_text, is_time


def raw_column(
    name: str, array: pa.Array, zone: str = DEFAULT, absent: Sequence[str] = ()
) -> Column:
    """The values of an Arrow array of a primitive type, text or dictionary.

    Numbers without missing values, and the bytes of text, are not copied. Times are those on the
    clocks of a zone; a date is its midnight.

    Parameters
    ----------
    name, array
        The column.
    zone, absent
        The zone, and words for missing text; see `spark_auc.features.recipe.Recipe`.

    Raises
    ------
    DataError
        The array has another type.
    """
    array = flat(array)
    kind = array.type
    if is_text(kind):
        return present_text(_text(array), absent)
    if pa.types.is_null(kind):
        return raw_column(name, array.cast(pa.string()), zone, absent)
    if is_time(kind):
        times = times_of(name, array)
        zoned = pa.types.is_timestamp(kind) and kind.tz is not None
        return Numbers(on_clocks(times, zone) if zoned else times, _validity(array))
    if pa.types.is_decimal(kind):
        array = doubles_of_decimals(array)
        kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return Numbers(_values(array), _validity(array))
    raise DataError(
        f"found column {name!r} of type {kind}, expected text, numbers, booleans or times; convert "
        "the column or leave it out"
    )


def doubles_of_decimals(array: pa.Array) -> pa.Array:
    """Decimals as the nearest doubles, which Arrow's direct cast misses by a bit."""
    return array.cast(pa.string()).cast(pa.float64())


def flat(array: pa.Array) -> pa.Array:
    """Text of dictionaries and of views as plain text; others as they are."""
    kind = array.type
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    if not pa.types.is_dictionary(kind):
        return array
    if pa.types.is_string_view(kind.value_type):
        # Arrow does not decode views.
        words = array.dictionary.cast(pa.large_string())
        array = pa.DictionaryArray.from_arrays(array.indices, words)
    return array.dictionary_decode()


def times_of(name: str, array: pa.Array) -> np.ndarray:
    """Times as stored in microseconds, in which missing ones are 0; nanoseconds are rounded down.

    Raises
    ------
    DataError
        A time is too late or too early for 64 bits of microseconds.
    """
    # Arrow keeps times in UTC and the zone beside them.
    zone = array.type.tz if pa.types.is_timestamp(array.type) else None
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        values = _values(array.cast(pa.int64())).view("datetime64[ns]")
        return np.asarray(values.astype("datetime64[us]"))
    try:
        times = array.cast(pa.timestamp("us", zone))
    except pa.ArrowInvalid as error:
        raise DataError(
            f"found a time{f' in column {name!r}' if name else ''} that 64 bits of microseconds "
            f"cannot hold ({error}), expected years up to 294,246; repair or drop the row"
        ) from None
    return _values(times.cast(pa.int64())).view("datetime64[us]")


def _validity(array: pa.Array) -> Bool | None:
    if not array.null_count:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _values(array: pa.Array) -> np.ndarray:
    """The values, in which missing ones are 0."""
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0).cast(array.type))
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _text(array: pa.Array) -> Text:
    wide = pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    kind = np.dtype(np.int64 if wide else np.int32)
    if offsets is None or not offsets.size:
        # An array without rows may have no buffers.
        starts = np.zeros(1, kind)
    else:
        at = array.offset * kind.itemsize
        starts = np.frombuffer(offsets, kind, len(array) + 1, at)
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return Text.of_offsets(starts, content, _validity(array))
