"""Types of the values of text columns: numbers, booleans and times, found by one pass.

A type fits if all values fit it. Missing values are empty or one of `MISSING`; in columns of text,
they stay as they are. Blanks around values do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.core.row_source import State
from spark_auc.core.state.schema import Schema, array
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Bool
from spark_auc.tables.table import Batches, Table
from spark_auc.tables.types import is_text

# Texts of a missing number, boolean or time.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = f"{_DAY}[T ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]{{1,9}})?)?"
# Codes: as numbers, 07 would be 7, and further digits would be lost.
CODE = r"^[+-]?(0[0-9]+|[0-9]{19,})$"
_KINDS = "kinds"


def _integers(values: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(values, r"^\+", "").cast(pa.int64())


def _doubles(values: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(values, r"^\+", "").cast(pa.float64())


def _booleans(values: pa.Array) -> pa.Array:
    return pc.equal(pc.utf8_lower(values), "true")


def _times(values: pa.Array) -> pa.Array:
    # Arrow takes fractions of as many digits as its unit.
    shorter = pc.replace_substring_regex(values, r"([.][0-9]{6})[0-9]*", r"\1")
    return shorter.cast(pa.timestamp("us"))


def _zoned(values: pa.Array) -> pa.Array:
    shorter = pc.replace_substring_regex(values, r"([.][0-9]{6})[0-9]*", r"\1")
    return shorter.cast(pa.timestamp("us", "UTC"))


class TextType(NamedTuple):
    """A type of text: the pattern of its values, the Arrow type, and the conversion."""

    pattern: str
    arrow: pa.DataType
    convert: Callable[[pa.Array], pa.Array]


# In this order the first that fits is taken; the values of a type fit the next of its family.
TYPES = {
    "integer": TextType(r"^[+-]?[0-9]{1,18}$", pa.int64(), _integers),
    "float": TextType(
        r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$", pa.float64(), _doubles
    ),
    "boolean": TextType(r"^(?i)(true|false)$", pa.bool_(), _booleans),
    "date": TextType(f"^{_DAY}$", pa.date32(), lambda values: values.cast(pa.date32())),
    "time": TextType(f"^{_DAY}$|^{_TIME}$", pa.timestamp("us"), _times),
    "zoned": TextType(
        f"^{_TIME}(Z|[+-][0-9]{{2}}:?[0-9]{{2}})$", pa.timestamp("us", "UTC"), _zoned
    ),
}
_NAMES = tuple(TYPES)
_OF_TIMES = ("date", "time", "zoned")
# Types of values that are written as words or times.
WORDS = ("boolean", *_OF_TIMES)


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
            values = present(column).drop_null().unique()
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
    if name in _OF_TIMES:
        try:
            kind.convert(values)
        except pa.ArrowInvalid:
            return False
    return True


def present(values: pa.Array) -> pa.Array:
    """Text without blanks around it; null where it is missing."""
    trimmed = pc.utf8_trim(values, " ")
    return pc.if_else(pc.is_in(trimmed, pa.array(MISSING, trimmed.type)), None, trimmed)


def converted(values: pa.Array, name: str) -> pa.Array:
    """The values of a text column as a type of `TYPES`; as they are for "text".

    Raises
    ------
    pyarrow.ArrowInvalid
        A value does not fit.
    """
    return values if name == "text" else TYPES[name].convert(present(values))


def text_types(table: Table) -> Mapping[str, str]:
    """Types of the text columns of a table by name, by one pass over all values.

    Columns of other types than text have no entry. Those with codes, such as 007, stay text.
    """
    names = [field.name for field in table.schema if is_text(field.type)]

    def fold(batches: Batches) -> Iterator[tuple[str, State]]:
        found = TextKinds.zero(len(names))
        for batch in batches:
            found = found.update(batch)
        yield _KINDS, found

    if not names:
        return {}
    what = f"types of {len(names)} columns of text"
    states = table.select(names).fold(fold, (TextKinds,), state_bytes=16 * len(names), what=what)
    kinds = cast(TextKinds, states.get(_KINDS, TextKinds.zero(len(names))))
    return dict(zip(names, kinds.types(), strict=True))
