"""Kinds of columns whose features are tokens, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.types import Index
from spark_auc.errors import DataError
from spark_auc.features.kinds.named import Named
from spark_auc.features.murmur import Prefix, hash_of, prefix_of
from spark_auc.features.raw_columns import (
    Column,
    Numbers,
    Text,
    integers,
    read_only,
    validity_of,
)
from spark_auc.features.tokens import Slots, hash_codes

# A function that fills the slots of rows from a first row on.
FillTokens: TypeAlias = Callable[[int, Slots], None]
TextKernel: TypeAlias = Callable[..., int]


class Hashed(Named):
    """A kind of columns whose values are tokens ``name=value``, or ``name: part=value``.

    A kind is a frozen dataclass, which recipes store as those of `Numeric`.
    """

    PART: ClassVar[str] = ""

    @cached_property
    def prefix(self) -> Prefix:
        """The state of the hash before the value."""
        return prefix_of(f"{self.name}{self.PART}=")

    @classmethod
    def fitted(cls, name: str, type: str, values: tuple[str, ...] | None, codes: bool) -> Self:
        """The entry of a column.

        Parameters
        ----------
        name, type
            Name and type of the column.
        values, codes
            See `spark_auc.features.kinds.tokens.Tokens`.
        """
        return cls(name, type)

    @property
    def parts(self) -> tuple[Hashed, ...]:
        """What fills the slots of the column, which has a token for each: itself, as a rule."""
        return (self,)

    @property
    def has_missing(self) -> bool:
        """Whether missing values can have a token."""
        return True

    def filler(self, column: Column, empty: bool) -> FillTokens:
        """A function that fills the slots; ``empty``: missing values have a token.

        Raises
        ------
        DataError
            The column has another type than in the rows of the fit; by the function, a value
            cannot be used.
        """
        raise NotImplementedError

    def word(self, value: Any, zone: str) -> bytes:
        """The word of a single value that is not missing; `DataError` if it cannot be used.

        Parameters
        ----------
        value
            The value.
        zone
            The zone on whose clocks times are read.
        """
        raise NotImplementedError

    @property
    def bins(self) -> Index | None:
        """Hashes of bins of integers; None for tokens of words. See `hash_logarithms`."""
        return None

    def integer(self, value: Any) -> int | None:
        """A single value that is not missing as the integer that is binned, if there are bins."""
        return None

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """Numbers with which SQL and ONNX compare values, one for each of the first `words`.

        None where these systems cannot tell the words of values.
        """
        return None

    def unknown(self, column: Column) -> int | None:
        """Number of rows whose value was not in the rows of the fit.

        None where new values have tokens of their own, which are counted.
        """
        return None

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
            if row >= 0:
                raise self._broken(column, row, expected)

        return fill

    def _broken(self, column: Text, row: int, expected: str) -> DataError:
        """The error for a row of a column of text."""
        start, end = int(column.starts[row]), int(column.ends[row])
        text = column.data[max(start, 0) : max(end, 0)][:100].tobytes()
        return DataError(
            f"found {text.decode(errors='replace')!r} at bytes {start} to {end} of column "
            f"{self.name!r} (row {row} of a batch), expected {expected}; repair the row"
        )

    def _of_integers(self, kernel: Callable[..., None], column: Numbers, empty: bool) -> FillTokens:
        values, validity = read_only(integers(self.name, column.values)), validity_of(column)
        return lambda begin, slots: kernel(values, validity, begin, empty, slots)

    def _of_codes(self, codes: NDArray[Any], column: Column, empty: bool) -> FillTokens:
        """As `filler`, by the place of the word of each row among `words`."""
        codes, validity = read_only(codes.astype(np.int32, copy=False)), validity_of(column)

        def fill(begin: int, slots: Slots) -> None:
            hash_codes(self.word_hashes, codes, validity, begin, empty, slots)

        return fill
