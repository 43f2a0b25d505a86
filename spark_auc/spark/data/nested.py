"""Fields of structs as columns, so that ``user.age`` names one as in Spark SQL."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from spark_auc.spark.data.features import quoted


def with_fields(df: DataFrame, names: Iterable[str | None]) -> DataFrame:
    """The rows with a column for each name that is the path of a field, of any depth.

    Parameters
    ----------
    df
        The rows. A column of the name itself goes before a field.
    names
        Names of columns, paths of fields, and others, which are ignored.
    """
    paths = sorted({name for name in names if name and "." in name})
    added = []
    for path in paths:
        columns = ((f.name, F.col(quoted(f.name)), f.dataType) for f in df.schema.fields)
        if path not in df.columns and (field := _field(path, columns)) is not None:
            added.append(field.alias(path))
    return df.select("*", *added) if added else df


def without_fields(result: DataFrame, df: DataFrame, read: DataFrame) -> DataFrame:
    """What a stage made of rows ``df``, read as ``read`` with fields, without these fields."""
    added = {*read.columns} - {*df.columns} if read is not df else set()
    if not added:
        return result
    return result.select(*(quoted(name) for name in result.columns if name not in added))


def _field(path: str, columns: Iterable[tuple[str, Column, DataType]]) -> Column | None:
    """The field of this path among columns of a name and a type; None if there is none."""
    for name, column, kind in columns:
        if path == name:
            return column
        if isinstance(kind, StructType) and path.startswith(f"{name}."):
            fields = ((f.name, column.getField(f.name), f.dataType) for f in kind.fields)
            found = _field(path.removeprefix(f"{name}."), fields)
            if found is not None:
                return found
    return None
