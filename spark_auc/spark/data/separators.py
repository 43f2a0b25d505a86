"""The separator of CSV files that Spark reads."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_auc.errors import DataError
from spark_auc.spark.data.paths import reader_of
from spark_auc.tables.delimited import separator_in


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
    return separator_in(header["value"])
