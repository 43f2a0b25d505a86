"""Types of the values of text columns: numbers, booleans and times, found by one pass.

A column is of a type if its values have a format of it, but for few odd words, which then stand for
missing values. White space around values does not count.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_floating, is_integer

from spark_auc.core.row_source import State
from spark_auc.core.state.rules import COUNTS, MOST_ROWS
from spark_auc.core.state.schema import COUNT, Schema, array
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Bool, Int
from spark_auc.errors import DataError
from spark_auc.features.readings import FORMATS as TYPE_OF
from spark_auc.features.readings import PLAIN, Reading
from spark_auc.tables.missing import MISSING, present
from spark_auc.tables.names import folding
from spark_auc.tables.table import Batches, Table, fields_by_name, fields_named
from spark_auc.tables.tally import Tally, as_text
from spark_auc.tables.text_formats import FORMATS, INFERRED, TIMES_OF_DIGITS, WIDER
from spark_auc.tables.types import METADATA, is_text

T = TypeVar("T", bound=Table)
# What becomes of cells that do not fit their column.
Invalid: TypeAlias = Literal["error", "skip", "keep"]

_log = logging.getLogger(__name__)

# Codes: as numbers, 07 would be 7, and further digits would be lost.
CODE = r"^[+-]?(0[0-9]+|[0-9]{19,})$"
_KINDS, _READING = "kinds", "reading"
_ODD, _FITTING = "odd ", "fitting "
# Words for a missing number, boolean or time, some of which can be labels or words of text.
_MISSING = (*MISSING, "-", ".", r"\N", "NaT", "0000-00-00")
_NAMES = tuple(FORMATS)
_NOUNS = {
    "integer": "whole numbers",
    "float": "numbers",
    "boolean": "true or false",
    "time": "dates or times",
}
# The formats of labels and keys that are no words.
_OF_LABELS = ("integer", "float")
# Most odd words of a column, and their largest share of its values: of one word or beside many
# other values, and of several words beside few. So many other values are few.
MOST_ODD, _ONE, _SEVERAL, _FEW = 8, 0.5, 0.02, 256
# Those of formats beside which words have meanings, such as "normal" beside ">8" and "never" beside
# ">4".
_MOST_OF = {"boolean": 0.0, "band": _SEVERAL, "duration": _SEVERAL}
_UNDECIDED = "monthFirst", "dayFirst"
# Bytes of the state of a column: counts, odd words and other values.
_BYTES = 10_000
# Most bytes of the distinct values of several columns that are matched together.
_PART_BYTES = 2**26
# First distinct values of a column, with which a format is matched before the others.
_FIRST = 64
# Most bytes of a column in which the row of an odd word is looked for.
_GATHERED = 2**30


@dataclass(frozen=True, eq=False)
class TextKinds(SchemaState):
    """How many values of some columns of text do not fit each format.

    Parameters
    ----------
    fits : (c, t)
        Whether a format of `FORMATS` is possible: where a batch has more odd words than ``most``,
        it is not.
    odd : (c, t)
        Number of values that do not fit such a format.
    values : (c,)
        Number of values that are not missing.
    codes : (c,)
        Whether there is a code, such as 007.
    most
        Most odd words of a format.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "TextKinds",
        2,
        {
            "fits": array("|b1", "c", len(_NAMES)),
            "odd": array("<i8", "c", len(_NAMES), rule=COUNTS),
            "values": array("<i8", "c", rule=COUNTS),
            "codes": array("|b1", "c"),
            "most": COUNT,
        },
    )

    fits: Bool
    odd: Int
    values: Int
    codes: Bool
    most: int

    @classmethod
    def zero(cls, fits: Bool, most: int = MOST_ODD) -> TextKinds:
        """The state of no rows, for formats that may be possible."""
        none = np.zeros(len(fits), np.int64)
        return cls(fits, np.zeros(fits.shape, np.int64), none, none.astype(bool), most)

    def merge(self, other: TextKinds) -> TextKinds:
        """The state of both sets of rows."""
        fits = self.fits & other.fits
        odd, values = np.where(fits, self.odd + other.odd, 0), self.values + other.values
        return TextKinds(fits, odd, values, self.codes | other.codes, self.most)

    def odd_of(self, column: int) -> dict[str, int]:
        """Number of values of a column that do not fit each possible format."""
        possible = np.flatnonzero(self.fits[column])
        return {_NAMES[t]: int(self.odd[column, t]) for t in possible}

    def update(self, batch: pa.RecordBatch, absent: Sequence[Sequence[str]]) -> TextKinds:
        """The state with the rows of a batch, in whose columns some further words are no values."""
        fits, odd, values = self.fits.copy(), self.odd.copy(), self.values.copy()
        codes, size = self.codes.copy(), len(self.values)
        # Of a column without a possible format nothing can change: it stays text.
        for column, words, rows, is_first in _distinct(
            batch, absent, np.flatnonzero(fits.any(axis=1))
        ):
            values += np.bincount(column, rows, size).astype(np.int64)
            codes[column[_matching(words, CODE)]] = True
            fitted = dict[str, Bool]()
            for t, name in enumerate(_NAMES):
                fits_narrower = fitted.get(WIDER.get(name, ""), np.False_)
                matched, misfits = fits[:, t] & ~fits_narrower, np.zeros(column.size, np.bool_)
                # The others of a column are matched if the first values do not refute the format.
                for part in (is_first, ~is_first):
                    chosen = part & matched[column]
                    misfits[chosen] = ~_fitting(words.filter(pa.array(chosen)), name)
                    odd_words = np.bincount(column[misfits], minlength=size)
                    matched &= odd_words <= self.most
                fitted[name] = fits[:, t] & (odd_words == 0)
                fits[:, t] &= odd_words <= self.most
                odd_rows = np.bincount(column[misfits], rows[misfits], size).astype(np.int64)
                odd[:, t] = np.where(fits[:, t], odd[:, t] + odd_rows, 0)
        return replace(self, fits=fits, odd=odd, values=values, codes=codes)


