"""Parquet files of any file system as a table of this process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spark_auc.core.parallel import mapped
from spark_auc.errors import DataError
from spark_auc.storage.file_systems import opened, reached
from spark_auc.tables.arrow_table import BATCH_ROWS, ArrowTable
from spark_auc.tables.partitions import NO_PARTITIONS, values_of, with_partitions
from spark_auc.tables.table import Batches
from spark_auc.tables.types import METADATA, without_view

# Key of the schema that Spark writes into Parquet files.
_OF_SPARK = b"org.apache.spark.sql.parquet.row.metadata"
# Footers that are read at once: each waits for its store.
_AT_ONCE = 16


class _Footer(NamedTuple):
    """The columns of a file, and the number of its row groups."""

    schema: pa.Schema
    groups: int


def parquet_rows(
    files: Sequence[str],
    schema: pa.Schema | None = None,
    partitions: pa.Schema = NO_PARTITIONS,
) -> ArrowTable:
    """The rows of Parquet files, in a part for each row group.

    Parameters
    ----------
    files
        Paths or URIs.
    schema
        The columns of a table that the files are of. Columns that a file does not have are null,
        and values of narrower types become those of the table. Default: that of the first file,
        which the others have too.
    partitions
        Columns whose values are in the names of directories; see `partitions_of`.

    Raises
    ------
    DataError
        A file cannot be read, or the files have other columns or types than the first.
    StorageError
        A store failed.
    """
    footers = mapped(_footer, files, _AT_ONCE)
    if schema is None:
        schema = footers[0].schema
        for file, footer in zip(files, footers, strict=True):
            if not schema.equals(footer.schema):
                raise DataError(
                    f"found other columns or types in {file!r} than in {files[0]!r}, "
                    "expected the same; convert or remove the file"
                )
    schema = with_partitions(schema, partitions).remove_metadata()
    groups = [(k, group) for k, footer in enumerate(footers) for group in range(footer.groups)]

    def read(part: int, names: Sequence[str]) -> Batches:
        place, group = groups[part]
        file = files[place]
        values = values_of(file, partitions)
        own = {*footers[place].schema.names} - values.keys()
        distinct = [name for name in dict.fromkeys(names) if name in own]
        with _reading(file) as source, _opened(source) as parquet:
            rows = parquet.metadata.row_group(group).num_rows
            batches = parquet.iter_batches(
                BATCH_ROWS, row_groups=[group], columns=distinct, use_threads=False
            )
            for batch in batches if distinct else _empty(rows):
                count = batch.num_rows
                arrays = []
                for name in names:
                    kind = schema.field(name).type
                    if name in own:
                        arrays.append(batch.column(name).cast(kind))
                    elif name in values:
                        arrays.append(pa.repeat(values[name], count))
                    else:
                        arrays.append(pa.nulls(count, kind))
                yield pa.RecordBatch.from_arrays(arrays, [*names])

    return ArrowTable(schema, len(groups), read, cheap=True)


@contextmanager
def _reading(file: str) -> Iterator[pa.NativeFile]:
    """A file to read; `DataError` if it cannot be read, `StorageError` if its store fails."""
    _, filesystem, path = opened(file)
    try:
        with reached(file, filesystem), filesystem.open_input_file(path) as source:
            yield source
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"found an unreadable Parquet file {file!r} ({error}), expected a complete one; "
            "replace or remove it"
        ) from None


def _opened(source: pa.NativeFile) -> pq.ParquetFile:
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=False)


def _footer(file: str) -> _Footer:
    with _reading(file) as source, _opened(source) as parquet:
        return _Footer(_columns(parquet.metadata), parquet.metadata.num_row_groups)


def _columns(found: pq.FileMetaData) -> pa.Schema:
    """Names and types of the columns of a file; notes of Spark ML on vectors are kept.

    Times of 96 bits, an earlier default of Spark, are instants.
    """
    schema = found.schema.to_arrow_schema()
    noted = {
        column["name"]: {METADATA: json.dumps(column["metadata"]).encode()}
        for column in json.loads((schema.metadata or {}).get(_OF_SPARK, b"{}")).get("fields", [])
        if column.get("metadata")
    }
    physical = [found.schema.column(k) for k in range(len(found.schema))]
    instants = {column.path for column in physical if column.physical_type == "INT96"}
    fields = (
        field.with_type(pa.timestamp("us", "UTC"))
        if field.name in instants
        else without_view(field)
        for field in schema
    )
    return pa.schema([field.with_metadata(noted.get(field.name)) for field in fields])


def _empty(rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of a number of rows without columns of the file."""
    for start in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - start)
        yield pa.RecordBatch.from_arrays([pa.nulls(count)], [""])
