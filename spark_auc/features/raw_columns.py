"""Columns of raw tables as arrays: text, numbers and booleans, with missing values."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.types import Bool
from spark_auc.errors import DataError

_log = logging.getLogger(__name__)

_ALL_VALID = np.empty(0, np.bool_)
A = TypeVar("A", bound=np.generic)
_TYPES = {"b": "boolean", "i": "integer", "u": "integer", "f": "float", "M": "time"}
_TIME = np.dtype("datetime64[us]")
# The types of columns, as recipes store them.
TYPES = ("text", "boolean", "integer", "float", "time")


class Text(NamedTuple):
    """A column of text: places in an array of bytes.

    Parameters
    ----------
    starts, ends : (n,), int32 or int64
        The UTF-8 bytes of row ``i`` are ``data[starts[i]:ends[i]]``.
    data : uint8
        The bytes of all rows.
    validity : (n,), optional
        False where the value is missing. Default: no value is missing.
    """

    starts: NDArray[Any]
    ends: NDArray[Any]
    data: NDArray[np.uint8]
    validity: Bool | None = None

    @classmethod
    def of_offsets(
        cls, offsets: NDArray[Any], data: NDArray[np.uint8], validity: Bool | None = None
    ) -> Text:
        """The column of an Arrow string array, whose row ``i`` ends where row ``i + 1`` begins.

        Parameters
        ----------
        offsets : (n + 1,), int32 or int64
            The bytes of row ``i`` are ``data[offsets[i]:offsets[i + 1]]``. The first offset of a
            slice need not be 0.
        data, validity
            See `Text`.
        """
        return cls(offsets[:-1], offsets[1:], data, validity)


class Numbers(NamedTuple):
    """A column of integers, floats, booleans or times.

    Parameters
    ----------
    values : (n,)
        The values. NaN and NaT are missing values. Times are datetime64[us] on the clocks
        of the recipe's zone.
    validity : (n,), optional
        False where the value is missing. Default: only NaN and NaT are missing.
    """

    values: NDArray[Any]
    validity: Bool | None = None


Column: TypeAlias = Text | Numbers
Columns: TypeAlias = Mapping[str, Column]


def rows_of(column: Column) -> int:
    """Number of rows of a column."""
    return column.starts.size if isinstance(column, Text) else column.values.size


def taken(columns: Columns, rows: NDArray[np.int64]) -> dict[str, Column]:
    """The rows of these numbers ``(m,)``, in their order; the bytes of text are shared."""
    return {name: _taken(column, rows) for name, column in columns.items()}


def _taken(column: Column, rows: NDArray[np.int64]) -> Column:
    valid = None if column.validity is None else column.validity[rows]
    if isinstance(column, Text):
        return Text(column.starts[rows], column.ends[rows], column.data, valid)
    return Numbers(column.values[rows], valid)


def validity_of(column: Column) -> Bool:
    """Validity ``(n,)`` of a column as kernels take it: empty if no value is missing."""
    return read_only(_ALL_VALID if column.validity is None else column.validity)


def read_only(array: NDArray[A]) -> NDArray[A]:
    """The array as kernels take it: contiguous and not writable.

    Kernels are compiled for each kind of arguments, and Arrow's arrays are not writable.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def type_of(name: str, column: Column) -> str:
    """The type of a column, one of `TYPES`; `DataError` for arrays of other types or sizes."""
    kind: str | None = None
    if isinstance(column, Text):
        starts, ends, data, _ = column
        fits = starts.dtype == ends.dtype and starts.dtype.kind == "i" and starts.itemsize >= 4
        sizes = starts.ndim == data.ndim == 1 and starts.shape == ends.shape
        kind = "text" if fits and sizes and data.dtype == np.uint8 else None
    elif column.values.ndim == 1:
        kind = _TYPES.get(column.values.dtype.kind)
        kind = None if kind == "time" and column.values.dtype != _TIME else kind
    valid = column.validity
    if kind and valid is not None:
        fits = valid.shape == (rows_of(column),) and valid.dtype == np.bool_
        kind = kind if fits else None
    if not kind:
        arrays = [array for array in column if array is not None]
        raise DataError(
            f"found {', '.join(f'{a.dtype} {a.shape}' for a in arrays)} in column {name!r}, "
            "expected one-dimensional arrays of text, numbers, booleans or datetime64[us]; convert "
            "the column"
        )
    return kind


def integers(name: str, values: NDArray[Any]) -> NDArray[np.int64]:
    """Integers as int64; `DataError` for integers above 2^63 - 1."""
    if values.dtype == np.uint64 and values.size and values.max() >= 2**63:
        raise DataError(
            f"found {values.max()} in column {name!r}, expected integers below 2^63; convert the "
            "column to text"
        )
    return values.astype(np.int64, copy=False)


def whole(name: str, column: Column) -> Column:
    """Floats that are whole numbers, missing or infinite as integers; other columns as they are.

    Infinite values count as missing, which the log says.
    """
    if not isinstance(column, Numbers) or column.values.dtype.kind != "f":
        return column
    values = column.values.astype(float)
    present = np.ones(values.size, np.bool_) if column.validity is None else column.validity
    valid = present & np.isfinite(values)
    inside = np.where(valid, values, 0.0)
    if (np.abs(inside) >= 2**53).any() or (inside % 1).any():
        return column
    if count := np.count_nonzero(present & np.isinf(values)):
        told = "column %r: %d of %d values are infinite and count as missing"
        _log.warning(told, name, count, values.size)
    return Numbers(inside.astype(np.int64), valid)
