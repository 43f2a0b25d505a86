"""Logarithms of integers as tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.types import Index
from spark_auc.features.kinds.hashed import FillTokens, Hashed
from spark_auc.features.logarithms import (
    SMALL,
    hash_logarithms,
    hash_logarithms_of_integers,
)
from spark_auc.features.murmur import Prefix, prefix_of
from spark_auc.features.raw_columns import Column, Text, read_only
from spark_auc.features.single_values import other, whole
from spark_auc.features.tokens import Slots, hash_integers

_LOGARITHM = "log^2 "
# Bins of integers of 64 bits: floor(log(2^63)^2) is 1906.
_BINS = 1908


@dataclass(frozen=True)
class Log(Hashed):
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
        """See `Hashed.filler`; the function raises `DataError` for text that is no integer."""
        self.check(column)
        state = self.prefix, self.bins
        if isinstance(column, Text):
            kernel = partial(hash_logarithms, *state)
            return self._of_text(kernel, "an integer of at most 18 digits", column, empty)
        return self._of_integers(partial(hash_logarithms_of_integers, *state), column, empty)

    def integer(self, value: Any) -> int | None:
        """See `Hashed.integer`; None for empty text, and `DataError` for other text."""
        if not isinstance(value, str):
            return whole(self.name, self.type, value)
        digits = value[1:] if value[:1] in ("-", "+") else value
        if not value:
            return None
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
            raise other(self.name, value, "an integer of at most 18 digits")
        return int(value)

    @cached_property
    def bins(self) -> Index:
        """See `hash_logarithms`."""
        # Each task makes the table, so that one call of a kernel takes the place of thousands.
        bins = _hashes(prefix_of(f"{self.name}={_LOGARITHM}"), np.arange(_BINS))
        small = bins[np.floor(np.log(np.arange(3, SMALL)) ** 2).astype(np.int64)]
        missing = np.array([self.missing_hash], np.int32).view(np.uint32)
        parts = missing, _hashes(self.prefix, np.arange(3)), small, bins
        return read_only(np.concatenate(parts))


def _hashes(prefix: Prefix, values: NDArray[np.int64]) -> Index:
    """Hashes of a prefix followed by the digits of integers."""
    slots = Slots(np.empty(values.size, np.int32), np.empty(values.size, np.uint32), 0, 1)
    hash_integers(prefix, read_only(values), read_only(np.empty(0, np.bool_)), 0, True, slots)
    return slots.hashes