class _Distinct(NamedTuple):
    """Distinct values of some columns.

    Parameters
    ----------
    column, words, rows : (n,)
        The column of each value, the value, and its number of rows.
    is_first : (n,)
        Whether it is one of the column's first values, which mostly refute a format.
    """

    column: Int
    words: pa.Array
    rows: Int
    is_first: Bool


def _distinct(
    batch: pa.RecordBatch, absent: Sequence[Sequence[str]], columns: Int
) -> Iterator[_Distinct]:
    """The distinct values of some columns of a batch, of many columns together.

    A pattern takes longer to prepare than to match with the values of a column of few rows.
    """
    found, size = list[_Distinct](), 0

    def together() -> _Distinct:
        column, texts, *others = zip(*found, strict=True)
        return _Distinct(
            np.concatenate(column), pa.concat_arrays(texts), *map(np.concatenate, others)
        )

    for k in columns:
        counts = as_text(batch.column(int(k))).value_counts()
        words = present(counts.field("values"), (*_MISSING, *absent[k]))
        known = words.is_valid()
        words, rows = words.filter(known), counts.field("counts").filter(known).to_numpy()
        is_first = np.arange(len(words)) < _FIRST
        if found and size + words.nbytes > _PART_BYTES:
            yield together()
            found, size = [], 0
        found.append(_Distinct(np.full(len(words), k), words, rows, is_first))
        size += words.nbytes
    if found:
        yield together()


def _fitting(words: pa.Array, name: str) -> Bool:
    """Whether words fit a format."""
    form = FORMATS[name]
    fits = _matching(words, form.pattern)
    if form.refuses and fits.any():
        kept = form.convert(words.filter(pa.array(fits)))
        fits[fits] = kept.is_valid().to_numpy(zero_copy_only=False)
    return fits


def _matching(words: pa.Array, pattern: str) -> Bool:
    matches = pc.match_substring_regex(words, pattern)
    return np.array(matches.to_numpy(zero_copy_only=False), np.bool_)


class Found(NamedTuple):
    """What the values of a column of text are.

    Parameters
    ----------
    reading
        How they are read.
    values
        Number of values that are not missing.
    odd
        Number of values that do not fit the format.
    words
        Some odd words, with the number of values of each.
    has_few
        Whether the other values are few: tokens then tell as much as numbers or times.
    """

    reading: Reading
    values: int
    odd: int = 0
    words: Mapping[str, int] = {}
    has_few: bool = True

    def sentence(self, others: str = "others count as missing") -> str:
        """What was odd, and what becomes of it, for the log."""
        words = ", ".join(f"{word!r} ({rows:,})" for word, rows in [*self.words.items()][:5])
        noun, name = _NOUNS[TYPE_OF[self.reading.format]], self.reading.name
        return (
            f"column {name!r}: {self.values - self.odd:,} of {self.values:,} values are {noun}; "
            f"{others}: {words}"
        )


