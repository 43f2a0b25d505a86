"""The kernels that hash columns of tokens."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Index
from spark_auc.features.murmur import Prefix, after

# The longest integer of 64 bits has a sign and 19 digits.
DIGITS = 20


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
def index_of(hashed: np.uint32, dimension: int, inverse: float) -> np.int64:
    """``nonNegativeMod(hash, dimension)``; ``inverse`` is ``1 / dimension``."""
    # A product and a correction take a third of the time of a division.
    signed = np.int64(np.int32(hashed))
    index = signed - np.int64(np.float64(signed) * inverse) * dimension
    if index < 0:
        index += dimension
    elif index >= dimension:
        index -= dimension
    return index


@compiled()
def put(slots: Slots, row: int, hashed: np.uint32, inverse: float) -> None:
    """Store a hash and its index; ``inverse`` is ``1 / dimension``."""
    slots.indices[row] = slots.first + index_of(hashed, slots.dimension, inverse)
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
            put(slots, row, hashed, inverse)
    return -1


@compiled()
def digits(value: np.int64, buffer: NDArray[np.uint8]) -> np.uint64:
    """Write the decimal digits of an integer at the end of a buffer; returns where they begin."""
    # The negation of -2^63 wraps to the same bits, which are right as an unsigned number.
    number = np.uint64(-value) if value < 0 else np.uint64(value)
    at = np.uint64(DIGITS)
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
    inverse, buffer = 1.0 / slots.dimension, np.empty(DIGITS, np.uint8)
    last = np.uint64(DIGITS)
    for row in range(slots.indices.size):
        value = values[begin + row]
        if validity.size and not validity[begin + row]:
            if empty:
                put(slots, row, after(prefix, buffer, last, last), inverse)
            else:
                slots.indices[row] = -1
        else:
            at = digits(value, buffer)
            put(slots, row, after(prefix, buffer, at, last), inverse)


@compiled()
def hash_codes(
    hashes: Index,
    codes: NDArray[Any],
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
            put(slots, row, hashes[code], inverse)
