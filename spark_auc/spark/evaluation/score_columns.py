"""Scores as Spark's columns: numbers, and vectors of two."""

from __future__ import annotations

from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from spark_auc.pipeline.score_columns import check_score
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.spark_table import SparkTable


def score_column(df: DataFrame, name: str) -> Column:
    """The score as double: a number, or the second element of a vector of Spark ML's classifiers.

    Parameters
    ----------
    df
        Scored rows.
    name
        Name of the score column.

    Raises
    ------
    ConfigError
        The column is unknown, or neither numeric nor a vector column.
    DataError
        An action reads a vector whose size is not 2.
    """
    check_score(SparkTable(df), name)
    kind, column = known_column(df, name).dataType, F.col(quoted(name))
    if isinstance(kind, NumericType):
        return column.cast("double")
    elements = F.when(column.isNotNull(), vector_to_array(column))
    size = F.array_size(elements)
    text = "found %d scores a row, expected two; set the score's column"
    return checked(F.get(elements, F.lit(1)), F.when(size != 2, F.format_string(text, size)))


def vector_of_two(negative: Column, positive: Column) -> Column:
    """A vector column of the numbers of both classes, as Spark ML's; null where they are null."""
    vector: Column = F.when(positive.isNotNull(), array_to_vector(F.array(negative, positive)))
    return vector