def inferred(
    table: Table, exact: Collection[str] = (), formats: Collection[str] = tuple(INFERRED)
) -> dict[str, Found]:
    """How columns of text are read that have numbers, booleans, times or codes; others stay text.

    Of formats that all values fit, the first in the order of `INFERRED` is taken, else the one with
    the fewest odd values: of one word at most half of the values, of up to `MOST_ODD` words 2%, or
    half beside more than 256 other values. Of bands and durations all odd words are at most 2%, and
    booleans have none.
    Dates stay text, with a warning, where each may have the day or the month first.

    Parameters
    ----------
    table
        The rows.
    exact
        Names of columns whose words mean something, such as labels and keys: they are numbers only
        if all values are, and no booleans or times.
    formats
        The formats that may be possible.
    """
    texts = (pa.types.is_integer, is_text) if set(formats) <= {*TIMES_OF_DIGITS} else (is_text,)
    names = [field.name for field in table.schema if any(of(field.type) for of in texts)]
    lookup = fields_by_name(table)
    labels = {field.name for name in exact for field in lookup(name)}
    possible = [
        [form for form in formats if name not in labels or form in _OF_LABELS] for name in names
    ]
    kinds = _kinds(table, [Reading(name, "code") for name in names], possible, MOST_ODD)
    found, uncertain = dict[str, Found](), dict[str, Found]()
    for k, name in enumerate(names):
        odd, values = kinds.odd_of(k), int(kinds.values[k])
        form = min(odd, key=odd.__getitem__, default=None)
        if form is None or not values or odd[form] > _ONE * values:
            continue
        if kinds.codes[k]:
            found[name] = Found(Reading(name, "code"), values)
        elif all(odd.get(order) == odd[form] for order in _UNDECIDED):
            _log.warning(
                "column %r has dates of which the day or the month may be first: it stays text; "
                "set its type to monthFirst or dayFirst",
                name,
            )
        elif not odd[form]:
            found[name] = Found(Reading(name, form), values)
        elif name not in labels and odd[form] <= _MOST_OF.get(form, _ONE) * values:
            uncertain[name] = Found(Reading(name, form), values, odd[form])
    for name, one in _with_words(table, uncertain).items():
        rare = one.odd <= _SEVERAL * one.values or not one.has_few
        if len(one.words) == 1 or (rare and len(one.words) <= MOST_ODD):
            found[name] = one._replace(reading=replace(one.reading, absent=tuple(one.words)))
    return {name: found[name] for name in names if name in found}


def inferred_as(
    table: Table,
    types: Mapping[str, str],
    readings: Sequence[Reading] = (),
    invalid: Invalid = "keep",
) -> dict[str, Found]:
    """How columns of text are read for a recipe.

    Parameters
    ----------
    table
        The rows.
    types
        Types of columns in the recipe, such as "integer", by name; other columns have no entry.
    readings
        The readings of the recipe; other columns are read in the formats of their types.
    invalid
        What becomes of values that do not fit: "keep", they are missing; "skip", the caller leaves
        their rows out, see `fitting`.

    Raises
    ------
    DataError
        More than half of the values of a column do not fit, or, with "error", any.
    """
    fold = folding(exact=table.exact_names)
    own = {fold(reading.name): reading for reading in readings}
    kinds_of = {fold(name): kind for name, kind in types.items() if kind in PLAIN}
    wanted = {name: own.get(name, Reading(name, PLAIN[kind][0])) for name, kind in kinds_of.items()}
    known = [
        replace(wanted[fold(field.name)], name=field.name)
        for field in table.schema
        if fold(field.name) in wanted and _is_read(field, wanted[fold(field.name)])
    ]
    possible = [
        [*dict.fromkeys((reading.format, *PLAIN[kinds_of[fold(reading.name)]]))]
        for reading in known
    ]
    kinds, found = _kinds(table, known, possible), dict[str, Found]()
    for k, reading in enumerate(known):
        odd = kinds.odd_of(k)
        form = min(possible[k], key=odd.__getitem__)
        found[reading.name] = Found(replace(reading, format=form), int(kinds.values[k]), odd[form])
    found |= _with_words(table, {name: one for name, one in found.items() if one.odd})
    for name, one in found.items():
        if one.odd > _ONE * one.values:
            raise DataError(
                f"found {next(iter(one.words))!r} in column {name!r}, where {one.odd:,} of "
                f"{one.values:,} values are no {_NOUNS[kinds_of[fold(name)]]}, expected values "
                "as in the rows of the training; correct them, or train with such rows"
            )
        if one.odd and invalid == "error":
            raise _first_odd(table, one)
        if one.odd:
            is_skipped = invalid == "skip"
            _log.warning("%s", one.sentence(*["rows of others are left out"] * is_skipped))
    return found


