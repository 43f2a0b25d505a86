"""Columns whose values are in the names of directories, as of ``day=2026-03-01``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import unquote

import pyarrow as pa

from spark_auc.errors import DataError
from spark_auc.tables.names import folded
from spark_auc.tables.types import is_number

NO_PARTITIONS = pa.schema([])
# The name of a directory whose rows have no value.
NONE = "__HIVE_DEFAULT_PARTITION__"
# The texts of types, as Java reads doubles and Spark dates and times.
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DAY, _COLON = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "(:|%3A)"
_OTHERS = {
    pa.float64(): re.compile(
        r" *[+-]?(NaN|Infinity|([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?[dDfF]?) *"
    ),
    pa.date32(): re.compile(_DAY),
    pa.timestamp("us"): re.compile(
        f"{_DAY} [0-9]{{2}}{_COLON}[0-9]{{2}}{_COLON}[0-9]{{2}}([.][0-9])?"
    ),
}
# Types in order, of which the last takes the values of the others.
_FAMILIES = (
    (pa.int32(), pa.int64(), pa.float64()),
    (pa.date32(), pa.timestamp("us")),
)


def partitions_of(root: str, files: Sequence[str]) -> pa.Schema:
    """The columns of directories, of the types that Spark's reader finds in all their values.

    Parameters
    ----------
    root
        The directory of the table.
    files
        Paths below it.

    Raises
    ------
    DataError
        Files are in directories of different columns.
    """
    found = [_texts(file.removeprefix(root)) for file in files]
    for file, texts in zip(files, found, strict=True):
        if [*texts] != [*found[0]]:
            raise DataError(
                f"found {file!r} in directories of {[*texts]}, expected {[*found[0]]} as of "
                f"{files[0]!r}; move the file, or read a directory within"
            )
    names = found[0] if found else {}
    return pa.schema([(name, _type({texts[name] for texts in found})) for name in names])


def with_partitions(schema: pa.Schema, partitions: pa.Schema) -> pa.Schema:
    """The columns of files with those of directories, which go before columns of their names."""
    new = {folded(field.name): field for field in partitions}
    own = [new.pop(folded(field.name), field) for field in schema]
    return pa.schema([*own, *new.values()])


def values_of(file: str, partitions: pa.Schema) -> dict[str, pa.Scalar]:
    """The values of a file's columns of directories, by name."""
    texts = _texts(file) if len(partitions) else {}
    return {field.name: _value(texts[field.name], field.type) for field in partitions}


def _texts(file: str) -> dict[str, str]:
    """The values in the directories of a file, as they are written."""
    parts = (part.split("=", 1) for part in file.split("/")[:-1] if "=" in part)
    return {unquote(name): text for name, text in parts}


def _value(text: str, kind: pa.DataType) -> pa.Scalar:
    if text == NONE:
        return pa.scalar(None, kind)
    if is_number(kind):
        # What Java takes in numbers, and Arrow does not.
        text = text.strip().removeprefix("+").rstrip("dDfF")
    return pa.scalar(unquote(text)).cast(kind)


def _type(texts: set[str]) -> pa.DataType:
    """The type of all values of a column."""
    kinds = {_type_of(text) for text in texts - {NONE}}
    if len(kinds) < 2:
        return kinds.pop() if kinds else pa.null()
    family = next((f for f in _FAMILIES if kinds.issubset(f)), (pa.string(),))
    return next((kind for kind in reversed(family) if kind in kinds), family[-1])


def _type_of(text: str) -> pa.DataType:
    if _INTEGER.fullmatch(text):
        bits = max(int(text), ~int(text)).bit_length()
        return pa.int32() if bits < 32 else pa.int64() if bits < 64 else pa.float64()
    for kind, pattern in _OTHERS.items():
        # A day such as 02-30 is text.
        with suppress(pa.ArrowInvalid):
            if pattern.fullmatch(text):
                return _value(text, kind).type
    return pa.string()
