"""Rows as Parquet files: by Spark on file systems, and by tasks through Arrow on object stores.

An object store has no rename by which a task could publish its files. Each attempt of a task
writes files of its own names and returns these; the driver keeps those of the attempts that
succeeded, and deletes the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_auc.errors import ConfigError
from spark_auc.spark.data.arrow_files import SPARK_TYPES, arrow_rows, arrow_type
from spark_auc.spark.data.arrow_tasks import mapped_batches
from spark_auc.spark.data.paths import literal_reader
from spark_auc.tables.part_files import WRITTEN, PartWriter, settle

if TYPE_CHECKING:
    from spark_auc.publication.directory import Directory


def write_parquet(rows: DataFrame, directory: Directory, partition_by: Sequence[str] = ()) -> int:
    """Write rows as Parquet files, and return their number.

    Spark writes to file systems. To an object store, tasks write through Arrow: the directory has
    the files of the attempts that succeeded, and those of others are deleted.

    Parameters
    ----------
    rows
        The rows.
    directory
        A directory that does not exist.
    partition_by
        Columns whose values name directories.

    Raises
    ------
    ConfigError
        The driver does not see all rows that the tasks wrote.
    DataError
        The store has other files than those that the tasks wrote.
    StorageError
        The store failed.
    """
    if not directory.object_store:
        return _written_by_spark(rows, directory.uri, partition_by)
    kept = StructType([field for field in rows.schema if field.name not in partition_by])
    noted = {SPARK_TYPES: kept.json().encode()}
    writer = PartWriter(directory.uri, tuple(partition_by), noted)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        written = writer.write(context.partitionId() if context else 0, batches)
        if written is not None:
            yield written

    found = mapped_batches(rows, write, WRITTEN).collect()
    kinds = {field.name: arrow_type(field.dataType) for field in kept}
    return settle(directory, [row.asDict() for row in found], pa.schema(kinds, noted))


def _written_by_spark(rows: DataFrame, uri: str, partition_by: Sequence[str]) -> int:
    observation = Observation()
    counted = rows.observe(observation, F.count(F.lit(1)).alias("rows"))
    counted.write.partitionBy(*partition_by).parquet(uri)
    written: int = observation.get["rows"]
    # Spark commits the files that the driver sees, and misses none of a worker's own disk.
    found = literal_reader(rows.sparkSession, uri).schema(rows.schema).parquet(uri).count()
    if found != written:
        raise ConfigError(
            f"found {found} of the {written} rows that tasks wrote to {uri}, expected a path that "
            "the driver and all workers share; set the output to one of a network file system or "
            "of an object store"
        )
    return found


def read_parquet(spark: SparkSession, directory: Directory) -> DataFrame:
    """The rows of the files that `write_parquet` wrote to a directory."""
    rows = arrow_rows(spark, directory.uri) if directory.object_store else None
    if rows is not None:
        return rows
    return literal_reader(spark, directory.uri).parquet(directory.uri)