def _first_odd(table: Table, found: Found) -> DataError:
    """The error of the first cell of a column that does not fit; of many rows, of any cell."""
    reading, word, place = found.reading, next(iter(found.words)), ""
    rows = table.select([reading.name]).gathered(_GATHERED)
    if rows is not None:
        column = rows.column(0)
        fits = np.concatenate([Converter(reading).fits(chunk) for chunk in column.chunks])
        row = int(np.argmin(fits))
        word, place = column[row].as_py(), f" of row {row + 1}"
    return DataError(
        f"found {word!r} in column {reading.name!r}{place}, expected "
        f"{_NOUNS[TYPE_OF[reading.format]]} as in the rows of the training; correct it, or set "
        "handleInvalid to keep, which takes it as missing, or to skip, which leaves the row out"
    )


def fitting(table: T, readings: Sequence[Reading]) -> T:
    """The rows in which the text of some columns fits their readings, or is missing."""
    converters = [Converter(reading) for reading in readings]

    def keep(arrays: Sequence[pa.Array]) -> Bool:
        fits = [one.fits(array) for one, array in zip(converters, arrays, strict=True)]
        return np.asarray(np.logical_and.reduce(fits), np.bool_)

    return table.where([reading.name for reading in readings], keep) if readings else table


def odd_words(table: Table, readings: Sequence[Reading]) -> dict[str, Mapping[str, int]]:
    """Words that do not fit the formats of columns of text, with their numbers of rows.

    Of many words, `MOST_ODD` and one more are counted.
    """
    fields = fields_named(table, [reading.name for reading in readings])
    wanted = {
        field.name: Found(replace(reading, absent=()), 0)
        for field, reading in zip(fields, readings, strict=True)
    }
    return {name: found.words for name, found in _with_words(table, wanted).items()}


def typed(table: T, readings: Sequence[Reading], *, strict: bool = True) -> T:
    """The table with text columns as numbers, booleans and times.

    Parameters
    ----------
    table
        The rows.
    readings
        How columns are read. Those without text stay as they are, but for integers that are times.
    strict
        Whether a pass over the rows raises `DataError` where a value does not fit the format of its
        column; else it is missing.

    Raises
    ------
    ConfigError
        A column is unknown.
    """
    fields = dict(zip(fields_named(table, [one.name for one in readings]), readings, strict=True))
    columns = {
        field.name: (
            field.with_type(FORMATS[reading.format].arrow).with_metadata(_noted(reading)),
            Converter(replace(reading, name=field.name), strict),
        )
        for field, reading in fields.items()
        if _is_read(field, reading)
    }
    if not columns:
        return table
    return table.cast(columns)


def _is_read(field: pa.Field, reading: Reading) -> bool:
    """Whether a reading applies to a column: to text, and to integers that are times."""
    is_digits = is_integer(field.type) and reading.format in TIMES_OF_DIGITS
    return is_text(field.type) or is_digits


def format_of(field: pa.Field) -> Reading | None:
    """How a column of `typed` was read; None for other columns."""
    noted = json.loads((field.metadata or {}).get(METADATA, b"{}")).get(_READING)
    return Reading(field.name, noted["format"], tuple(noted["absent"])) if noted else None


def readings_of(table: Table) -> tuple[Reading, ...]:
    """How text of columns of `typed` was read, where their types alone do not tell."""
    found = filter(None, map(format_of, table.schema))
    return tuple(reading for reading in found if not reading.is_plain)


