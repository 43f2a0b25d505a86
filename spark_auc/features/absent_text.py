"""Text without white space around it, in which some words stand for missing values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Integer
from spark_auc.features.raw_columns import Text

# The words that pandas reads as missing values.
ABSENT = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
WHITE = " \t\n\v\f\r\xa0"
_SPACE, _TAB, _RETURN, _NO_BREAK, _LATIN = 0x20, 0x09, 0x0D, 0xA0, 0xC2


def present_text(text: Text, absent: Sequence[str]) -> Text:
    """The text without white space around it, missing where it is one of some words.

    White space is that of ASCII and the no-break space.

    Parameters
    ----------
    text
        The column.
    absent
        The words. Without any, the text stays as it is.
    """
    if not absent:
        return text
    words = [word.encode() for word in absent]
    joined = np.frombuffer(b"".join(words), np.uint8)
    bounds = np.cumsum([0, *map(len, words)])
    starts, ends = text.starts.copy(), text.ends.copy()
    known = np.ones(starts.size, np.bool_) if text.validity is None else text.validity.copy()
    if _find(text.data, starts, ends, known, joined, bounds) or text.validity is not None:
        return Text(starts, ends, text.data, known)
    return Text(starts, ends, text.data)


def present_word(value: str, absent: Sequence[str]) -> str | None:
    """One value as `present_text` has it; None where it is missing."""
    if not absent:
        return value
    word = value.strip(WHITE)
    return None if word in absent else word


@compiled()
def _find(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    known: Bool,
    words: NDArray[np.uint8],
    bounds: NDArray[np.int64],
) -> bool:
    """Narrow texts to what is inside of white space; whether there are missing ones."""
    found = False
    for row in range(starts.size):
        start, end = _inside(data, np.int64(starts[row]), np.int64(ends[row]))
        starts[row], ends[row] = start, end
        for k in range(bounds.size - 1):
            if bounds[k + 1] - bounds[k] == end - start:
                place = 0
                while start + place < end and data[start + place] == words[bounds[k] + place]:
                    place += 1
                if start + place == end:
                    known[row], found = False, True
    return found


@compiled()
def _inside(data: NDArray[np.uint8], start: Integer, end: Integer) -> tuple[Integer, Integer]:
    """The bounds of a text without white space around it."""
    while start < end:
        width = _blank(data, start, end)
        if width == 0:
            break
        start += width
    while start < end:
        width = 1 if _blank(data, end - 1, end) == 1 else 2
        if end - width < start or _blank(data, end - width, end) != width:
            break
        end -= width
    return start, end


@compiled()
def _blank(data: NDArray[np.uint8], place: Integer, end: Integer) -> int:
    """Bytes of the white space that begins at a place; 0 if there is none."""
    if data[place] == _SPACE or _TAB <= data[place] <= _RETURN:
        return 1
    if data[place] == _LATIN and place + 1 < end and data[place + 1] == _NO_BREAK:
        return 2
    return 0
