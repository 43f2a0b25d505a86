"""Types of columns: those of recipes, and how messages call them."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as kinds

# Key of the metadata of a field with the name of a type for which Arrow has none.
FOREIGN = b"type"
# Key of the metadata of a field with those of Spark's column, in JSON.
METADATA = b"spark"
_VECTOR = ("type", "size", "indices", "values")


def raw_type(kind: pa.DataType) -> str | None:
    """The type of a column in recipes; None for types that recipes do not take."""
    kind = of_values(kind)
    if kinds.is_boolean(kind):
        return "boolean"
    if kinds.is_integer(kind):
        return "integer"
    if kinds.is_floating(kind) or kinds.is_decimal(kind):
        return "float"
    if is_text(kind):
        return "text"
    return "time" if is_time(kind) else None


def of_values(kind: pa.DataType) -> pa.DataType:
    """The type of the values of dictionaries; other types as they are."""
    return kind.value_type if kinds.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether values are text."""
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def without_view(field: pa.Field) -> pa.Field:
    """A column of views of text as one of text; others as they are."""
    return field.with_type(pa.large_string()) if kinds.is_string_view(field.type) else field


def has_no_value(field: pa.Field) -> bool:
    """Whether a column has no type because it has no value, as Parquet stores it."""
    return bool(kinds.is_null(field.type)) and FOREIGN not in (field.metadata or {})


def is_time(kind: pa.DataType) -> bool:
    """Whether values are dates or times."""
    return bool(kinds.is_date(kind) or kinds.is_timestamp(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether values are numbers."""
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def is_vector(kind: pa.DataType) -> bool:
    """Whether values are vectors of Spark ML: structs of these fields."""
    return bool(kinds.is_struct(kind)) and tuple(field.name for field in kind) == _VECTOR


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists."""
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind))


def shown_type(field: pa.Field) -> str:
    """The type of a field, for messages."""
    if foreign := (field.metadata or {}).get(FOREIGN):
        return str(foreign.decode())
    return "vector" if is_vector(field.type) else str(field.type)
