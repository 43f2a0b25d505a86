"""The types of raw columns of DataFrames."""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    FractionalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

# Spark's types of raw columns and their names in recipes.
_TYPES: tuple[tuple[type[DataType] | tuple[type[DataType], ...], str], ...] = (
    (BooleanType, "boolean"),
    (IntegralType, "integer"),
    (FractionalType, "float"),
    (StringType, "text"),
    ((DateType, TimestampType, TimestampNTZType), "time"),
)


def raw_type(kind: DataType) -> str | None:
    """The type of a column in recipes; None for types that recipes do not take."""
    return next((name for spark, name in _TYPES if isinstance(kind, spark)), None)
