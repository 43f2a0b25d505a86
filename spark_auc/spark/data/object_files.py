"""Parquet files of object stores as DataFrames, whose rows tasks read through Arrow without a jar.

Each task makes the file system of a URI itself, with the credentials of its own machine. Neither
credentials nor file systems are sent to tasks.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StructType, TimestampType

from spark_auc.errors import ConfigError
from spark_auc.spark.data.footers import row_groups
from spark_auc.spark.data.lines import plan_of
from spark_auc.spark.data.listed_files import UnsupportedFilesError, input_file
from spark_auc.spark.data.names import quoted
from spark_auc.spark.data.parquet import ParquetScan
from spark_auc.storage.file_systems import is_object_store, opened

_log = logging.getLogger(__name__)

# The key of column metadata that names the files, and that of Parquet files with Spark's types.
_MARK, SPARK_TYPES = "spark_auc_objects", b"org.apache.spark.sql.parquet.row.metadata"
_NOT_NULL = re.compile(r'"(nullable|containsNull|valueContainsNull)":\s*false')


@dataclass(frozen=True)
class ObjectFiles:
    """The Parquet files of a location in an object store, when they were listed.

    Parameters
    ----------
    scan
        Reads all columns.
    schema
        Spark's types of the columns.
    digest
        A hash of the files and their states.
    """

    scan: ParquetScan
    schema: StructType
    digest: str

    @classmethod
    def of(cls, location: str) -> ObjectFiles:
        """List the files of a location; of a published output, those that its manifest lists.

        Raises
        ------
        UnsupportedFilesError
            The files are no Parquet files of one schema in one directory, or have types that Arrow
            does not read for Spark.
        StorageError
            The store failed.
        """
        paths = _data_files(location)
        schema = _schema(paths[0])
        columns = [(field.name, arrow_type(field.dataType)) for field in schema]
        groups = row_groups(paths, columns, beside_spark=False)
        states = [repr(group) for group in groups]
        digest = hashlib.sha256("\n".join([schema.json(), *states]).encode()).hexdigest()
        return cls(ParquetScan(groups, tuple(columns)), schema, digest)

    def rows(self, spark: SparkSession, location: str) -> DataFrame:
        """The rows, in a partition for each row group."""
        marks = {_MARK: {"location": location, "digest": self.digest}}
        schema = StructType.fromJson(self.schema.jsonValue())
        for field in schema:
            field.metadata = {**(field.metadata or {}), **marks}
        if not (count := len(self.scan)):
            return spark.createDataFrame([], schema)
        scan = self.scan

        def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in scan.read(numbers):
                yield batch.drop_columns(["place"])

        return spark.range(0, count, 1, count).mapInArrow(read, schema)


def object_rows(spark: SparkSession, location: str) -> DataFrame | None:
    """The rows of Parquet files of an object store; None if Spark has to read them.

    The log says why Spark reads files of an object store.

    Parameters
    ----------
    spark
        The session.
    location
        A file or a directory of files, or a part of a published output.
    """
    try:
        if not is_object_store(opened(location)[1]):
            return None
        return ObjectFiles.of(location).rows(spark, location)
    except (UnsupportedFilesError, ConfigError) as reason:
        _log.info("reader: Spark, because %s", reason)
        return None


def is_of_objects(df: DataFrame) -> bool:
    """Whether columns are those of `object_rows`."""
    return any(_MARK in field.metadata for field in df.schema)


def object_scan(df: DataFrame, names: Sequence[str], types: Sequence[DataType]) -> ParquetScan:
    """The scan of columns of `object_rows`; see `ParquetScan.of`."""
    level = df.storageLevel
    if level.useMemory or level.useDisk:
        raise UnsupportedFilesError("the rows are cached")
    marks = [field.metadata[_MARK] for field in df.schema if _MARK in field.metadata]
    if len(marks) < len(df.columns) or any(mark != marks[0] for mark in marks):
        raise UnsupportedFilesError("the columns are not all those of the same files")
    files = ObjectFiles.of(marks[0]["location"])
    if files.digest != marks[0]["digest"]:
        raise UnsupportedFilesError("the files changed since they were listed")
    columns = [quoted(name) for name in names]
    whole = files.rows(df.sparkSession, marks[0]["location"]).select(*columns)
    if not files.scan.groups or plan_of(df.select(*columns)) != plan_of(whole):
        raise UnsupportedFilesError("the rows are not an unchanged scan of Parquet files")
    kinds = map(arrow_type, types[: len(names)])
    return ParquetScan(files.scan.groups, tuple(zip(names, kinds, strict=True)))


def arrow_type(kind: DataType) -> pa.DataType:
    """The type of a column in Arrow; `UnsupportedFilesError` if there is none."""
    try:
        return pa.timestamp("us", "UTC") if kind == TimestampType() else to_arrow_type(kind)
    except (PySparkException, AssertionError) as error:
        raise UnsupportedFilesError(f"a column is of type {kind.simpleString()}") from error


def _data_files(location: str) -> list[str]:
    if re.search(r"[*?\[{]", location):
        raise UnsupportedFilesError(f"{location} is a pattern")
    # Executors have no pydantic, which publications need.
    from spark_auc.publication.versions import data_files

    found = data_files(location)
    if not found:
        raise UnsupportedFilesError(f"{location} has no files")
    if len({path.rpartition("/")[0] for path in found}) > 1:
        raise UnsupportedFilesError(f"the files of {location} are in several directories")
    return found


def _schema(path: str) -> StructType:
    """Spark's types of the columns of a file, all of which may be null."""
    try:
        with input_file(path) as file:
            schema = pq.read_schema(file)
        stored = (schema.metadata or {}).get(SPARK_TYPES)
        made = (
            StructType.fromJson(json.loads(stored))
            if stored
            else from_arrow_schema(schema, prefer_timestamp_ntz=True)
        )
        nullable: Any = json.loads(_NOT_NULL.sub(r'"\1": true', json.dumps(made.jsonValue())))
        return StructType.fromJson(nullable)
    except (OSError, pa.ArrowException, PySparkException, ValueError, KeyError) as error:
        raise UnsupportedFilesError(f"Arrow cannot read {path} ({error})") from None
