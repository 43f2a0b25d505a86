"""Types of the values of text columns: numbers, booleans and times, found by one pass.

A type fits if all values fit it. White space around values does not count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_floating

from spark_auc.core.row_source import State
from spark_auc.core.state.schema import Schema, array
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Bool
from spark_auc.errors import DataError
from spark_auc.tables.missing import MISSING, present
from spark_auc.tables.names import folded
from spark_auc.tables.table import Batches, Table, field_of
from spark_auc.tables.types import is_text

T = TypeVar("T", bound=Table)

_log = logging.getLogger(__name__)

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = f"{_DAY}[T ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]{{1,9}})?)?"
# Codes: as numbers, 07 would be 7, and further digits would be lost.
CODE = r"^[+-]?(0[0-9]+|[0-9]{19,})$"
_KINDS = "kinds"
# Words for a missing number, boolean or time, some of which can be labels or words of text.
_MISSING = (*MISSING, "-", ".", r"\N", "NaT", "0000-00-00")


def _without_plus(values: pa.Array) -> pa.Array:
    """Numbers without a plus, which Arrow does not take."""
    if not pc.any(pc.starts_with(values, "+")).as_py():
        return values
    return pc.replace_substring_regex(values, r"^\+", "")


def _integers(values: pa.Array) -> pa.Array:
    return _without_plus(values).cast(pa.int64())


def _doubles(values: pa.Array) -> pa.Array:
    return _without_plus(values).cast(pa.float64())


def _booleans(values: pa.Array) -> pa.Array:
    return pc.utf8_lower(values).cast(pa.bool_())


def _times(values: pa.Array) -> pa.Array:
    # Arrow takes fractions of as many digits as its unit.
    shorter = pc.replace_substring_regex(values, r"([.][0-9]{6})[0-9]*", r"\1")
    return shorter.cast(pa.timestamp("us"))


def _zoned(values: pa.Array) -> pa.Array:
    shorter = pc.replace_substring_regex(values, r"([.][0-9]{6})[0-9]*", r"\1")
    joined = pc.replace_substring_regex(shorter, r" ?UTC$", "Z")
    joined = pc.replace_substring_regex(joined, r" ([+-][0-9:]+)$", r"\1")
    with_minutes = pc.replace_substring_regex(joined, r"(:[0-9.]+[+-][0-9]{2})$", r"\1:00")
    return with_minutes.cast(pa.timestamp("us", "UTC"))


class TextType(NamedTuple):
    """A type of text: the pattern of its values, the Arrow type, and the conversion."""

    pattern: str
    arrow: pa.DataType
    convert: Callable[[pa.Array], pa.Array]


# In this order the first that fits is taken; the values of a type fit the next of its family.
TYPES = {
    "integer": TextType(r"^[+-]?[0-9]{1,18}$", pa.int64(), _integers),
    "float": TextType(
        r"^[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|(?i:inf(inity)?))$",
        pa.float64(),
        _doubles,
    ),
    "boolean": TextType(r"^(?i)(true|false)$", pa.bool_(), _booleans),
    "date": TextType(f"^{_DAY}$", pa.date32(), lambda values: values.cast(pa.date32())),
    "time": TextType(f"^{_DAY}$|^{_TIME}$", pa.timestamp("us"), _times),
    "zoned": TextType(
        f"^{_TIME}( ?(UTC|[+-][0-9]{{2}}(:?[0-9]{{2}})?)|Z)$", pa.timestamp("us", "UTC"), _zoned
    ),
}
_NAMES = tuple(TYPES)
TIMES = ("date", "time", "zoned")
# Types of text by types of columns in recipes.
_OF_RECIPES = {
    "integer": ("integer", "float"),
    "float": ("float",),
    "boolean": ("boolean",),
    "time": TIMES,
}
_NOUNS = {
    "integer": "a whole number",
    "float": "a number",
    "boolean": "true or false",
    "date": "a date or time",
}
# Types of values that are written as words or times.
WORDS = ("boolean", *TIMES)


@dataclass(frozen=True, eq=False)
class TextKinds(SchemaState):
    """Which types all values of some columns fit.

    Parameters
    ----------
    fits : (c, t)
        Whether all values of a column fit a type of `TYPES`.
    some : (c,)
        Whether there is a value that is not missing.
    codes : (c,)
        Whether there is a code, such as 007.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "TextKinds",
        1,
        {
            "fits": array("|b1", "c", len(_NAMES)),
            "some": array("|b1", "c"),
            "codes": array("|b1", "c"),
        },
    )

    fits: Bool
    some: Bool
    codes: Bool

    @classmethod
    def zero(cls, columns: int) -> TextKinds:
        """The state of no rows."""
        none = np.zeros(columns, np.bool_)
        return cls(np.ones((columns, len(_NAMES)), np.bool_), none, none)

    def merge(self, other: TextKinds) -> TextKinds:
        """The state of both sets of rows."""
        return TextKinds(self.fits & other.fits, self.some | other.some, self.codes | other.codes)

    def update(self, batch: pa.RecordBatch) -> TextKinds:
        """The state with the rows of a batch."""
        fits, some, codes = self.fits.copy(), self.some.copy(), self.codes.copy()
        for k, column in enumerate(batch.columns):
            if codes[k] or (some[k] and not fits[k].any()):
                # Nothing can change: the column stays text.
                continue
            values = present(column.unique(), _MISSING).drop_null()
            if not len(values):
                continue
            some[k] = True
            codes[k] = bool(pc.match_substring_regex(values, CODE).true_count)
            for t, name in enumerate(_NAMES):
                fits[k, t] = fits[k, t] and _fits(values, name)
        return replace(self, fits=fits, some=some, codes=codes)

    def types(self) -> list[str]:
        """The type of each column, of `TYPES` or "text"."""
        typed = self.some & ~self.codes & self.fits.any(axis=1)
        first = self.fits.argmax(axis=1)
        return [_NAMES[t] if is_typed else "text" for t, is_typed in zip(first, typed, strict=True)]


