"""Validation rules for stored arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

# Column indices have 31 bits; counts up to 2^53 are exact in doubles.
MOST_COLUMNS, MOST_ROWS = 2**31 - 1, 2**53


class Rule(NamedTuple):
    """A condition on an array: its description for messages, and its test."""

    words: str
    holds: Callable[[Array], bool]


def _finite(a: Array) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum has finite terms; it needs no temporary array.
        return bool(np.isfinite(a.sum()) or np.isfinite(a).all())


def _from_0_on(a: Array) -> bool:
    return a.size == 0 or bool(a.min() >= 0 and np.isfinite(a.max()))


FINITE = Rule("finite", _finite)
FROM_0_ON = Rule("finite and at least 0", _from_0_on)
ABOVE_0 = Rule("finite and above 0", lambda a: _from_0_on(a) and bool((a != 0).all()))
NOT_0 = Rule("other than 0", lambda a: bool((a != 0).all()))
NOT_EMPTY = Rule("not empty", lambda a: a.size > 0)
COUNTS = Rule(f"from 0 to {MOST_ROWS}", lambda a: _from_0_on(a) and a.max(initial=0) <= MOST_ROWS)
ASCENDING = Rule("finite and ascending", lambda a: _finite(a) and bool((a[1:] >= a[:-1]).all()))
INCREASING = Rule("finite and increasing", lambda a: _finite(a) and bool((a[1:] > a[:-1]).all()))


def not_csr(indices: Array, indptr: Array, rows: int, columns: int) -> str | None:
    """The fault of the column indices and row starts of CSR rows; None if they are valid."""
    if indptr.size != rows + 1 or not 0 <= columns <= MOST_COLUMNS:
        return f"its rows are not {rows} of {columns} columns"
    if indptr[0] != 0 or indptr[-1] != indices.size or (indptr[1:] < indptr[:-1]).any():
        return "its row starts do not ascend from 0 to the number of entries"
    return outside(indices, columns)


def outside(indices: Array, columns: int) -> str | None:
    """The fault of column indices outside ``0`` to ``columns - 1``; None if all are inside."""
    if indices.size and not (indices.min() >= 0 and indices.max() < columns):
        return f"it has column indices outside 0 to {columns - 1}"
    return None
