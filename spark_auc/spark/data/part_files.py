"""Rows as Parquet files: by Spark on file systems, and by tasks through Arrow on object stores.

An object store has no rename by which a task could publish its files. Each attempt of a task
writes files of its own names and returns these; the driver keeps those of the attempts that
succeeded, and deletes the others.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.arrow_tasks import mapped_batches
from spark_auc.spark.data.object_files import SPARK_TYPES, arrow_type, object_rows
from spark_auc.spark.data.paths import literal_reader
from spark_auc.storage.file_systems import opened, reached

if TYPE_CHECKING:
    from spark_auc.publication.directory import Directory

_WRITTEN = pa.schema({"name": pa.string(), "bytes": pa.int64(), "rows": pa.int64()})


@dataclass(frozen=True)
class PartWriter:
    """Writes the rows of a task to files whose names no other attempt has.

    Parameters
    ----------
    uri
        The directory.
    schema
        Names and types of the columns in Spark, but those of directories, as JSON.
    partition_by
        Columns whose values name directories.
    """

    uri: str
    schema: str
    partition_by: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write batches; returns names, sizes in bytes and numbers of rows of the files.

        Raises
        ------
        StorageError
            The store failed.
        """
        import pyarrow.dataset as ds

        context, written = TaskContext.get(), list[Any]()
        number = context.partitionId() if context else 0
        _, filesystem, path = opened(self.uri)
        filled = (batch for batch in batches if batch.num_rows)
        if (first := next(filled, None)) is None:
            return
        schema = first.schema.with_metadata({SPARK_TYPES: self.schema.encode()})
        reader = pa.RecordBatchReader.from_batches(
            schema, (batch.cast(schema) for batch in chain([first], filled))
        )
        columns = pa.schema([schema.field(name) for name in self.partition_by])
        with reached(self.uri, filesystem):
            ds.write_dataset(
                reader,
                path,
                filesystem=filesystem,
                format="parquet",
                basename_template=f"part-{number:05d}-{uuid.uuid4().hex}-{{i}}.parquet",
                partitioning=ds.partitioning(columns, flavor="hive") if columns else None,
                existing_data_behavior="overwrite_or_ignore",
                create_dir=False,
                use_threads=False,
                preserve_order=True,
                file_visitor=written.append,
            )
        names = [file.path[len(path) + 1 :] for file in written]
        rows = [file.metadata.num_rows for file in written]
        yield pa.RecordBatch.from_pydict(
            {"name": names, "bytes": [file.size for file in written], "rows": rows},
            _WRITTEN,
        )


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
    writer = PartWriter(directory.uri, kept.json(), tuple(partition_by))
    written = mapped_batches(rows, writer, _WRITTEN).collect()
    expected = {row["name"]: row["bytes"] for row in written}
    if not expected:
        sink = pa.BufferOutputStream()
        kinds = {field.name: arrow_type(field.dataType) for field in kept}
        schema = pa.schema(kinds, {SPARK_TYPES: kept.json().encode()})
        pq.write_table(schema.empty_table(), sink)
        content = sink.getvalue().to_pybytes()
        directory.write("part-00000.parquet", content)
        expected["part-00000.parquet"] = len(content)
    found = directory.files()
    strays = found.keys() - expected.keys()
    directory.delete(*strays)
    wrong = sorted(name for name, size in expected.items() if found.get(name) != size)
    if wrong:
        raise DataError(
            f"found {found.get(wrong[0], 'no')} bytes at {directory.uri}/{wrong[0]}, expected the "
            f"{expected[wrong[0]]} that a task wrote; check the store, and run again"
        )
    return sum(row["rows"] for row in written)


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
    rows = object_rows(spark, directory.uri) if directory.object_store else None
    if rows is not None:
        return rows
    return literal_reader(spark, directory.uri).parquet(directory.uri)
