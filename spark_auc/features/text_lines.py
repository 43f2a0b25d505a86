"""Places of the lines of text within its bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_auc.features.raw_columns import Text

_FEED, _RETURN = 10, 13


def lines_within(data: NDArray[np.uint8], begin: int, past: int, *, opens: bool) -> Text:
    """The lines that begin within a range of bytes.

    A line ends at a line feed, a carriage return, or a carriage return and a line feed. Bytes after
    the last of them are a line too.

    Parameters
    ----------
    data
        The bytes. They may end within the last line, which then ends with them.
    begin, past
        The range ``begin <= place < past``. If no line begins at ``begin`` by definition, ``data``
        has the byte before.
    opens
        Whether a line begins at ``begin``, whatever is before.

    Returns
    -------
    Text
        The lines without their ends, over the same bytes.
    """
    ends, starts = _breaks(data)
    first, last = np.searchsorted(starts, (begin, past))
    starts, ends = starts[first:last], ends[first + (not opens) :]
    if opens and begin < past:
        starts = np.append(begin, starts)
    if ends.size < starts.size:
        ends = np.append(ends, data.size)
    return Text(starts, ends[: starts.size], data)


def first_break(data: NDArray[np.uint8]) -> int:
    """The place of the first end of a line, or -1."""
    places = np.flatnonzero((data == _FEED) | (data == _RETURN))
    return int(places[0]) if places.size else -1


def _breaks(data: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where lines end, and where the lines after them begin."""
    returns = data == _RETURN
    if not returns.any():
        ends = np.flatnonzero(data == _FEED)
        return ends, ends + 1
    ends = np.flatnonzero(returns | (data == _FEED))
    # A line feed right after a carriage return is a part of the same end.
    returned = data[ends] == _RETURN
    paired = np.append(returned[:-1] & ~returned[1:] & (np.diff(ends) == 1), False)
    return ends[~np.append(False, paired[:-1])], ends[~paired] + 1