def _fits(values: pa.Array, name: str) -> bool:
    kind = TYPES[name]
    if pc.match_substring_regex(values, kind.pattern).false_count:
        return False
    if name in TIMES:
        try:
            kind.convert(values)
        except pa.ArrowInvalid:
            return False
    return True


def inferred(
    table: Table, types: Mapping[str, str] | None = None, words: str | None = None
) -> dict[str, str]:
    """Types of the values of text columns, of `TYPES`, by one pass; others have no entry.

    Parameters
    ----------
    table
        The rows.
    types
        Types of columns in a recipe, such as "integer", by name; other columns have no entry.
        Default: the types that all values fit; columns with codes, such as 007, stay text.
    words
        Name of a column that is not read as booleans or times.

    Raises
    ------
    DataError
        A value does not fit the type of its column in the recipe.
    """
    names = [field.name for field in table.schema if is_text(field.type)]
    wanted = {folded(name): kind for name, kind in (types or {}).items()}
    if types is not None:
        names = [name for name in names if wanted.get(folded(name)) in _OF_RECIPES]
    kinds = _kinds(table, names)
    if types is None:
        found = dict(zip(names, kinds.types(), strict=True))
        own = None if words is None else folded(words)
        return {
            name: kind
            for name, kind in found.items()
            if kind in TYPES and not (folded(name) == own and kind in WORDS)
        }
    found = dict[str, str]()
    for k, name in enumerate(names):
        family = _OF_RECIPES[wanted[folded(name)]]
        fitting = [kind for kind in family if kinds.fits[k, _NAMES.index(kind)]]
        if not fitting:
            raise _misfit(table, name, family[0])
        found[name] = fitting[0]
    return found


def typed(table: T, types: Mapping[str, str]) -> T:
    """The table with text columns as numbers, booleans and times.

    A pass over the rows raises `DataError` where a value does not fit the type of its column.

    Parameters
    ----------
    table
        The rows.
    types
        Types of columns by name, of `TYPES`; see `inferred`. Columns without text stay as they are.

    Raises
    ------
    ConfigError
        A column is unknown.
    """
    fields = {field_of(table, name): kind for name, kind in types.items()}
    chosen = {field.name: TYPES[kind] for field, kind in fields.items() if is_text(field.type)}
    if not chosen:
        return table
    _log.info("types of columns of text: %s", dict(types))
    return table.cast({name: (kind.arrow, _Converter(name, kind)) for name, kind in chosen.items()})


@dataclass(frozen=True)
class _Converter:
    """Converts the text of a column."""

    name: str
    kind: TextType

    def __call__(self, values: pa.Array) -> pa.Array:
        # Most columns have neither blanks nor words for missing values: no search for them.
        with suppress(pa.ArrowInvalid):
            found = self.kind.convert(values)
            if not (is_floating(found.type) and pc.any(pc.is_nan(found)).as_py()):
                return found
        try:
            return self.kind.convert(present(values, _MISSING))
        except pa.ArrowInvalid as error:
            raise DataError(
                f"found text in column {self.name!r} that is no {self.kind.arrow} ({error}), "
                "expected values of this type; correct them, or set another type"
            ) from None


def _misfit(table: Table, name: str, kind: str) -> DataError:
    """The error for a column that has a value of another type than a recipe."""
    pattern = TYPES[kind].pattern

    def others(arrays: Sequence[pa.Array]) -> Bool:
        values = present(arrays[0], _MISSING)
        fits = pc.match_substring_regex(values, pattern).fill_null(True)
        return np.asarray(pc.invert(fits).to_numpy(zero_copy_only=False))

    found = table.select([name]).where([name], others).gathered()
    assert found is not None
    value = (
        repr(present(found.column(0).combine_chunks(), _MISSING)[0].as_py())
        if found.num_rows
        else "a value"
    )
    return DataError(
        f"found {value} in column {name!r}, expected {_NOUNS[kind]} as in the rows of the "
        "training; correct the value, or train with such rows"
    )


def _kinds(table: Table, names: Sequence[str]) -> TextKinds:
    """Which types all values of some text columns fit, by one pass."""

    def fold(batches: Batches) -> Iterator[tuple[str, State]]:
        found = TextKinds.zero(len(names))
        for batch in batches:
            found = found.update(batch)
        yield _KINDS, found

    if not names:
        return TextKinds.zero(0)
    what = f"types of {len(names)} columns of text"
    states = table.select(names).fold(fold, (TextKinds,), state_bytes=16 * len(names), what=what)
    return cast(TextKinds, states.get(_KINDS, TextKinds.zero(len(names))))