def _noted(reading: Reading) -> dict[bytes, bytes]:
    noted = {"format": reading.format, "absent": [*reading.absent]}
    return {METADATA: json.dumps({_READING: noted}).encode()}


@dataclass(frozen=True)
class Converter:
    """Converts the text of a column; see `typed`."""

    reading: Reading
    strict: bool = False

    def fits(self, values: pa.Array) -> Bool:
        """Whether each value fits, or is missing."""
        fits = pc.or_(self(values).is_valid(), self._present(as_text(values)).is_null())
        return np.asarray(fits.to_numpy(zero_copy_only=False), np.bool_)

    def _present(self, values: pa.Array) -> pa.Array:
        return present(values, (*_MISSING, *self.reading.absent))

    def __call__(self, values: pa.Array) -> pa.Array:
        """The values; missing where they are odd words, or do not fit."""
        form = FORMATS[self.reading.format]
        values = as_text(values)
        # Most columns have neither blanks nor words for missing values: no search for them.
        with suppress(pa.ArrowInvalid):
            found = form.convert(values)
            is_nan = is_floating(found.type) and pc.any(pc.is_nan(found)).as_py()
            if not is_nan and found.null_count == values.null_count:
                return found
        if self.reading.format == "code":
            return values
        values = self._present(values)
        matches = pc.match_substring_regex(values, form.pattern)
        found = form.convert(pc.if_else(matches, values, None))
        if self.strict and found.null_count > values.null_count:
            odd = values.filter(pc.and_(found.is_null(), values.is_valid()))
            raise DataError(
                f"found {odd[0].as_py()!r} in column {self.reading.name!r}, expected "
                f"{_NOUNS[TYPE_OF[self.reading.format]]} of the format {self.reading.format}; "
                "correct it, list it under missingWords, or set another type"
            )
        return found


def _kinds(
    table: Table,
    readings: Sequence[Reading],
    possible: Sequence[Collection[str]],
    most: int = MOST_ROWS,
) -> TextKinds:
    """How many values of some text columns do not fit their possible formats, by one pass."""
    fits = np.array([[form in forms for form in _NAMES] for forms in possible], np.bool_)
    zero = TextKinds.zero(fits.reshape(len(readings), len(_NAMES)), most)
    absent = [reading.absent for reading in readings]

    def fold(batches: Batches) -> Iterator[tuple[str, State]]:
        found = zero
        for batch in batches:
            found = found.update(batch, absent)
        yield _KINDS, found

    if not readings:
        return zero
    what, names = f"types of {len(readings)} columns of text", [r.name for r in readings]
    size = 9 * fits.size + 16 * len(names)
    states = table.select(names).fold(fold, (TextKinds,), state_bytes=size, what=what)
    return cast(TextKinds, states.get(_KINDS, zero))


def _with_words(table: Table, found: Mapping[str, Found]) -> dict[str, Found]:
    """The same with some odd words, by one pass over columns that have any."""

    def fold(batches: Batches) -> Iterator[tuple[str, State]]:
        kinds = (_ODD, MOST_ODD + 1), (_FITTING, _FEW + 1)
        tallies = {(kind, name): Tally.zero(most) for kind, most in kinds for name in found}
        for batch in batches:
            for (name, one), values in zip(found.items(), batch.columns, strict=True):
                words = present(as_text(values), (*_MISSING, *one.reading.absent)).drop_null()
                fits = _fitting(words, one.reading.format)
                for (kind, most), own in zip(kinds, (~fits, fits), strict=True):
                    of_batch = Tally.of(words.filter(pa.array(own)), most)
                    tallies[kind, name] = tallies[kind, name].merge(of_batch)
        for (kind, name), tally in tallies.items():
            yield f"{kind}{name}", tally

    if not found:
        return {}
    what = f"odd words of {len(found)} columns of text"
    states = table.select([*found]).fold(fold, (Tally,), state_bytes=_BYTES * len(found), what=what)
    made = dict[str, Found]()
    for name, one in found.items():
        tally = cast(Tally, states[f"{_ODD}{name}"])
        pairs = zip(tally.values.tolist(), tally.rows.tolist(), strict=True)
        has_few = cast(Tally, states[f"{_FITTING}{name}"]).values.size <= _FEW
        words = dict(sorted(pairs, key=lambda pair: -pair[1]))
        made[name] = one._replace(words=words, has_few=has_few)
    return made
