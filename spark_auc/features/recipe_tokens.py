"""Hashed columns of a recipe: tokens of text, integers, booleans, logarithms and times."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.types import Index
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.logarithms import (
    SMALL,
    hash_logarithms,
    hash_logarithms_of_integers,
)
from spark_auc.features.murmur import Prefix, hash_of, prefix_of
from spark_auc.features.raw_columns import (
    Column,
    Numbers,
    Text,
    integers,
    read_only,
    validity_of,
)
from spark_auc.features.recipe_columns import Named
from spark_auc.features.text_keys import keys_of, text_of
from spark_auc.features.times import hours, weekdays
from spark_auc.features.tokens import Slots, hash_codes, hash_integers, hash_text

_LOGARITHM = "log^2 "
# Bins of integers of 64 bits: floor(log(2^63)^2) is 1906.
_BINS = 1908
_BOOLEANS = "false", "true"
# The word of integers that are not among those of the fit. No integer has this text.
_OTHER = "other"
# A function that fills the slots of rows from a first row on.
FillTokens: TypeAlias = Callable[[int, Slots], None]
TextKernel: TypeAlias = Callable[..., int]


class _Hashed(Named):
    """A column whose values are tokens ``name=value``, or ``name: part=value``."""

    PART: ClassVar[str] = ""

    @cached_property
    def prefix(self) -> Prefix:
        """The state of the hash before the value."""
        return prefix_of(f"{self.name}{self.PART}=")

    @property
    def missing_hash(self) -> int:
        """The signed hash of the token of missing values."""
        return hash_of(self.prefix, "")

    @property
    def words(self) -> tuple[str, ...] | None:
        """The words ``(v,)`` of all tokens but that of missing values; None if they are unknown."""
        return None

    @cached_property
    def word_hashes(self) -> Index:
        """The hashes ``(v + 1,)`` of the tokens of `words`, then that of missing values."""
        hashed = [hash_of(self.prefix, word) for word in (*(self.words or ()), "")]
        return read_only(np.array(hashed, np.int32).view(np.uint32))

    def token(self, column: Column, row: int) -> str:
        """The token of a row as text, such as "city=a", "city missing" or "when: hour=7"."""
        word = (
            ""
            if column.validity is not None and not column.validity[row]
            else self._word(column, row)
        )
        return f"{self.name}{self.PART}={word}" if word else f"{self.name}{self.PART} missing"

    def _word(self, column: Column, row: int) -> str:
        """The value of a token of a row that is not missing."""
        if isinstance(column, Text):
            bytes_of_row = slice(column.starts[row], column.ends[row])
            return column.data[bytes_of_row].tobytes().decode(errors="replace")
        return str(column.values[row].item()).lower()

    def _of_text(self, kernel: TextKernel, expected: str, column: Text, empty: bool) -> FillTokens:
        places = read_only(column.starts), read_only(column.ends)
        data, validity = read_only(column.data), validity_of(column)

        def fill(begin: int, slots: Slots) -> None:
            row = kernel(*places, data, validity, begin, empty, slots)
            if row < 0:
                return
            start, end = int(column.starts[row]), int(column.ends[row])
            text = column.data[max(start, 0) : max(end, 0)][:100].tobytes()
            raise DataError(
                f"found {text.decode(errors='replace')!r} at bytes {start} to {end} of column "
                f"{self.name!r} (row {row} of a batch), expected {expected}; repair the row"
            )

        return fill

    def _of_integers(self, kernel: Callable[..., None], column: Numbers, empty: bool) -> FillTokens:
        values, validity = read_only(integers(self.name, column.values)), validity_of(column)
        return lambda begin, slots: kernel(values, validity, begin, empty, slots)

    def _of_codes(self, codes: NDArray[Any], column: Column, empty: bool) -> FillTokens:
        """As `filler`, by the place of the word of each row among `words`."""
        codes, validity = read_only(codes), validity_of(column)

        def fill(begin: int, slots: Slots) -> None:
            hash_codes(self.word_hashes, codes, validity, begin, empty, slots)

        return fill


@dataclass(frozen=True)
class Log(_Hashed):
    """Tokens of integers, binned by their logarithms as for Criteo's click logs.

    An integer ``v > 2`` has the token ``log^2 k`` with ``k = floor(log(v)^2)``, others have their
    digits. The integers may be given as text.

    Parameters
    ----------
    name, type
        Name and type of the column.
    """

    TYPES = ("integer", "text")
    SAME = TYPES

    def _word(self, column: Column, row: int) -> str:
        word = super()._word(column, row)
        if not word:
            return ""
        number = int(word)
        return f"{_LOGARITHM}{math.floor(math.log(number) ** 2)}" if number > 2 else str(number)

    def filler(self, column: Column, empty: bool) -> FillTokens:
        """A function that fills the slots; ``empty``: missing values have a token.

        Raises
        ------
        DataError
            The column has another type than in the rows of the fit; by the function, text is not
            an integer.
        """
        self.check(column)
        state = self.prefix, self.bins
        if isinstance(column, Text):
            kernel = partial(hash_logarithms, *state)
            return self._of_text(kernel, "an integer of at most 18 digits", column, empty)
        return self._of_integers(partial(hash_logarithms_of_integers, *state), column, empty)

    @cached_property
    def bins(self) -> Index:
        """See `hash_logarithms`."""
        # Each task makes the table, so that one call of a kernel takes the place of thousands.
        bins = _hashes(prefix_of(f"{self.name}={_LOGARITHM}"), np.arange(_BINS))
        small = bins[np.floor(np.log(np.arange(3, SMALL)) ** 2).astype(np.int64)]
        missing = np.array([self.missing_hash], np.int32).view(np.uint32)
        parts = missing, _hashes(self.prefix, np.arange(3)), small, bins
        return read_only(np.concatenate(parts))


@dataclass(frozen=True)
class Tokens(_Hashed):
    """Tokens of text, integers or booleans, as Spark ML's FeatureHasher hashes them.

    The integer 7 and the text "7" are the same token. Floats are refused, as their digits differ
    between languages.

    Parameters
    ----------
    name, type
        Name and type of the column.
    values
        The digits of the integers in the rows of the fit, ascending. Other integers share the token
        ``name=other``, so that all tokens are known. Default: each integer has a token of its own.
    codes
        Whether the text has codes such as 007, which integers cannot stand for. Default: no.
    """

    TYPES = ("text", "integer", "boolean")
    SAME = ("text", "integer")

    values: tuple[str, ...] | None = None
    codes: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values is not None and not (self.type == "integer" and _ascend(self.values)):
            raise ConfigError(
                f"found the values {str(self.values)[:60]} of column {self.name!r} of type "
                f"{self.type}, expected ascending integers of 64 bits; fit the recipe again"
            )

    def accepts(self, type: str) -> bool:
        """See `Named.accepts`."""
        return super().accepts(type) and not (self.codes and type != self.type)

    @property
    def remedy(self) -> str:
        """See `Named.remedy`."""
        if not self.codes:
            return super().remedy
        return "read it as text, as numbers lose the zeros of codes such as 007 (pandas: dtype=str)"

    @property
    def words(self) -> tuple[str, ...] | None:
        """See `_Hashed.words`."""
        if self.type == "boolean":
            return _BOOLEANS
        return None if self.values is None else (*self.values, _OTHER)

    def known(self, word: str) -> str:
        """The word of a value as its token has it."""
        return word if self.values is None or not word or word in self._listed else _OTHER

    def unknown(self, column: Column) -> int:
        """Number of rows whose value is none of `values`."""
        is_other = self._codes(column) == len(self.values or ())
        return int(np.count_nonzero(is_other & (column.validity is None or column.validity)))

    @cached_property
    def _listed(self) -> frozenset[str]:
        return frozenset(self.values or ())

    def _codes(self, column: Column) -> NDArray[np.int64]:
        """The places ``(n,)`` of the values in `words`; the number of words for empty text."""
        values = self.values or ()
        found: NDArray[Any]
        wanted: NDArray[Any]
        if isinstance(column, Text):
            found, wanted = keys_of(self.name, column), keys_of(self.name, text_of(values))
        else:
            found = integers(self.name, column.values)
            wanted = np.array([int(value) for value in values], np.int64)
        order = np.argsort(wanted)
        places = np.searchsorted(wanted[order], found)
        codes = np.append(order, len(values))[places]
        codes[np.append(wanted, 0)[codes] != found] = len(values)
        return np.where(np.isnan(found), len(values) + 1, codes)

    def _word(self, column: Column, row: int) -> str:
        return self.known(super()._word(column, row))

    def filler(self, column: Column, empty: bool) -> FillTokens:
        """As `Log.filler`; the function raises `DataError` for rows outside the bytes."""
        self.check(column)
        if self.values is not None:
            return self._of_codes(self._codes(column), column, empty)
        if isinstance(column, Text):
            kernel = partial(hash_text, self.prefix)
            return self._of_text(kernel, "starts and ends within the bytes", column, empty)
        if column.values.dtype == np.bool_:
            return self._of_codes(column.values.astype(np.uint8), column, empty)
        return self._of_integers(partial(hash_integers, self.prefix), column, empty)


class _TimePart(_Hashed):
    """A part of a time: a code that counts its words."""

    TYPES = ("time",)
    WORDS: ClassVar[tuple[str, ...]]

    @property
    def words(self) -> tuple[str, ...]:
        """See `_Hashed.words`."""
        return self.WORDS

    def _codes_of(self, times: NDArray[Any]) -> NDArray[Any]:
        raise NotImplementedError

    def filler(self, column: Column, empty: bool) -> FillTokens:
        """As `Log.filler`."""
        self.check(column)
        return self._of_codes(self._codes_of(cast(Numbers, column).values), column, empty)

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


def _ascend(values: tuple[str, ...]) -> bool:
    """Whether texts are the digits of ascending integers of 64 bits."""
    try:
        numbers = [int(value) for value in values]
    except ValueError:
        return False
    within = all(-(2**63) <= number < 2**63 for number in numbers)
    return within and numbers == sorted(set(numbers)) and [*map(str, numbers)] == [*values]


def _hashes(prefix: Prefix, values: NDArray[np.int64]) -> Index:
    """Hashes of a prefix followed by the digits of integers."""
    slots = Slots(np.empty(values.size, np.int32), np.empty(values.size, np.uint32), 0, 1)
    hash_integers(prefix, read_only(values), read_only(np.empty(0, np.bool_)), 0, True, slots)
    return slots.hashes


Hashed: TypeAlias = Log | Tokens | Hour | Weekday
