"""Rows as tasks read them: from files by the tasks themselves where possible, else from Spark.

Spark sends rows to Python element by element. A task that reads the same file itself takes a
fraction of the time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_auc.spark.data.arrow_files import arrow_scan, is_of_arrow
from spark_auc.spark.data.names import known_column
from spark_auc.spark.data.parquet import UnsupportedFilesError, parquet_scan

_log = logging.getLogger(__name__)

Read: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class TaskRows(NamedTuple):
    """Rows of a DataFrame, as tasks read them.

    Parameters
    ----------
    frame
        Input of `mapInArrow`.
    read
        Maps its batches to batches of the columns.
    cheap
        Whether reading takes as little time as from a cache.
    """

    frame: DataFrame
    read: Read
    cheap: bool


def rows_for_tasks(df: DataFrame, names: Sequence[str], selected: DataFrame) -> TaskRows:
    """The rows of a DataFrame for tasks.

    Tasks read the files themselves if the rows are those of Parquet files or of delimited text,
    unchanged, and the tasks read the same values as Spark. Otherwise Spark
    reads them. The log says which, and why.

    Parameters
    ----------
    df
        The rows.
    names
        Columns of ``df``.
    selected
        These columns, and optionally the place of each row.
    """
    # Files are read by the names of the columns themselves.
    names = [known_column(df, name).name for name in names]
    try:
        scan = (arrow_scan if is_of_arrow(df) else parquet_scan)(df, names)
    except UnsupportedFilesError as reason:
        _log.info("reader: Spark, because %s", reason)
        return TaskRows(selected, iter, df.storageLevel.useMemory)
    count = len(scan.parts)
    _log.info("reader: tasks, which read %s", scan)
    frame = df.sparkSession.range(0, count, 1, count)
    return TaskRows(frame, scan.read, scan.cheap)
