"""Labels and weights as Spark's columns, for what Spark computes itself."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from spark_auc.core.labels import Label
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.columns import check_weights
from spark_auc.tables.labels import positive_label


def label_column(
    df: DataFrame, name: str, positive: Label | bool | None
) -> tuple[Column, Label | None]:
    """The label as double or string, and the positive label as a value of that type.

    Arguments and errors are those of `positive_label`.
    """
    value, kind = positive_label(SparkTable(df), name, positive), known_column(df, name).dataType
    column = F.col(quoted(name))
    return (column if isinstance(kind, StringType) else column.cast("double")), value


def weight_column(df: DataFrame, name: str) -> Column:
    """The weight as double; `ConfigError` if the column is unknown or not numeric."""
    check_weights(SparkTable(df), name)
    return F.col(quoted(name)).cast("double")
