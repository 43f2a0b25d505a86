"""LIBSVM text as a DataFrame of ``label`` and ``features``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_auc.errors import DataError, SparkAUCError
from spark_auc.spark.data.checks import line_fault
from spark_auc.spark.data.failures import translated


def libsvm(spark: SparkSession, path: str, dimension: int | None = None) -> DataFrame:
    """Read LIBSVM text with Spark's own source.

    Parameters
    ----------
    path
        A file, directory or glob.
    dimension
        Number of features. None finds the highest index by a pass over the data; files that
        must agree (train and test) need it given.

    Returns
    -------
    DataFrame
        ``label`` (double, as in the file) and ``features`` (sparse vector).

    Raises
    ------
    DataError
        For a corrupt line, here if ``dimension`` is None, else when an action runs inside
        `libsvm_errors`.
    """
    reader = spark.read.format("libsvm")
    if dimension is not None:
        return reader.option("numFeatures", dimension).load(path)
    with libsvm_errors(spark, path):
        rows = reader.load(path)
        _ = rows.schema  # on Spark Connect, it is this that runs the pass
        return rows


@contextmanager
def libsvm_errors(spark: SparkSession, path: str, dimension: int | None = None) -> Iterator[None]:
    """Raise DataError with file and text where an action inside the block met a corrupt line.

    Spark's own error names neither, so after a failure the text is read again to find the line.
    Arguments as for `libsvm`.
    """
    try:
        with translated():
            yield
    except SparkAUCError:
        raise
    except Exception as failure:  # on classic Spark, a parser's error is no PySparkException
        if fault := _libsvm_fault(spark, path, dimension):
            raise DataError(fault) from failure
        raise


def _libsvm_fault(spark: SparkSession, path: str, dimension: int | None) -> str | None:
    """Word the first fault found in LIBSVM text; None if Spark's source can read it all."""
    highest = 2**31 - 1 if dimension is None else dimension
    lines = (
        spark.read.text(path)
        .select(F.trim("value").alias("line"), F.col("_metadata.file_path").alias("file"))
        .where("line != '' and not startswith(line, '#')")
        .selectExpr("*", "slice(split(line, ' +'), 2, length(line)) as pairs")
        .selectExpr("*", "transform(pairs, p -> try_cast(split_part(p, ':', 1) as int)) as index")
    )
    label, value = _no_number("split_part(line, ' ', 1)"), _no_number("split_part(p, ':', 2)")
    corrupt = lines.where(
        f"{label} or exists(pairs, p -> {value})"
        f" or exists(index, i -> i is null or i not between 1 and {highest})"
        " or index != array_sort(array_distinct(index))"
    )
    rule = f"'label index:value ...' with ascending indices in 1..{highest}"
    found = corrupt.select(line_fault(F.col("line"), F.col("file"), F.lit(rule))).head()
    return None if found is None else str(found[0])


def _no_number(text: str) -> str:
    """SQL that holds where the text is no finite number, whose names Java and SQL spell apart."""
    return f"coalesce(abs(try_cast({text} as double)) >= double('Infinity'), true)"
