"""Text, and Parquet of object stores, as DataFrames whose rows tasks read through Arrow.

Spark needs no jar for them, and text has the same values as in one process. Each task makes the
file system of a URI itself, with the credentials of its own machine. Neither credentials nor file
systems are sent to tasks.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from io import StringIO
from os import fspath
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StructType, TimestampType

from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.parquet import (
    Scan,
    UnsupportedFilesError,
    check_not_cached,
    local_paths,
    parquet_scan,
    row_groups,
    scan_of_groups,
)
from spark_auc.spark.data.paths import reader_of
from spark_auc.storage.file_systems import OTHER_CODECS, is_object_store, is_pattern, opened
from spark_auc.storage.listed_files import input_file
from spark_auc.tables.delimited import DelimitedFiles
from spark_auc.tables.json_lines import JsonFiles
from spark_auc.tables.layouts import Layout
from spark_auc.tables.partitions import NO_PARTITIONS, partitions_of
from spark_auc.tables.text_ranges import TextFiles

_log = logging.getLogger(__name__)

# The key of column metadata that names the files, and that of Parquet files with Spark's types.
_MARK, SPARK_TYPES = "spark_auc_files", b"org.apache.spark.sql.parquet.row.metadata"
_NOT_NULL = re.compile(r'"(nullable|containsNull|valueContainsNull)":\s*false')
_PRINTING = Lock()


class Location(NamedTuple):
    """Where files are, and what they are.

    Parameters
    ----------
    path
        A file, a directory of files, a part of a published output, or, of text, a pattern.
    separator
        The separator of delimited text with a header; None for other files.
    trimmed
        Whether blanks around the fields of text are no part of them.
    layout
        The layout of text of other files, instead of a separator.
    json
        Whether the files are JSON Lines.
    """

    path: str
    separator: str | None = None
    trimmed: bool = False
    layout: Layout | None = None
    json: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the files are text."""
        return self.separator is not None or self.layout is not None or self.json

    def stored(self) -> str:
        """The location as text, for the metadata of columns."""
        layout = None if self.layout is None else asdict(self.layout)
        return json.dumps(self._replace(layout=None)._asdict() | {"layout": layout})

    @classmethod
    def restored(cls, text: str) -> Location:
        """The location of `stored`."""
        values = json.loads(text)
        if (layout := values["layout"]) is not None:
            lists = {key: tuple(value) for key, value in layout.items() if isinstance(value, list)}
            values["layout"] = Layout(**layout | lists)
        return cls(**values)


@dataclass(frozen=True)
class ArrowFiles:
    """The files of a location, when they were listed.

    Parameters
    ----------
    scan
        Reads all columns.
    schema
        Spark's types of the columns.
    digest
        A hash of the files and their states.
    """

    scan: Scan
    schema: StructType
    digest: str

    @classmethod
    def of(cls, spark: SparkSession, location: Location) -> ArrowFiles:
        """List the parts of the files of a location.

        Raises
        ------
        UnsupportedFilesError
            Arrow has no such files, or Parquet files are not of one schema in one directory, or
            have types that Arrow does not read for Spark.
        DataError
            Text is malformed; see `DelimitedFiles.of` and `JsonFiles.of`.
        StorageError
            The store failed.
        """
        paths, partitions = _files(spark, location)
        if location.is_text:
            _, separator, trimmed, layout, json_lines = location
            files: TextFiles = (
                JsonFiles.of(paths, partitions)
                if json_lines
                else DelimitedFiles.of(
                    paths, separator, trimmed=trimmed, layout=layout, partitions=partitions
                )
            )
            schema = from_arrow_schema(files.columns)
            what = "{parts} ranges of {files} files of text"
            scan = Scan(files.ranges, what, files.read, schema.names)
        else:
            schema = _schema(paths[0])
            kinds = {field.name: arrow_type(field.dataType) for field in schema}
            groups = row_groups(paths, [*kinds.items()], beside_spark=False)
            scan = scan_of_groups(groups, kinds, schema.names)
        states = "\n".join([schema.json(), *map(repr, scan.parts)])
        digest = hashlib.sha256(states.encode()).hexdigest()
        return cls(scan, schema, digest)

    def rows(self, spark: SparkSession, location: Location) -> DataFrame:
        """The rows, in a partition for each part."""
        mark = {"location": location.stored(), "digest": self.digest}
        schema = StructType.fromJson(self.schema.jsonValue())
        for field in schema:
            field.metadata = {**(field.metadata or {}), _MARK: mark}
        if not (count := len(self.scan.parts)):
            return spark.createDataFrame([], schema)
        scan = self.scan

        def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in scan.read(numbers):
                yield batch.drop_columns(["place"])

        return spark.range(0, count, 1, count).mapInArrow(read, schema)


def arrow_rows(
    spark: SparkSession,
    path: AnyPath,
    separator: str | None = None,
    *,
    trimmed: bool = False,
    layout: Layout | None = None,
    json: bool = False,
) -> DataFrame | None:
    """The rows of files that tasks read through Arrow; None if Spark has to read them.

    The log says why Spark reads files.

    Parameters
    ----------
    spark
        The session.
    path, separator, trimmed, layout, json
        See `Location`; Parquet files are those of object stores.

    Raises
    ------
    DataError
        Text is malformed; see `DelimitedFiles.of` and `JsonFiles.of`.
    StorageError
        The store failed.
    """
    path = fspath(path)
    location = Location(path, separator, trimmed, layout, json)
    try:
        if not location.is_text and not is_object_store(opened(path)[1]):
            return None
        return ArrowFiles.of(spark, location).rows(spark, location)
    except (UnsupportedFilesError, ConfigError) as reason:
        _log.info("reader: Spark, because %s", reason)
        return None


