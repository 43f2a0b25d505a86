"""Tokens of text, integers and booleans."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spark_auc.errors import ConfigError
from spark_auc.features.kinds.hashed import FillTokens, Hashed
from spark_auc.features.raw_columns import Column, Text, integers
from spark_auc.features.single_values import other, whole
from spark_auc.features.text_keys import keys_of, text_of
from spark_auc.features.tokens import hash_integers, hash_text

_BOOLEANS = "false", "true"
# The word of integers that are not among those of the fit. No integer has this text.
_OTHER = "other"


@dataclass(frozen=True)
class Tokens(Hashed):
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
    OF_VALUES = True

    values: tuple[str, ...] | None = None
    codes: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values is not None and not (self.type == "integer" and _ascend(self.values)):
            raise ConfigError(
                f"found the values {str(self.values)[:60]} of column {self.name!r} of type "
                f"{self.type}, expected ascending integers of 64 bits; fit the recipe again"
            )

    @classmethod
    def fitted(cls, name: str, type: str, values: tuple[str, ...] | None, codes: bool) -> Self:
        """See `Hashed.fitted`."""
        return cls(name, type, values, codes or None)

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
        """See `Hashed.words`."""
        if self.type == "boolean":
            return _BOOLEANS
        return None if self.values is None else (*self.values, _OTHER)

    def known(self, word: str) -> str:
        """The word of a value as its token has it."""
        return word if self.values is None or not word or word in self._listed else _OTHER

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """See `Hashed.numbers`: those of `values`, or of False and True."""
        if self.type == "boolean":
            return 0, 1
        return None if self.values is None else tuple(map(int, self.values))

    def word(self, value: Any, zone: str) -> bytes:
        """See `Hashed.word`."""
        if self.type == "boolean":
            if isinstance(value, bool | np.bool_):
                return b"true" if value else b"false"
            raise other(self.name, value, "a boolean")
        if isinstance(value, str):
            try:
                return self.known(value).encode()
            except UnicodeEncodeError:
                raise other(self.name, value, "text that UTF-8 can hold") from None
        if self.codes:
            raise other(self.name, value, "text, as numbers lose the zeros of codes such as 007,")
        return self.known(str(whole(self.name, self.type, value))).encode()

    def unknown(self, column: Column) -> int | None:
        """See `Hashed.unknown`."""
        if self.values is None:
            return None
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
        """See `Hashed.filler`."""
        self.check(column)
        if self.values is not None:
            return self._of_codes(self._codes(column), column, empty)
        if isinstance(column, Text):
            kernel = partial(hash_text, self.prefix)
            return self._of_text(kernel, "starts and ends within the bytes", column, empty)
        if column.values.dtype == np.bool_:
            return self._of_codes(column.values.astype(np.int64), column, empty)
        return self._of_integers(partial(hash_integers, self.prefix), column, empty)


def _ascend(values: tuple[str, ...]) -> bool:
    """Whether texts are the digits of ascending integers of 64 bits."""
    try:
        numbers = [int(value) for value in values]
    except ValueError:
        return False
    within = all(-(2**63) <= number < 2**63 for number in numbers)
    return within and numbers == sorted(set(numbers)) and [*map(str, numbers)] == [*values]
