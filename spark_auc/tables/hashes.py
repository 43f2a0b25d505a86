"""Hashes of values, which do not depend on the types of their columns.

The hash is XXH64 with seed 42, as of Spark's ``xxhash64``. Whole numbers of any type, such as 8 and
8.0, and booleans are hashed as integers of 8 bytes, other numbers by the bits of their double,
times and dates by their microseconds, and text by its UTF-8 bytes. So a value keeps its hash where
a missing one elsewhere in the column changes its type. The hash of a column is the seed of the
next, and a missing value leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types as kinds

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Keys
from spark_auc.errors import ConfigError
from spark_auc.features.raw_columns import Text, read_only
from spark_auc.tables.arrow_columns import doubles_of_decimals, flat, raw_column, times_of
from spark_auc.tables.table import Table, field_of, fields_by_name
from spark_auc.tables.types import is_number, is_text, is_time, shown_type

_P1, _P2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_P3, _P4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
_P5, _SEED = np.uint64(0x27D4EB2F165667C5), np.uint64(42)
# The version of the hashes: moments of folds by other hashes do not merge.
HASHES = 2
_NARROW = 0xFFFFFFFF
# Decimals of more digits are more exact than doubles.
_MOST_DIGITS = 18
_WIDEST = 2.0**63


def check_hashable(table: Table, name: str) -> None:
    """`ConfigError` if the values of a column are of a type without a hash."""
    column = field_of(table, name)
    if not _is_hashable(column.type):
        raise ConfigError(
            f"found the key column {name!r} of type {shown_type(column)}, expected text, numbers, "
            f"booleans or times, and decimals of at most {_MOST_DIGITS} digits; cast it"
        )


def hashable_names(table: Table) -> list[str]:
    """Names of all columns with a hash, less those that several columns have."""
    found = [field.name for field in table.schema if _is_hashable(field.type)]
    lookup = fields_by_name(table)
    return [name for name in found if len(lookup(name)) == 1]


def _is_hashable(kind: pa.DataType) -> bool:
    if kinds.is_dictionary(kind):
        return _is_hashable(kind.value_type)
    if kinds.is_decimal(kind):
        return bool(kind.precision <= _MOST_DIGITS)
    return is_number(kind) or is_text(kind) or is_time(kind) or bool(kinds.is_boolean(kind))


def xxhash64(arrays: Sequence[pa.Array], *, salt: int | None = None) -> Keys:
    """Hashes ``(n,)`` of rows.

    Parameters
    ----------
    arrays
        Columns of the types that `check_hashable` allows.
    salt
        An integer that is hashed before the columns, as 4 bytes.
    """
    hashed = np.full(len(arrays[0]), _SEED)
    if salt is not None:
        hashed = _of_narrow(np.full(hashed.size, salt & _NARROW, np.uint64), hashed)
    for array in arrays:
        found = _hashed(flat(array), hashed)
        if array.null_count:
            found = np.where(array.is_valid().to_numpy(zero_copy_only=False), found, hashed)
        hashed = found
    return hashed


def _hashed(array: pa.Array, seeds: Keys) -> Keys:
    kind = array.type
    if is_text(kind):
        text = raw_column("", array)
        assert isinstance(text, Text)
        out = np.empty(seeds.size, np.uint64)
        missing = read_only(~text.validity if text.validity is not None else _none(seeds.size))
        places = read_only(text.starts), read_only(text.ends)
        _of_text(*places, read_only(text.data), missing, seeds, out)
        return out
    return _of_wide(_bits(array), seeds)


def _bits(values: pa.Array) -> Keys:
    """The 8 bytes ``(n,)`` that stand for values; those of missing ones are not used."""
    kind = values.type
    if kinds.is_decimal(kind):
        values = doubles_of_decimals(values)
    if kinds.is_floating(kind) or kinds.is_decimal(kind):
        doubles = values.cast(pa.float64()).fill_null(0.0).to_numpy()
        with np.errstate(invalid="ignore"):
            is_whole = (np.floor(doubles) == doubles) & (np.abs(doubles) < _WIDEST)
        bits = np.where(np.isnan(doubles), np.uint64(0x7FF8000000000000), doubles.view(np.uint64))
        integers = np.where(is_whole, doubles, 0.0).astype(np.int64).view(np.uint64)
        return np.asarray(np.where(is_whole, integers, bits))
    if is_time(kind):
        return np.asarray(times_of("", values).view(np.uint64))
    whole = values.cast(pa.int64(), safe=False).fill_null(0).to_numpy()
    return np.asarray(whole.view(np.uint64))


def _none(rows: int) -> Bool:
    return np.zeros(rows, np.bool_)


def _rotated(values: Keys, bits: int) -> Keys:
    left, right = np.uint64(bits), np.uint64(64 - bits)
    return (values << left) | (values >> right)


def _mixed(values: Keys) -> Keys:
    values = (values ^ (values >> np.uint64(33))) * _P2
    values = (values ^ (values >> np.uint64(29))) * _P3
    return values ^ (values >> np.uint64(32))


def _of_narrow(values: Keys, seeds: Keys) -> Keys:
    """Hashes of 4 bytes."""
    hashed = (seeds + _P5 + np.uint64(4)) ^ (values * _P1)
    return _mixed(_rotated(hashed, 23) * _P2 + _P3)


def _of_wide(values: Keys, seeds: Keys) -> Keys:
    """Hashes of 8 bytes."""
    hashed = (seeds + _P5 + np.uint64(8)) ^ (_rotated(values * _P2, 31) * _P1)
    return _mixed(_rotated(hashed, 27) * _P1 + _P4)


@compiled()
def _rotl(value: np.uint64, bits: np.uint64) -> np.uint64:
    return (value << bits) | (value >> (np.uint64(64) - bits))


@compiled()
def _word(data: NDArray[np.uint8], at: np.uint64, size: np.uint64) -> np.uint64:
    """The little-endian number of some bytes."""
    value = np.uint64(0)
    for k in range(size):
        value |= np.uint64(data[at + k]) << (np.uint64(8) * k)
    return value


@compiled()
def _of_text(
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    data: NDArray[np.uint8],
    missing: Bool,
    seeds: Keys,
    out: Keys,
) -> None:
    eight, four, one = np.uint64(8), np.uint64(4), np.uint64(1)
    lanes = np.empty(4, np.uint64)
    for row in range(out.size):
        seed = seeds[row]
        if missing[row]:
            out[row] = seed
            continue
        at, end = np.uint64(starts[row]), np.uint64(ends[row])
        length = end - at
        if length >= np.uint64(32):
            lanes[0], lanes[1] = seed + _P1 + _P2, seed + _P2
            lanes[2], lanes[3] = seed, seed - _P1
            while at + np.uint64(32) <= end:
                for k in range(4):
                    lane = lanes[k] + _word(data, at, eight) * _P2
                    lanes[k] = _rotl(lane, np.uint64(31)) * _P1
                    at += eight
            hashed = _rotl(lanes[0], np.uint64(1)) + _rotl(lanes[1], np.uint64(7))
            hashed += _rotl(lanes[2], np.uint64(12)) + _rotl(lanes[3], np.uint64(18))
            for k in range(4):
                hashed ^= _rotl(lanes[k] * _P2, np.uint64(31)) * _P1
                hashed = hashed * _P1 + _P4
        else:
            hashed = seed + _P5
        hashed += length
        while at + eight <= end:
            hashed ^= _rotl(_word(data, at, eight) * _P2, np.uint64(31)) * _P1
            hashed = _rotl(hashed, np.uint64(27)) * _P1 + _P4
            at += eight
        if at + four <= end:
            hashed ^= _word(data, at, four) * _P1
            hashed = _rotl(hashed, np.uint64(23)) * _P2 + _P3
            at += four
        while at < end:
            hashed ^= np.uint64(data[at]) * _P5
            hashed = _rotl(hashed, np.uint64(11)) * _P1
            at += one
        hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
        hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
        out[row] = hashed ^ (hashed >> np.uint64(32))