def layout_rows(spark: SparkSession, path: AnyPath, layout: Layout) -> DataFrame:
    """The rows of text of a layout.

    Tasks read them through Arrow where `arrow_rows` does; otherwise Spark's reader of CSV does.

    Parameters
    ----------
    spark
        The session.
    path
        A file, directory or pattern.
    layout
        Separator, names and types of the fields.

    Raises
    ------
    DataError
        A header is another than that of the layout.
    StorageError
        The store failed.
    """
    from spark_auc.publication.versions import resolve

    rows = arrow_rows(spark, path, layout=layout)
    if rows is not None:
        return rows
    place = resolve(fspath(path))
    return (
        reader_of(spark, place)
        .schema(from_arrow_schema(layout.schema))
        .options(sep=layout.separator, header=layout.header, quote="")
        .options(mode="FAILFAST", enforceSchema=False)
        .csv(place)
    )


def scan_of(df: DataFrame, names: Sequence[str]) -> Scan | None:
    """How tasks read columns of files themselves; None where Spark reads them.

    Spark sends rows to Python element by element; a task that reads the file takes a fraction of
    the time. It does where the rows are those of Parquet files or of text, unchanged, and it reads
    the same values as Spark. The log says which reads, and why.
    """
    # Files are read by the names of the columns themselves.
    names = [known_column(df, name).name for name in names]
    try:
        scan = (arrow_scan if is_of_arrow(df) else parquet_scan)(df, names)
    except UnsupportedFilesError as reason:
        _log.info("reader: Spark, because %s", reason)
        return None
    _log.info("reader: tasks, which read %s", scan)
    return scan


def is_of_arrow(df: DataFrame) -> bool:
    """Whether columns are those of `arrow_rows`."""
    return any(_MARK in field.metadata for field in df.schema)


def arrow_scan(df: DataFrame, names: Sequence[str]) -> Scan:
    """The scan of columns of `arrow_rows`; see `parquet_scan`."""
    check_not_cached(df)
    marks = [field.metadata[_MARK] for field in df.schema if _MARK in field.metadata]
    if len(marks) < len(df.columns) or any(mark != marks[0] for mark in marks):
        raise UnsupportedFilesError("the columns are not all those of the same files")
    spark, location = df.sparkSession, Location.restored(marks[0]["location"])
    files = ArrowFiles.of(spark, location)
    if files.digest != marks[0]["digest"]:
        raise UnsupportedFilesError("the files changed since they were listed")
    columns = [quoted(name) for name in names]
    whole = files.rows(spark, location).select(*columns)
    if not files.scan.parts or plan_of(df.select(*columns)) != plan_of(whole):
        raise UnsupportedFilesError("the rows are not an unchanged scan of files")
    return replace(files.scan, names=names)


def arrow_type(kind: DataType) -> pa.DataType:
    """The type of a column in Arrow; `UnsupportedFilesError` if there is none."""
    try:
        return pa.timestamp("us", "UTC") if kind == TimestampType() else to_arrow_type(kind)
    except (PySparkException, AssertionError) as error:
        raise UnsupportedFilesError(f"a column is of type {kind.simpleString()}") from error


def _files(spark: SparkSession, location: Location) -> tuple[list[str], pa.Schema]:
    """The files of a location, and the columns of directories in which texts are.

    `UnsupportedFilesError` if Arrow has no such files.
    """
    path, is_text = location.path, location.is_text
    # Executors have no pydantic, which publications need.
    from spark_auc.publication.versions import data_files, resolve

    partitions = NO_PARTITIONS
    if not is_pattern(path):
        found = data_files(path)
        if is_text:
            partitions = partitions_of(opened(resolve(path))[0], found)
    elif is_text:
        lines = reader_of(spark, path).text(path)
        if len(lines.columns) > 1:
            raise UnsupportedFilesError(f"{path} is a pattern of directories of partitions")
        found = local_paths(lines)
    else:
        raise UnsupportedFilesError(f"{path} is a pattern")
    if not found:
        raise UnsupportedFilesError(f"{path} has no files")
    if not is_text and len({file.rpartition("/")[0] for file in found}) > 1:
        raise UnsupportedFilesError(f"the files of {path} are in several directories")
    if is_text and (unknown := [file for file in found if file.endswith(OTHER_CODECS)]):
        raise UnsupportedFilesError(f"{unknown[0]} is compressed")
    return found, partitions


def plan_of(df: DataFrame) -> str:
    """Spark's physical plan, as text without the numbers of columns.

    It is empty if another thread of the user took the output.
    """
    # Spark only prints a plan, and the standard output is that of all threads.
    with _PRINTING, redirect_stdout(StringIO()) as printed:
        df.explain()
    return re.sub(r"#\d+L?", "", printed.getvalue().partition("== Physical Plan ==\n")[2])


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
