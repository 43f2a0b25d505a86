"""Hours and weekdays of times as tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.features.kinds.hashed import FillTokens, Hashed
from spark_auc.features.raw_columns import Column, Numbers
from spark_auc.features.single_values import microseconds
from spark_auc.features.times import hours, weekdays


class _TimePart(Hashed):
    """A part of a time: a code that counts its words."""

    TYPES = ("time",)
    WORDS: ClassVar[tuple[str, ...]]

    @property
    def words(self) -> tuple[str, ...]:
        """See `Hashed.words`."""
        return self.WORDS

    def _codes_of(self, times: NDArray[Any]) -> NDArray[Any]:
        raise NotImplementedError

    def filler(self, column: Column, empty: bool) -> FillTokens:
        """See `Hashed.filler`."""
        self.check(column)
        return self._of_codes(self._codes_of(cast(Numbers, column).values), column, empty)

    def word(self, value: Any, zone: str) -> bytes:
        """See `Hashed.word`."""
        time = np.array([microseconds(self.name, value, zone)]).view("datetime64[us]")
        return self.WORDS[int(self._codes_of(time)[0])].encode()

    def _word(self, column: Column, row: int) -> str:
        code = int(self._codes_of(cast(Numbers, column).values[row : row + 1])[0])
        return self.WORDS[code] if code < len(self.WORDS) else ""


@dataclass(frozen=True)
class Hour(_TimePart):
    """Tokens ``name: hour=13`` of the hour of a time, from 0 to 23 in UTC.

    Parameters
    ----------
    name, type
        Name and type of the column.
    """

    PART = ": hour"
    WORDS = tuple(map(str, range(24)))

    def _codes_of(self, times: NDArray[Any]) -> NDArray[Any]:
        return hours(times)


@dataclass(frozen=True)
class Weekday(_TimePart):
    """Tokens ``name: weekday=1`` of the weekday of a time in UTC, from 1 (Monday) to 7.

    Parameters
    ----------
    name, type
        Name and type of the column.
    """

    PART = ": weekday"
    WORDS = tuple("1234567")

    def _codes_of(self, times: NDArray[Any]) -> NDArray[Any]:
        return weekdays(times)
