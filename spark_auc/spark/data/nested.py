"""Fields of structs as columns, so that a stage takes ``user.age`` as Spark SQL does."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_auc.spark.data.features import quoted


def with_fields(df: DataFrame) -> DataFrame:
    """The rows with a column for each field of their structs, of any depth, named by its path.

    A column of this name, where there is one, is kept. Spark reads none of the columns that are
    not used.
    """
    fields = {
        path: column
        for name in df.columns
        if isinstance(kind := df.schema[name].dataType, StructType)
        for path, column in _fields(name, F.col(quoted(name)), kind)
        if path not in df.columns
    }
    return (
        df.select("*", *(column.alias(path) for path, column in fields.items())) if fields else df
    )


def without_fields(result: DataFrame, df: DataFrame) -> DataFrame:
    """What a stage made of ``with_fields(df)``, without the columns of fields."""
    added = {*with_fields(df).columns} - {*df.columns}
    if not added:
        return result
    return result.select(*(quoted(name) for name in result.columns if name not in added))


def _fields(path: str, column: Column, kind: StructType) -> Iterator[tuple[str, Column]]:
    for field in kind.fields:
        inner, value = f"{path}.{field.name}", column.getField(field.name)
        if isinstance(field.dataType, StructType):
            yield from _fields(inner, value, field.dataType)
        else:
            yield inner, value
