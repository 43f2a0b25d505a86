"""Words of free text as tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Int
from spark_auc.features.kinds.hashed import FillTokens, Hashed
from spark_auc.features.raw_columns import Column, Text, read_only, validity_of
from spark_auc.features.single_values import other
from spark_auc.features.tokens import Slots, hash_text

# Words of a text that are tokens.
MOST_WORDS = 16
# ASCII letters in lower case and digits, and all bytes of other letters; 0 for what is between.
_LETTERS = np.array(
    [byte if byte > 127 else ord(chr(byte).lower()) * chr(byte).isalnum() for byte in range(256)],
    np.uint8,
)


@dataclass(frozen=True)
class Words(Hashed):
    """Tokens ``name: word=red`` of the first 16 words of a text.

    A word is a run of letters and digits, with ASCII letters in lower case; a letter is also each
    character beyond ASCII. A text without words has the token ``name: word=`` of missing values.

    Parameters
    ----------
    name, type
        Name and type of the column.
    """

    TYPES = ("text",)
    PART = ": word"

    @cached_property
    def parts(self) -> tuple[Hashed, ...]:
        """See `Hashed.parts`."""
        return tuple(_Word(self.name, self.type, place) for place in range(MOST_WORDS))

    def unknown(self, column: Column) -> int | None:
        """See `Hashed.unknown`: new texts have new words as a rule, which are not counted."""
        return 0


@dataclass(frozen=True)
class _Word(Hashed):
    """The token of the word at a place, from 0; that of missing values stands at the first."""

    TYPES = Words.TYPES
    PART = Words.PART

    place: int

    @property
    def has_missing(self) -> bool:
        """See `Hashed.has_missing`."""
        return self.place == 0

    def filler(self, column: Column, empty: bool) -> FillTokens:
        """See `Hashed.filler`."""
        self.check(column)
        text, validity = cast(Text, column), validity_of(cast(Text, column))
        data, empty = read_only(text.data), empty and self.has_missing

        def fill(begin: int, slots: Slots) -> None:
            rows = slice(begin, begin + slots.indices.size)
            starts, ends = (np.array(of[rows], np.int64) for of in (text.starts, text.ends))
            row = _find(self.place, data, _LETTERS, starts, ends)
            if row >= 0:
                raise self._broken(text, begin + row, "starts and ends within the bytes")
            offsets = np.append(0, np.cumsum(ends - starts))
            places = np.repeat(starts - offsets[:-1], ends - starts) + np.arange(offsets[-1])
            letters = _LETTERS[data[places]]
            here = validity[rows] if validity.size else validity
            hash_text(self.prefix, offsets[:-1], offsets[1:], letters, here, 0, empty, slots)

        return fill

    def word(self, value: Any, zone: str) -> bytes:
        """See `Hashed.word`; empty where the text has fewer words."""
        if not isinstance(value, str):
            raise other(self.name, value, "text")
        try:
            words = words_of(value)
        except UnicodeEncodeError:
            raise other(self.name, value, "text that UTF-8 can hold") from None
        return words[self.place] if self.place < len(words) else b""

    def _word(self, column: Column, row: int) -> str:
        text = cast(Text, column)
        data = text.data[text.starts[row] : text.ends[row]].tobytes()
        return self.word(data.decode(errors="replace"), "").decode()


def words_of(text: str) -> list[bytes]:
    """All words of a text; `UnicodeEncodeError` if UTF-8 cannot hold it."""
    letters = _LETTERS[np.frombuffer(text.encode(), np.uint8)].tobytes()
    return [word for word in letters.split(b"\0") if word]


@compiled()
def _find(
    place: int, data: NDArray[np.uint8], table: NDArray[np.uint8], starts: Int, ends: Int
) -> int:
    """Move starts and ends of texts to those of their words at a place; both are equal without it.

    Returns a row whose bytes do not lie within the data, or -1.
    """
    for row in range(starts.size):
        at, end = starts[row], ends[row]
        if not 0 <= at <= end <= data.size:
            return row
        for _ in range(place + 1):
            while at < end and table[data[at]] == 0:
                at += 1
            starts[row] = at
            while at < end and table[data[at]] != 0:
                at += 1
        ends[row] = at
    return -1
