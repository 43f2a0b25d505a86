"""The kernels that hash columns of integers with bins of logarithms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Index
from spark_auc.features.murmur import Prefix, after, little_endian
from spark_auc.features.tokens import DIGITS, Slots, digits, put

# Integers below have their hashes in a table. Logarithms take longer than a look into it.
SMALL = 1024
_NOT_A_NUMBER = np.int64(np.iinfo(np.int64).min)
# Four bytes: "0" in each, what makes more than 9 exceed 127, and the bit of 128.
_ZEROS, _NINES, _TOPS = np.uint64(0x30303030), np.uint64(0x76767676), np.uint64(0x80808080)


@compiled()
def hash_logarithms(
    prefix: Prefix,
    bins: Index,
    starts: NDArray[Any],
    ends: NDArray[Any],
    data: NDArray[np.uint8],
    validity: Bool,
    begin: int,
    empty: bool,
    slots: Slots,
) -> int:
    """Hash text that is integers, with bins of logarithms.

    An integer has the token of its value: "07" is 7. The other parameters are those of `hash_text`.

    Parameters
    ----------
    bins
        Hashes of the tokens of a missing value, of the integers from 0 to `SMALL` - 1, and of the
        bins ``floor(log(v)^2)`` from 0 on.

    Returns
    -------
    int
        A row whose text is not an integer of at most 18 digits, or -1.
    """
    inverse, buffer, size = 1.0 / slots.dimension, np.empty(DIGITS, np.uint8), data.size
    starts, ends = starts[begin:], ends[begin:]
    for row in range(slots.indices.size):
        start, end = np.int64(starts[row]), np.int64(ends[row])
        if not 0 <= start <= end <= size:
            return begin + row
        if start == end or (validity.size and not validity[begin + row]):
            if empty:
                put(slots, row, bins[0], inverse)
            else:
                slots.indices[row] = -1
            continue
        value = _short(data, start, end)
        if value < 0:
            value = _long(data, start, end)
            if value == _NOT_A_NUMBER:
                return begin + row
        # Most values are small; a call for them would take as long as all the rest.
        small = 0 <= value < SMALL
        hashed = bins[1 + value] if small else logarithm(prefix, bins, value, buffer)
        put(slots, row, hashed, inverse)
    return -1


@compiled()
def _short(data: NDArray[np.uint8], start: np.int64, end: np.int64) -> np.int64:
    """The integer of one to four digits, or -1 for other text."""
    size = np.uint64(end - start)
    if size > np.uint64(4) or end < 4:
        return np.int64(-1)
    # Digits are compared and added all at once: a loop over them would be mispredicted.
    left = np.uint64(8) * (np.uint64(4) - size)
    word = little_endian(data, np.uint64(end) - np.uint64(4)) >> left << left
    digits = word - (_ZEROS >> left << left)
    if (digits | (digits + _NINES)) & _TOPS:
        return np.int64(-1)
    tens, byte = np.uint64(10), np.uint64(0xFF)
    value = digits & byte
    for k in range(np.uint64(1), np.uint64(4)):
        value = tens * value + ((digits >> (np.uint64(8) * k)) & byte)
    return np.int64(value)


@compiled()
def _long(data: NDArray[np.uint8], start: np.int64, end: np.int64) -> np.int64:
    """The integer of at most 18 digits with or without a sign, or `_NOT_A_NUMBER`."""
    negative = data[start] == 45
    at = start + np.int64(negative or data[start] == 43)
    if at == end or end - at > 18:
        return _NOT_A_NUMBER
    value = np.int64(0)
    for k in range(at, end):
        digit = np.int64(data[k]) - 48
        if not 0 <= digit <= 9:
            return _NOT_A_NUMBER
        value = 10 * value + digit
    return -value if negative else value


@compiled()
def hash_logarithms_of_integers(
    prefix: Prefix,
    bins: Index,
    values: NDArray[np.int64],
    validity: Bool,
    begin: int,
    empty: bool,
    slots: Slots,
) -> None:
    """Hash integers with bins of logarithms; see `hash_logarithms` and `hash_integers`."""
    inverse, buffer = 1.0 / slots.dimension, np.empty(DIGITS, np.uint8)
    for row in range(slots.indices.size):
        if not validity.size or validity[begin + row]:
            hashed = logarithm(prefix, bins, values[begin + row], buffer)
            put(slots, row, hashed, inverse)
        elif empty:
            put(slots, row, bins[0], inverse)
        else:
            slots.indices[row] = -1


@compiled()
def logarithm(prefix: Prefix, bins: Index, value: np.int64, buffer: NDArray[np.uint8]) -> np.uint32:
    """The hash of the token of an integer; ``buffer`` has room for its digits."""
    if value >= SMALL:
        log = np.log(np.float64(value))
        return np.uint32(bins[1 + SMALL + np.int64(np.floor(log * log))])
    if value >= 0:
        return np.uint32(bins[1 + value])
    return np.uint32(after(prefix, buffer, digits(value, buffer), np.uint64(DIGITS)))
