"""Numbers that stand for the values of a column of text, to count them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import mix
from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Float
from spark_auc.errors import DataError
from spark_auc.features.raw_columns import Text, read_only, validity_of

# A double holds so many bits of a hash.
_SHIFT = np.uint64(64 - 53)


def keys_of(name: str, column: Text) -> Float:
    """Hashes of the values as whole numbers below 2^53 ``(n,)``; NaN for missing and empty text.

    A million different values have two of equal hash with probability 6e-5.

    Raises
    ------
    DataError
        The bytes of a row lie outside the data.
    """
    starts, ends = read_only(column.starts), read_only(column.ends)
    keys = np.empty(starts.size)
    row = _fill(starts, ends, read_only(column.data), validity_of(column), keys)
    if row >= 0:
        raise DataError(
            f"found bytes {starts[row]} to {ends[row]} of {column.data.size} in column {name!r} "
            f"(row {row} of a batch), expected starts and ends within the bytes; repair the row"
        )
    return keys


def text_of(values: Sequence[str]) -> Text:
    """The column ``(n,)`` of some values."""
    words = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, words)], dtype=np.int64)
    return Text.of_offsets(offsets, np.frombuffer(b"".join(words), np.uint8))


def most_frequent(name: str, column: Text, count: int, least: int = 1) -> tuple[str, ...]:
    """At most ``count`` values of a column with ``least`` rows, by descending number of rows.

    Missing and empty text is left out, as are bytes that are no text. Of values with equal numbers
    of rows, those with the smaller keys are before others.

    Raises
    ------
    DataError
        The bytes of a row lie outside the data.
    """
    keys = keys_of(name, column)
    rows = np.flatnonzero(~np.isnan(keys))
    kept, firsts, counts = np.unique(keys[rows], return_index=True, return_counts=True)
    values = list[str]()
    for row in rows[firsts[np.argsort(-counts, kind="stable")]].tolist():
        if len(values) == count or counts[np.searchsorted(kept, keys[row])] < least:
            break
        try:
            values.append(column.data[column.starts[row] : column.ends[row]].tobytes().decode())
        except UnicodeDecodeError:
            continue
    return tuple(values)


@compiled()
def _fill(
    starts: NDArray[Any],
    ends: NDArray[Any],
    data: NDArray[np.uint8],
    validity: Bool,
    keys: Float,
) -> int:
    """Write the keys; returns a row whose bytes lie outside the data, or -1."""
    for row in range(keys.size):
        start, end = np.int64(starts[row]), np.int64(ends[row])
        if not 0 <= start <= end <= data.size:
            return row
        if start == end or (validity.size and not validity[row]):
            keys[row] = np.nan
        else:
            keys[row] = np.float64(_hash(data, np.uint64(start), np.uint64(end)) >> _SHIFT)
    return -1


@compiled()
def _hash(data: NDArray[np.uint8], start: np.uint64, end: np.uint64) -> np.uint64:
    hashed, at = mix(end - start), start
    while at + np.uint64(8) <= end:
        word = np.uint64(0)
        # LLVM makes one load of the eight.
        for k in range(8):
            word |= np.uint64(data[at + np.uint64(k)]) << np.uint64(8 * k)
        hashed = mix(hashed ^ word)
        at += np.uint64(8)
    rest, shift = np.uint64(0), np.uint64(0)
    while at < end:
        rest |= np.uint64(data[at]) << shift
        shift += np.uint64(8)
        at += np.uint64(1)
    return mix(hashed ^ rest)
