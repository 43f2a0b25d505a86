"""Where records of delimited text begin: after an end of a line that no quotes enclose.

As in RFC 4180, a quote at the start of a field encloses it up to the next single quote. Quotes
elsewhere are text.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled

_QUOTE, _FEED, _RETURN = ord('"'), ord("\n"), ord("\r")
# States between bytes: at the start of a field, inside of one, inside of quotes, and after a quote
# that either closes them or, with the next byte, is text.
_START, _FIELD, _QUOTED, _CLOSED = range(4)


class Lines(NamedTuple):
    """What quotes make of whole lines.

    Parameters
    ----------
    first
        The place of the first record that begins with one of the lines; -1 if none does.
    opened
        The place of the quote that the lines do not close; -1 without one. It is 0 as well if they
        begin inside of quotes and do not close them.
    """

    first: int
    opened: int


def lines_of(data: NDArray[np.uint8], separator: str, *, enclosed: bool) -> Lines:
    """Quotes and records of lines.

    Parameters
    ----------
    data
        The bytes of whole lines.
    separator
        One ASCII character.
    enclosed
        Whether quotes enclose the beginning.
    """
    return Lines(*_scanned(data, ord(separator), enclosed))


@compiled()
def _scanned(data: NDArray[np.uint8], separator: int, enclosed: bool) -> tuple[int, int]:
    state, opened, first = _START, -1, 0
    if enclosed:
        state, opened, first = _QUOTED, 0, -1
    for place in range(data.size):
        byte = data[place]
        if state == _QUOTED:
            if byte == _QUOTE:
                state = _CLOSED
            continue
        if byte == _QUOTE:
            if state == _CLOSED:
                state = _QUOTED
            elif state == _START:
                state, opened = _QUOTED, place
            continue
        if byte == separator:
            state = _START
        elif byte in (_FEED, _RETURN):
            state = _START
            if first < 0 and byte == _FEED and place + 1 < data.size:
                first = place + 1
        else:
            state = _FIELD
    if state != _QUOTED:
        opened = -1
    return first, opened
