"""Fields of structs as columns, so that ``user.age`` names one as in Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from spark_auc.spark.data.names import fields_of, is_case_sensitive, known_column, quoted
from spark_auc.tables.names import folded


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
        if fields_of(df, path):
            continue
        structs = [f.name for f in df.schema.fields if isinstance(f.dataType, StructType)]
        fold = str if is_case_sensitive(df) else folded
        columns = (
            (name, F.col(quoted(name)), known_column(df, name).dataType)
            for name in structs
            if fold(path).startswith(f"{fold(name)}.")
        )
        if (field := _field(path, columns, fold)) is not None:
            added.append(field.alias(path))
    return df.select("*", *added) if added else df


def without_fields(result: DataFrame, df: DataFrame, read: DataFrame) -> DataFrame:
    """What a stage made of rows ``df``, read as ``read`` with fields, without these fields."""
    if read is df:
        # The very object: tools such as MLflow's autolog know results by their identity.
        return result
    # By name, and not by those that stay: of these, several may have one name.
    return result.drop(*read.columns[len(df.columns) :])


def _field(
    path: str, columns: Iterable[tuple[str, Column, DataType]], fold: Callable[[str], str]
) -> Column | None:
    """The field of this path among columns of a name and a type; None if there is none."""
    for name, column, kind in columns:
        if fold(path) == fold(name):
            return column
        if isinstance(kind, StructType) and fold(path).startswith(f"{fold(name)}."):
            fields = ((f.name, column.getField(f.name), f.dataType) for f in kind.fields)
            found = _field(path[len(name) + 1 :], fields, fold)
            if found is not None:
                return found
    return None
