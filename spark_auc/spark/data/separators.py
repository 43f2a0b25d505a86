"""The separator of CSV files that Spark reads."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_auc.errors import DataError
from spark_auc.spark.data.paths import reader_of
from spark_auc.tables.delimited import separator_in

_LINES = 21


def separator_of(spark: SparkSession, path: str) -> str:
    """The separator of CSV files.

    See `spark_auc.tables.delimited.separator_in`, of the first lines.

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
    lines = [row["value"] for row in reader_of(spark, path).text(path).head(_LINES)]
    if not lines:
        raise DataError(f"found no lines in {path!r}, expected a header and rows; check the file")
    return separator_in("\n".join(lines))
