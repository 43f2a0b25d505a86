"""Quotes and blanks of delimited text: where records begin, and fields without blanks before them.

As in RFC 4180, a quote at the start of a field encloses it up to the next single quote. Quotes
elsewhere are text.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Integer

_QUOTE, _FEED, _RETURN, _SPACE, _TAB = map(ord, '"\n\r \t')
# States between bytes: at the start of a field, inside of one, inside of quotes, and after a quote
# that either closes them or, with the next byte, is text.
_START, _FIELD, _QUOTED, _CLOSED = range(4)


class Dialect(NamedTuple):
    """How fields are written.

    Parameters
    ----------
    separator
        One ASCII character.
    trimmed
        Whether blanks around fields, spaces and tabulators, are no part of them.
    quotes
        Whether quotes may enclose fields.
    """

    separator: str
    trimmed: bool = False
    quotes: bool = True

    @property
    def blanks(self) -> str:
        """The blanks that are no part of fields, in quotes neither; never the separator."""
        return " \t".replace(self.separator, "") if self.trimmed else ""


class Lines(NamedTuple):
    """What quotes make of whole lines.

    Parameters
    ----------
    first
        The place of the first record that begins with one of the lines; -1 if none does.
    last
        The place after the last record that ends with one of the lines; 0 if none does.
    opened
        The place of the quote that the lines do not close; -1 without one. It is 0 as well if they
        begin inside of quotes and do not close them.
    """

    first: int
    last: int
    opened: int


def lines_of(data: NDArray[np.uint8], dialect: Dialect, *, enclosed: bool) -> Lines:
    """Quotes and records of lines.

    Parameters
    ----------
    data
        The bytes of whole lines.
    dialect
        How fields are written.
    enclosed
        Whether quotes enclose the beginning.
    """
    return Lines(*_scanned(data, ord(dialect.separator), dialect.trimmed, enclosed))


def without_blanks(data: NDArray[np.uint8], separator: str) -> tuple[NDArray[np.uint8], bool]:
    """Whole records without blanks before their fields, and whether fields may end with blanks.

    Parameters
    ----------
    data
        The bytes of the records.
    separator
        One ASCII character.

    Returns
    -------
    array, bool
        The bytes without these blanks; whether blanks are at the end of a field, or beside quotes.
    """
    out = np.empty_like(data)
    size, beside = _shortened(data, ord(separator), True, out)
    return out[:size], bool(beside)


@compiled()
def _after(state: Integer, byte: int, separator: int, trimmed: bool) -> int:
    """The state after a byte."""
    if state == _QUOTED:
        return _CLOSED if byte == _QUOTE else _QUOTED
    if byte in (separator, _FEED, _RETURN):
        return _START
    if byte == _QUOTE and state in (_START, _CLOSED):
        return _QUOTED
    if trimmed and state == _START and byte in (_SPACE, _TAB):
        return _START
    return _FIELD


@compiled()
def _scanned(
    data: NDArray[np.uint8], separator: int, trimmed: bool, enclosed: bool
) -> tuple[int, int, int]:
    state, opened, first, last = _START, -1, 0, 0
    if enclosed:
        state, opened, first = _QUOTED, 0, -1
    for place in range(data.size):
        before, state = state, _after(state, data[place], separator, trimmed)
        if before == _START and state == _QUOTED:
            opened = place
        elif state == _START and data[place] == _FEED:
            last = place + 1
            if first < 0 and last < data.size:
                first = last
    return first, last, opened if state == _QUOTED else -1


@compiled()
def _shortened(
    data: NDArray[np.uint8], separator: int, trimmed: bool, out: NDArray[np.uint8]
) -> tuple[int, bool]:
    state: Integer = np.int64(_START)
    size, beside, last = 0, False, _FEED
    was_blank = False
    for place in range(data.size):
        byte = data[place]
        is_blank = byte != separator and byte in (_SPACE, _TAB)
        ends = byte in (separator, _QUOTE, _FEED, _RETURN)
        beside |= (is_blank and last == _QUOTE) or (was_blank and ends)
        last, was_blank = byte, is_blank
        before, state = state, _after(state, byte, separator, trimmed)
        if not (is_blank and before == _START and state == _START):
            out[size] = byte
            size += 1
    return size, beside or was_blank
