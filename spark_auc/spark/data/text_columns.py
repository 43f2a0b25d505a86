"""Columns of text files: how the files are read, and the types of their values.

A type is inferred from all values of a column, by one pass over the file. Missing values are empty
or one of `MISSING`; in columns of text, they stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from spark_auc.errors import DataError
from spark_auc.spark.data.names import quoted
from spark_auc.spark.data.paths import reader_of
from spark_auc.tables.text_types import CODE, MISSING, TYPES

# Spark's type of the values that match, and the noun of an error; the first that fits is taken.
_TYPES = {
    "bigint": (TYPES["integer"].pattern, "an integer"),
    "double": (TYPES["float"].pattern, "a number"),
    "boolean": (TYPES["boolean"].pattern, "true or false"),
    "date": (TYPES["date"].pattern, "a date or time"),
    "timestamp_ntz": (TYPES["time"].pattern, "a time"),
    "timestamp": (TYPES["zoned"].pattern, "a time with its zone"),
}
TIMES = ("date", "timestamp_ntz", "timestamp")
# Types of columns in recipes.
_OF_RECIPES = {
    "integer": ("bigint",),
    "float": ("double",),
    "boolean": ("boolean",),
    "time": TIMES,
}
_SEPARATORS = ",;\t|"


def separator_of(spark: SparkSession, path: str) -> str:
    """The separator of CSV files.

    It is that of ``,;|`` and the tabulator which is most frequent in the first line, outside of
    quotes.

    Parameters
    ----------
    spark
        The session.
    path
        File or directory.

    Raises
    ------
    DataError
        There are no lines.
    """
    header = reader_of(spark, path).text(path).first()
    if header is None:
        raise DataError(f"found no lines in {path!r}, expected a header and rows; check the file")
    return max(_SEPARATORS, key=re.sub('"[^"]*"', "", header["value"]).count)


def inferred(rows: DataFrame) -> dict[str, str]:
    """Spark's types of the values of text columns: those of numbers, booleans and times only.

    Parameters
    ----------
    rows
        The rows; columns of other types than text have no entry.

    Returns
    -------
    dict
        ``bigint``, ``double``, ``boolean``, ``date``, ``timestamp_ntz`` or ``timestamp`` by column.
        Columns with codes, such as 007, stay text.
    """
    names = [field.name for field in rows.schema if isinstance(field.dataType, StringType)]
    if not names:
        return {}
    counts = []
    for k, name in enumerate(names):
        value = _value(name)
        counts.append(F.count(value).alias(f"{k}"))
        counts.append(F.count_if(value.rlike(CODE)).alias(f"{k} code"))
        counts += [F.count_if(_fits(value, kind)).alias(f"{k} {kind}") for kind in _TYPES]
    found = rows.agg(*counts).collect()[0]
    types = {}
    for k, name in enumerate(names):
        if found[f"{k}"] and not found[f"{k} code"]:
            kinds = (kind for kind in _TYPES if found[f"{k} {kind}"] == found[f"{k}"])
            if kind := next(kinds, None):
                types[name] = kind
    return types


def typed(rows: DataFrame, types: Mapping[str, str]) -> dict[str, str]:
    """Spark's types of text columns that have the types of a recipe.

    Parameters
    ----------
    rows
        The rows.
    types
        Types of columns in a recipe, such as "integer".

    Returns
    -------
    dict
        As `inferred` returns them.

    Raises
    ------
    DataError
        A value is of another type.
    """
    names = {field.name for field in rows.schema if isinstance(field.dataType, StringType)}
    wanted = {
        name: _OF_RECIPES[kind]
        for name, kind in types.items()
        if name in names and kind in _OF_RECIPES
    }
    faults = [
        F.count_if(_fault(_value(name), kind)).alias(f"{k} {kind}")
        for k, (name, kinds) in enumerate(wanted.items())
        for kind in kinds
    ]
    if not faults:
        return {}
    found = rows.agg(*faults).collect()[0]
    fitting = {}
    for k, (name, kinds) in enumerate(wanted.items()):
        kind = next((kind for kind in kinds if not found[f"{k} {kind}"]), None)
        if kind is None:
            noun = _TYPES[kinds[0]][1]
            row = rows.filter(_fault(_value(name), kinds[0])).select(_value(name)).first()
            raise DataError(
                f"found {row[0] if row else None!r} in column {name!r}, expected {noun} as in the "
                "rows of the training; correct the value, or train with such rows"
            )
        fitting[name] = kind
    return fitting


def expression(name: str, kind: str) -> str:
    """SQL of a column of text as values of one of Spark's types, under the same name."""
    missing = ", ".join(f"'{text}'" for text in MISSING)
    text = quoted(name)
    value = f"CASE WHEN trim({text}) NOT IN ({missing}) THEN trim({text}) END"
    return f"CAST({value} AS {kind}) AS {text}"


def _value(name: str) -> Column:
    """The text of a column without spaces around it; null if it is missing."""
    text = F.trim(F.col(quoted(name)))
    return F.when(~text.isin(*MISSING), text)


def _fits(value: Column, kind: str) -> Column:
    fits = value.rlike(_TYPES[kind][0])
    return fits & value.try_cast(kind).isNotNull() if kind in TIMES else fits


def _fault(value: Column, kind: str) -> Column:
    return value.isNotNull() & ~_fits(value, kind)
