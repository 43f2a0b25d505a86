"""The kernels that hash columns of tokens."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Index
from spark_auc.features.murmur import Prefix, after, little_endian

# The longest integer of 64 bits has a sign and 19 digits.
_DIGITS = 20
# Integers below have their hashes in a table. Logarithms take longer than a look into it.
SMALL = 1024
_NOT_A_NUMBER = np.int64(np.iinfo(np.int64).min)
# Four bytes: "0" in each, what makes more than 9 exceed 127, and the bit of 128.
_ZEROS, _NINES, _TOPS = np.uint64(0x30303030), np.uint64(0x76767676), np.uint64(0x80808080)


class Slots(NamedTuple):
    """The arrays that receive the tokens of a column.

    Parameters
    ----------
    indices : (m,)
        Receives ``first + nonNegativeMod(hash, dimension)``, or -1 for no token.
    hashes : (m,) or (0,)
        Receives the hashes, unless it is empty.
    first, dimension
        First index and number of the hashed features.
    """

    indices: NDArray[np.int32]
    hashes: Index
    first: int
    dimension: int


@compiled()
def _put(slots: Slots, row: int, hashed: np.uint32, inverse: float) -> None:
    """Store a hash and its index; ``inverse`` is ``1 / dimension``."""
    # A product and a correction take a third of the time of a division.
    signed = np.int64(np.int32(hashed))
    index = signed - np.int64(np.float64(signed) * inverse) * slots.dimension
    if index < 0:
        index += slots.dimension
    elif index >= slots.dimension:
        index -= slots.dimension
    slots.indices[row] = slots.first + index
    if slots.hashes.size:
        slots.hashes[row] = hashed


@compiled()
def hash_text(
    prefix: Prefix,
    starts: NDArray[Any],
    ends: NDArray[Any],
    data: NDArray[np.uint8],
    validity: Bool,
    begin: int,
    empty: bool,
    slots: Slots,
) -> int:
    """Hash the values of a column of text from row ``begin`` on.

    Parameters
    ----------
    prefix
        The state after ``name=``.
    starts, ends, data, validity
        See `spark_auc.features.raw_columns.Text`; ``validity`` is empty if no value is missing.
    begin
        The first of the rows, whose number is the size of the slots.
    empty
        Whether missing and empty values have a token, ``name=``, or none.
    slots
        Receives the tokens.

    Returns
    -------
    int
        A row whose bytes do not lie within the data, or -1.
    """
    inverse, size = 1.0 / slots.dimension, data.size
    # A sum of signed numbers would be checked for indices that count from the end.
    starts, ends = starts[begin:], ends[begin:]
    for row in range(slots.indices.size):
        start, end = np.int64(starts[row]), np.int64(ends[row])
        if not 0 <= start <= end <= size:
            return begin + row
        if validity.size and not validity[begin + row]:
            end = start
        if start == end and not empty:
            slots.indices[row] = -1
        else:
            hashed = after(prefix, data, np.uint64(start), np.uint64(end))
            _put(slots, row, hashed, inverse)
    return -1


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
    inverse, buffer, size = 1.0 / slots.dimension, np.empty(_DIGITS, np.uint8), data.size
    starts, ends = starts[begin:], ends[begin:]
    for row in range(slots.indices.size):
        start, end = np.int64(starts[row]), np.int64(ends[row])
        if not 0 <= start <= end <= size:
            return begin + row
        if start == end or (validity.size and not validity[begin + row]):
            if empty:
                _put(slots, row, bins[0], inverse)
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
        hashed = bins[1 + value] if small else _logarithm(prefix, bins, value, buffer)
        _put(slots, row, hashed, inverse)
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
    inverse, buffer = 1.0 / slots.dimension, np.empty(_DIGITS, np.uint8)
    for row in range(slots.indices.size):
        if not validity.size or validity[begin + row]:
            hashed = _logarithm(prefix, bins, values[begin + row], buffer)
            _put(slots, row, hashed, inverse)
        elif empty:
            _put(slots, row, bins[0], inverse)
        else:
            slots.indices[row] = -1


@compiled()
def _logarithm(
    prefix: Prefix, bins: Index, value: np.int64, buffer: NDArray[np.uint8]
) -> np.uint32:
    if value >= SMALL:
        log = np.log(np.float64(value))
        return np.uint32(bins[1 + SMALL + np.int64(np.floor(log * log))])
    if value >= 0:
        return np.uint32(bins[1 + value])
    return np.uint32(after(prefix, buffer, _digits(value, buffer), np.uint64(_DIGITS)))


@compiled()
def _digits(value: np.int64, buffer: NDArray[np.uint8]) -> np.uint64:
    """Write the decimal digits of an integer at the end of a buffer; returns where they begin."""
    # The negation of -2^63 wraps to the same bits, which are right as an unsigned number.
    number = np.uint64(-value) if value < 0 else np.uint64(value)
    at = np.uint64(_DIGITS)
    while True:
        at -= np.uint64(1)
        tens = number // np.uint64(10)
        buffer[at] = np.uint8(number - tens * np.uint64(10) + np.uint64(48))
        number = tens
        if number == np.uint64(0):
            break
    if value < 0:
        at -= np.uint64(1)
        buffer[at] = np.uint8(45)
    return at


@compiled()
def hash_integers(
    prefix: Prefix,
    values: NDArray[np.int64],
    validity: Bool,
    begin: int,
    empty: bool,
    slots: Slots,
) -> None:
    """Hash the decimal digits of integers.

    Parameters
    ----------
    prefix
        The state after ``name=``.
    values, validity
        See `spark_auc.features.raw_columns.Numbers`.
    begin, empty, slots
        See `hash_text`.
    """
    inverse, buffer = 1.0 / slots.dimension, np.empty(_DIGITS, np.uint8)
    last = np.uint64(_DIGITS)
    for row in range(slots.indices.size):
        value = values[begin + row]
        if validity.size and not validity[begin + row]:
            if empty:
                _put(slots, row, after(prefix, buffer, last, last), inverse)
            else:
                slots.indices[row] = -1
        else:
            at = _digits(value, buffer)
            _put(slots, row, after(prefix, buffer, at, last), inverse)


@compiled()
def hash_codes(
    hashes: Index,
    codes: NDArray[np.uint8],
    validity: Bool,
    begin: int,
    empty: bool,
    slots: Slots,
) -> None:
    """Store the tokens of values that are few.

    Parameters
    ----------
    hashes : (v + 1,)
        The hashes of the tokens of ``v`` values, then that of ``name=``.
    codes : (n,)
        The value of each row as an index of ``hashes``; ``v`` for a missing value.
    validity
        See `spark_auc.features.raw_columns.Numbers`.
    begin, empty, slots
        See `hash_text`.
    """
    inverse, missing = 1.0 / slots.dimension, np.int64(hashes.size - 1)
    for row in range(slots.indices.size):
        code = np.int64(codes[begin + row])
        if validity.size and not validity[begin + row]:
            code = missing
        if code == missing and not empty:
            slots.indices[row] = -1
        else:
            _put(slots, row, hashes[code], inverse)
