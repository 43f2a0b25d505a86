"""Lines of delimited text to columns of fields, over the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool
from spark_auc.errors import LineError
from spark_auc.features.raw_columns import Text, read_only, validity_of

_QUOTE = 34
# Bytes of a line in an error.
_SHOWN = 200


def split(lines: Text, separator: str, fields: int, place: str | None = None) -> tuple[Text, ...]:
    """Split lines into columns of text, without copies of the bytes.

    A missing value is an empty field. All fields of a missing line are missing.

    Parameters
    ----------
    lines
        One line a row, without its end.
    separator
        One ASCII character. It cannot be part of a field.
    fields
        Number of fields of a line.
    place
        Where the first malformed line is, for the error. Default: its row.

    Returns
    -------
    tuple of Text
        The columns.

    Raises
    ------
    LineError
        A line has another number of fields, or a quoted field, which could contain separators.
    """
    places = np.empty((2, fields, lines.starts.size), lines.starts.dtype)
    arrays = read_only(lines.starts), read_only(lines.ends), read_only(lines.data)
    row = _split(*arrays, validity_of(lines), ord(separator), places)
    if row >= 0:
        line = shown(lines, row, None)
        found = line.split(separator)
        quoted = any(field.startswith('"') for field in found)
        expected = "fields without quotes" if quoted else f"{fields} fields"
        remedy = "read it as format csv" if quoted else "repair or remove the line"
        raise LineError(
            f"found {line[:_SHOWN]!r} with {len(found)} fields in "
            f"{place or f'row {row} of a batch'}, expected {expected} separated by {separator!r}; "
            f"{remedy}"
        )
    return tuple(
        Text(places[0, k], places[1, k], lines.data, lines.validity) for k in range(fields)
    )


def shown(text: Text, row: int, most: int | None = _SHOWN) -> str:
    """The value of a row, with replacements for bytes that are not UTF-8."""
    start, end = max(int(text.starts[row]), 0), max(int(text.ends[row]), 0)
    return text.data[start:end][:most].tobytes().decode(errors="replace")


@compiled()
def _split(
    starts: NDArray[Any],
    ends: NDArray[Any],
    data: NDArray[np.uint8],
    validity: Bool,
    separator: int,
    places: NDArray[Any],
) -> int:
    """Fill ``places (2, fields, rows)`` with starts and ends of the fields.

    Returns a row with another number of fields, with a quoted field, or outside the data; else -1.
    """
    fields = places.shape[1]
    bounds = np.empty(fields, np.int64)
    for row in range(starts.size):
        start, end = np.int64(starts[row]), np.int64(ends[row])
        if validity.size and not validity[row]:
            places[:, :, row] = start
            continue
        if not 0 <= start <= end <= data.size:
            return row
        if bounds.size <= end - start:
            bounds = np.empty(2 * (end - start) + fields, np.int64)
        # A branch for each separator would be mispredicted. The last position that is stored for a
        # field is that of its separator.
        field = np.uint64(0)
        for at in range(np.uint64(start), np.uint64(end)):
            bounds[field] = at
            field += np.uint64(data[at] == separator)
        if field != np.uint64(fields - 1):
            return row
        bounds[field], first = end, start
        for k in range(fields):
            if first < end and data[first] == _QUOTE:
                return row
            places[0, k, row], places[1, k, row] = first, bounds[k]
            first = bounds[k] + 1
    return -1


def contiguous(text: Text) -> Text:
    """The same values with bytes of their own, one after another; missing values are empty."""
    sizes = text.ends.astype(np.int64) - text.starts
    if text.validity is not None:
        sizes = np.where(text.validity, sizes, 0)
    offsets = np.append(0, np.cumsum(sizes))
    data = np.empty(offsets[-1], np.uint8)
    _copy(read_only(text.starts), read_only(text.data), offsets, data)
    return Text.of_offsets(offsets, data, text.validity)


@compiled()
def _copy(
    starts: NDArray[Any],
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    for row in range(starts.size):
        start, first = np.uint64(starts[row]), np.uint64(offsets[row])
        # Without a sign, indices need no check of the end from which they count.
        for k in range(np.uint64(offsets[row + 1]) - first):
            out[first + k] = data[start + k]
