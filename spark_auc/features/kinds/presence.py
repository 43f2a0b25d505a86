"""Whether there is a value, of columns whose values are too many to tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from spark_auc.features.kinds.hashed import FillTokens, Hashed
from spark_auc.features.raw_columns import Column, Text, rows_of

_GIVEN = "given"


@dataclass(frozen=True)
class Presence(Hashed):
    """A token for rows with a value, ``name: value=given``, and one for rows without.

    Parameters
    ----------
    name, type
        Name and type of the column.
    """

    TYPES: ClassVar[tuple[str, ...]] = ("text", "integer")
    SAME = TYPES
    PART = ": value"

    @property
    def words(self) -> tuple[str, ...]:
        """See `Hashed.words`."""
        return (_GIVEN,)

    def unknown(self, column: Column) -> int | None:
        """See `Hashed.unknown`."""
        return 0

    def filler(self, column: Column, empty: bool) -> FillTokens:
        """See `Hashed.filler`."""
        self.check(column)
        is_empty = np.zeros(rows_of(column), np.bool_)
        if isinstance(column, Text):
            is_empty = np.asarray(column.starts) == np.asarray(column.ends)
        return self._of_codes(is_empty, column, empty)

    def word(self, value: Any, zone: str) -> bytes:
        """See `Hashed.word`."""
        return _GIVEN.encode()

    def _word(self, column: Column, row: int) -> str:
        return "" if isinstance(column, Text) and column.starts[row] == column.ends[row] else _GIVEN
