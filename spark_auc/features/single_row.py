"""The features of one row, by one kernel for all columns.

`Recipe.transform` calls a kernel for each column, which takes longer than the row. Here the
constants of all columns are in arrays. Each feature is computed by the same functions in the same
order, so that its bits are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Float, Index, Int
from spark_auc.errors import DataError, some_of
from spark_auc.features.absent_text import present_word
from spark_auc.features.kinds.numeric import FillNumbers, Numeric
from spark_auc.features.logarithms import logarithm
from spark_auc.features.murmur import Prefix, after
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_rows import Entries, fill_numbers, join
from spark_auc.features.single_values import (
    column_of,
    days,
    is_missing,
    number,
    whole_number,
)
from spark_auc.features.splines import hat
from spark_auc.features.tokens import DIGITS, index_of


class _NumberPlan(NamedTuple):
    """Numeric entries: one place in each array for each entry.

    Parameters
    ----------
    source
        Place of its number in those of the row.
    slot, first
        Its first slot, and the index of its first feature.
    indicator
        Whether a missing value has a feature.
    begin, end
        Its knots among ``knots``; none for standardised numbers.
    is_spline
        Whether it is a spline.
    mean, deviation
        Of standardised numbers.
    knots
        The knots of all entries.
    """

    source: Int
    slot: Int
    first: Int
    indicator: Bool
    begin: Int
    end: Int
    is_spline: Bool
    mean: Float
    deviation: Float
    knots: Float


class _TokenPlan(NamedTuple):
    """Columns of tokens: one place in each array for each column.

    Parameters
    ----------
    state, rest, shift, length
        The state of the hash before the value; see `Prefix`.
    bins : (l, b)
        See `spark_auc.features.logarithms.hash_logarithms`, for each column of logarithms.
    line
        Its line of ``bins``; -1 for words.
    slot
        Slot of the first column.
    first, dimension
        See `spark_auc.features.tokens.Slots`.
    empty
        Whether missing values have a token in each slot.
    """

    state: Index
    rest: NDArray[np.uint64]
    shift: NDArray[np.uint64]
    length: NDArray[np.uint64]
    bins: NDArray[np.uint32]
    line: Int
    slot: int
    first: int
    dimension: int
    empty: Bool


@dataclass(frozen=True, eq=False)
class SingleRow:
    """The map of single rows that `Recipe.transform` makes of tables.

    Parameters
    ----------
    recipe
        The recipe.
    sources
        Names of the numbers of a row, and how they are read.
    planned
        The numeric entries with constants for the kernel.
    numbers
        These constants.
    tokens
        The columns of tokens.
    """

    recipe: Recipe
    sources: tuple[tuple[str, Callable[[str, Any], float]], ...]
    planned: tuple[Numeric, ...]
    numbers: _NumberPlan
    tokens: _TokenPlan

    @classmethod
    def of(cls, recipe: Recipe) -> Self:
        """The map of a recipe."""
        return cls(recipe, *_numbers(recipe), _tokens(recipe))

    def __call__(self, row: Mapping[str, Any]) -> tuple[Float, NDArray[np.int32]]:
        """Values and indices of the features of a row, indices ascending and distinct.

        Parameters
        ----------
        row
            Values by the names of the columns: numbers, text, booleans, times, and None or NaN for
            missing ones. Others are ignored.

        Raises
        ------
        DataError
            A column is missing, or a value has another type or cannot be used.
        """
        recipe, plan = self.recipe, self.tokens
        try:
            if recipe.derived:
                row = {**row, **{d.name: d.of_row(row, recipe.zone) for d in recipe.derived}}
            values = np.array([read(name, row[name]) for name, read in self.sources], float)
            words, integers, valid = self._words(row)
        except KeyError as missing:
            raise DataError(
                f"found no column {missing.args[0]!r} among {some_of(row)}, expected all columns "
                "of the fit; add it, or None for a missing value"
            ) from None
        ends = np.cumsum([len(word) for word in words], dtype=np.int64)
        data = np.frombuffer(b"".join(words) or b"\0", np.uint8)
        entries = recipe.empty_entries(1)
        fault = _fill(values, self.numbers, entries.indices, entries.values)
        if fault >= 0:
            name = self.planned[fault].name
            raise DataError(
                f"found {row[name]} in column {name!r}, expected a number whose distance from the "
                "mean of the fit is finite; repair or drop the row, or use splines"
            )
        if recipe.joint or len(self.planned) < len(recipe.numeric):
            self._fill_others(row, entries)
        if recipe.tokens:
            _hash(data, ends, integers, valid, plan, entries.indices, entries.hashes)
        most = recipe.slots.size + len(recipe.slot_pairs)
        out, indices, ends_of_rows = np.empty(most), np.empty(most, np.int32), np.zeros(1, np.int32)
        stored = join(entries, recipe.layout, 0, out, indices, ends_of_rows)
        if stored < 0:
            raise DataError(
                "found a row whose norm is not finite, expected a finite norm; repair or drop the "
                "row, or use splines"
            )
        return out[:stored], indices[:stored]

    def _words(self, row: Mapping[str, Any]) -> tuple[list[bytes], Int, Bool]:
        """The words of all columns of tokens, and the integers of those of logarithms."""
        words, logs = [b""] * len(self.recipe.tokens), self.tokens.bins.shape[0]
        integers, valid, at = np.zeros(logs, np.int64), np.zeros(logs, np.bool_), 0
        for k, column in enumerate(self.recipe.tokens):
            value = self._value(row, column.name)
            if column.bins is not None:
                whole = None if is_missing(value) else column.integer(value)
                if whole is not None:
                    integers[at], valid[at] = whole, True
                at += 1
            elif not is_missing(value):
                words[k] = column.word(value, self.recipe.zone)
        return words, integers, valid

    def _value(self, row: Mapping[str, Any], name: str) -> Any:
        value = row[name]
        is_float = isinstance(value, float | np.floating)
        if is_float and math.isinf(value) and name in self.recipe.whole:
            return None
        return present_word(value, self.recipe.absent) if isinstance(value, str) else value

    @cached_property
    def _other_types(self) -> dict[str, str]:
        """Types of the columns of pairs, trees and entries without a plan, by name."""
        of_several = [column for entry in self.recipe.joint for column in entry.columns]
        alone = [column for column in self.recipe.numeric if column.constants is None]
        return {column.name: column.type for column in (*of_several, *alone)}

    def _fill_others(self, row: Mapping[str, Any], entries: Entries) -> None:
        """Fill the slots of pairs, trees and entries without a plan, as of a table of one row."""
        recipe, slot = self.recipe, 0
        columns = {
            name: column_of(name, kind, self._value(row, name), recipe.zone)
            for name, kind in self._other_types.items()
        }
        both = zip(recipe.numeric, recipe.starts, recipe.indicators, strict=False)
        fillers: list[tuple[int, FillNumbers | None]] = []
        for column, first, indicator in both:
            fill = None
            if column.constants is None:
                fill = column.filler(columns[column.name], first, indicator)
            fillers.append((column.slots, fill))
        for entry, first in zip(recipe.joint, recipe.starts[len(recipe.numeric) :], strict=False):
            fillers.append((entry.slots, entry.filler(columns, first)))
        for slots, fill in fillers:
            if fill is not None:
                fill_numbers(fill, slice(slot, slot + slots), 0, 1, entries)
            slot += slots


def _numbers(
    recipe: Recipe,
) -> tuple[tuple[tuple[str, Any], ...], tuple[Numeric, ...], _NumberPlan]:
    slots = np.cumsum([0, *(column.slots for column in recipe.numeric)])[:-1].tolist()
    entries = zip(recipe.numeric, slots, recipe.starts, recipe.indicators, strict=False)
    planned = [entry for entry in entries if entry[0].constants is not None]
    columns = [column for column, *_ in planned]
    constants = [constants for column in columns if (constants := column.constants)]
    types = {column.name: column.type for column in columns}
    time = partial(days, zone=recipe.zone)
    read = {
        name: time if kind == "time" else whole_number if name in recipe.whole else number
        for name, kind in types.items()
    }
    names = list(types)
    knots = [found.knots or () for found in constants]
    ends = np.cumsum([0, *map(len, knots)])
    plan = _NumberPlan(
        np.array([names.index(column.name) for column in columns], np.int64),
        np.array([slot for _, slot, *_ in planned], np.int64),
        np.array([first for *_, first, _ in planned], np.int64),
        np.array([indicator for *_, indicator in planned], np.bool_),
        ends[:-1].astype(np.int64),
        ends[1:].astype(np.int64),
        np.array([found.knots is not None for found in constants], np.bool_),
        np.array([found.mean for found in constants], float),
        np.array([found.deviation for found in constants], float),
        np.array([knot for own in knots for knot in own], float),
    )
    return tuple(read.items()), tuple(columns), plan


def _tokens(recipe: Recipe) -> _TokenPlan:
    prefixes = [column.prefix for column in recipe.tokens]
    bins = [found for column in recipe.tokens if (found := column.bins) is not None]
    places = iter(range(len(bins)))
    lines = [-1 if column.bins is None else next(places) for column in recipe.tokens]
    return _TokenPlan(
        np.array([prefix.state for prefix in prefixes], np.uint32),
        np.array([prefix.rest for prefix in prefixes], np.uint64),
        np.array([prefix.shift for prefix in prefixes], np.uint64),
        np.array([prefix.length for prefix in prefixes], np.uint64),
        np.stack(bins) if bins else np.empty((0, 0), np.uint32),
        np.array(lines, np.int64),
        recipe.slots.size - len(recipe.tokens),
        recipe.starts[-3],
        recipe.dimension,
        np.array(
            [recipe.missing == "indicator" and c.has_missing for c in recipe.tokens], np.bool_
        ),
    )


@compiled()
def _fill(values: Float, plan: _NumberPlan, indices: NDArray[np.int32], out: Float) -> int:
    """Fill the slots of numeric entries; returns an entry whose feature is not finite, or -1."""
    for e in range(plan.source.size):
        x, slot, first = values[plan.source[e]], plan.slot[e], plan.first[e]
        begin, end = plan.begin[e], plan.end[e]
        indices[slot, 0], out[slot, 0] = -1, 0.0
        if plan.is_spline[e]:
            indices[slot + 1, 0], out[slot + 1, 0] = -1, 0.0
        if np.isnan(x):
            if plan.indicator[e]:
                features = end - begin if plan.is_spline[e] else 1
                indices[slot, 0], out[slot, 0] = first + features, 1.0
        elif not plan.is_spline[e]:
            indices[slot, 0] = first
            out[slot, 0] = (x - plan.mean[e]) / plan.deviation[e]
            if not np.isfinite(out[slot, 0]):
                return e
        elif begin < end:
            low, share = hat(x, plan.knots, begin, end - 1)
            at = first + low - begin
            indices[slot, 0], out[slot, 0] = at, 1.0 - share
            if share > 0.0:
                indices[slot + 1, 0], out[slot + 1, 0] = at + 1, share
    return -1


@compiled()
def _hash(
    data: NDArray[np.uint8],
    ends: Int,
    integers: Int,
    valid: Bool,
    plan: _TokenPlan,
    indices: NDArray[np.int32],
    hashes: NDArray[np.uint32],
) -> None:
    """Fill the slots of tokens."""
    inverse, buffer, start = 1.0 / plan.dimension, np.empty(DIGITS, np.uint8), np.int64(0)
    for k in range(plan.state.size):
        prefix = Prefix(plan.state[k], plan.rest[k], plan.shift[k], plan.length[k])
        line, end, hashed = plan.line[k], ends[k], np.uint32(0)
        missing = not valid[line] if line >= 0 else start == end
        if line < 0:
            hashed = after(prefix, data, np.uint64(start), np.uint64(end))
        elif missing:
            hashed = plan.bins[line, 0]
        else:
            hashed = logarithm(prefix, plan.bins[line], integers[line], buffer)
        start = end
        if missing and not plan.empty[k]:
            indices[plan.slot + k, 0] = -1
            continue
        indices[plan.slot + k, 0] = plan.first + index_of(hashed, plan.dimension, inverse)
        if hashes.size:
            hashes[k, 0] = hashed
