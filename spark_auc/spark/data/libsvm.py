"""Read LIBSVM text as a DataFrame of ``label`` and ``features``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_auc.errors import DataError, SparkAUCError
from spark_auc.spark.data.checks import line_fault
from spark_auc.spark.data.failures import translated


def libsvm(spark: SparkSession, path: str, dimension: int | None = None) -> DataFrame:
    """Read LIBSVM text with Spark's LIBSVM source.

    Parameters
    ----------
    spark
        The session.
    path
        A file, directory or glob.
    dimension
        Number of features; None for the highest index in the files, by a pass over them. Set it if
        several data sets (train and test) need the same dimension.

    Returns
    -------
    DataFrame
        ``label`` (double, as in the file) and ``features`` (sparse vector).

    Raises
    ------
    DataError
        A line is malformed. If ``dimension`` is set, the error comes from the action that reads
        the line inside `libsvm_errors`.
    """
    reader = spark.read.format("libsvm")
    if dimension is not None:
        return reader.option("numFeatures", dimension).load(path)
    with libsvm_errors(spark, path):
        rows = reader.load(path)
        # On Spark Connect, the schema starts the pass.
        _ = rows.schema
        return rows


@contextmanager
def libsvm_errors(spark: SparkSession, path: str, dimension: int | None = None) -> Iterator[None]:
    """Add file and text to errors about malformed lines that actions inside the block raise.

    Spark's error contains neither, so the text is read again after an error to find the line.

    Parameters
    ----------
    spark, path, dimension
        See `libsvm`.

    Raises
    ------
    DataError
        A line is malformed.
    """
    try:
        with translated():
            yield
    except SparkAUCError:
        raise
    except Exception as failure:
        # A parser's error on classic Spark is no PySparkException.
        if fault := _libsvm_fault(spark, path, dimension):
            raise DataError(fault) from failure
        raise


def _libsvm_fault(spark: SparkSession, path: str, dimension: int | None) -> str | None:
    """Message about the first malformed line; None if Spark's source can read all lines."""
    highest = 2**31 - 1 if dimension is None else dimension
    lines = (
        spark.read.text(path)
        .select(F.trim("value").alias("line"), F.col("_metadata.file_path").alias("file"))
        .where("line != '' and not startswith(line, '#')")
        .selectExpr("*", "slice(split(line, ' +'), 2, length(line)) as pairs")
        .selectExpr("*", "transform(pairs, p -> try_cast(split_part(p, ':', 1) as int)) as index")
    )
    label, value = _not_finite("split_part(line, ' ', 1)"), _not_finite("split_part(p, ':', 2)")
    corrupt = lines.where(
        f"{label} or exists(pairs, p -> {value})"
        f" or exists(index, i -> i is null or i not between 1 and {highest})"
        " or index != array_sort(array_distinct(index))"
    )
    rule = f"'label index:value ...' with ascending indices in 1..{highest}"
    row = corrupt.select(line_fault(F.col("line"), F.col("file"), F.lit(rule))).head()
    return None if row is None else str(row[0])


def _not_finite(text: str) -> str:
    """SQL condition: the text is not a finite number, in the spelling of Java or of SQL."""
    return f"coalesce(abs(try_cast({text} as double)) >= double('Infinity'), true)"
