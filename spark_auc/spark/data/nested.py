"""Fields of structs as columns, so that ``user.age`` names one as in Spark SQL."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_auc.spark.data.names import is_case_sensitive, known_column, quoted
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.nested import fields_at


def with_fields(df: DataFrame, names: Iterable[str | None] | None) -> DataFrame:
    """See `spark_auc.tables.nested.with_fields`."""
    if names is not None and not (names := [name for name in names if name and "." in name]):
        return df
    added = []
    found = fields_at(SparkTable(df).schema, names, exact=is_case_sensitive(df))
    for path, ((column, *inner), _) in found.items():
        made = F.col(quoted(known_column(df, column).name))
        for name in inner:
            made = made.getField(name)
        added.append(made.alias(path))
    return df.select("*", *added) if added else df


def without_fields(result: DataFrame, df: DataFrame, read: DataFrame) -> DataFrame:
    """What a stage made of rows ``df``, read as ``read`` with fields, without these fields."""
    if read is df:
        # The very object: tools such as MLflow's autolog know results by their identity.
        return result
    # By name, and not by those that stay: of these, several may have one name.
    return result.drop(*read.columns[len(df.columns) :])
