"""Read Parquet files with Arrow inside the tasks, instead of with Spark's reader.

Tasks use Arrow if a DataFrame consists of Parquet files on the local file system, unchanged, and
Arrow reads the same values as Spark: the footers of the files tell. Those of object stores are in
`spark_auc.spark.data.arrow_files`.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as kinds
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import TimestampType

from spark_auc.core.parallel import mapped
from spark_auc.errors import DataError
from spark_auc.spark.data.failures import SPARK_FAILURES
from spark_auc.spark.data.names import quoted
from spark_auc.spark.data.paths import literal_reader, reader_of
from spark_auc.storage.listed_files import ListedFile, check_same, input_file
from spark_auc.tables.text_ranges import Range

# Names of the columns to read, and their Arrow types according to Spark's schema.
Columns: TypeAlias = Sequence[tuple[str, pa.DataType]]

_MAGIC = b"PAR1"
_TAIL = 8
_LAST = 2**16
# On a network file system, threads overlap the latency of reading footers.
_THREADS = 16
# Types whose values Arrow and Spark read to the same bits.
_NUMBERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
_SAME = frozenset([pa.bool_(), pa.string(), *_NUMBERS])
_OTHERS = frozenset([pa.date32(), pa.binary()])
_LISTS = (".list.element", ".list.item")
# These settings change the files that Spark reads.
_SETTINGS = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
# Spark's default number of rows in a batch.
_BATCH_ROWS = 10_000
# The columns of a row group are read at once up to this size, and larger ones through a buffer for
# each column.
_MOST_BUFFERED = 64 * 2**20
_BUFFER = 2**20
# With it columns have other names than in the files.
_BY_FIELD_ID = "spark.sql.parquet.fieldId.read.enabled"


class UnsupportedFilesError(Exception):
    """Tasks may read other rows than Spark from these files; the message gives the reason."""


def check_not_cached(df: DataFrame) -> None:
    """`UnsupportedFilesError` for rows that Spark has cached."""
    level = df.storageLevel
    if level.useMemory or level.useDisk:
        raise UnsupportedFilesError("the rows are cached")


def local_paths(df: DataFrame, *settings: str) -> list[str]:
    """Sorted paths of the files of a DataFrame.

    Parameters
    ----------
    df
        The rows.
    settings
        Further settings of Spark that must not be set.

    Raises
    ------
    UnsupportedFilesError
        The rows are cached, files are not on the local file system, or a setting is on that changes
        the rows that Spark reads.
    """
    check_not_cached(df)
    conf = df.sparkSession.conf
    on = [key for key in (*settings, *_SETTINGS) if str(conf.get(key, "false")).lower() != "false"]
    if on:
        raise UnsupportedFilesError(f"{', '.join(on)} is set")
    files = [urlsplit(file) for file in df.inputFiles()]
    if {file.scheme for file in files} != {"file"}:
        raise UnsupportedFilesError("the rows do not come from files of the local file system")
    return sorted(unquote(file.path) for file in files)


@dataclass(frozen=True)
class RowGroup:
    """A row group.

    Parameters
    ----------
    file
        The file.
    number
        Index of the row group in the file.
    rows
        Number of rows.
    """

    file: ListedFile
    number: int
    rows: int


def footer(path: str, file: pa.NativeFile) -> tuple[ListedFile, pq.FileMetaData]:
    """Read the footer of a file.

    Parameters
    ----------
    path
        Path on the local file system, or URI.
    file
        The opened file.

    Returns
    -------
    ListedFile, pyarrow.parquet.FileMetaData
        The current state of the file, and its metadata.

    Raises
    ------
    OSError, pyarrow.ArrowException
        The file is no complete Parquet file.
    UnsupportedFilesError
        The file is encrypted.
    """
    state, size = ListedFile.of(path), file.size()
    # One request to a store reads most footers.
    file.seek(max(0, size - _LAST))
    last = file.read()
    tail = last[-_TAIL:]
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] == b"PARE":
        raise UnsupportedFilesError(f"{path} is encrypted")
    if tail[4:] != _MAGIC or length + 2 * len(_MAGIC) + 4 > size:
        raise OSError("no footer at the end")
    if length + _TAIL > len(last):
        file.seek(size - _TAIL - length)
        last = file.read()
    content = last[-_TAIL - length : -_TAIL]
    metadata = pq.read_metadata(pa.BufferReader(_MAGIC + content + tail))
    if metadata.serialized_size != length:
        # Encrypted columns add a signature to the footer; Arrow has no property for it.
        raise UnsupportedFilesError(f"{path} has encrypted columns")
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return replace(state, footer=digest), metadata


def row_groups(
    paths: Sequence[str], columns: Columns, *, beside_spark: bool = True
) -> tuple[RowGroup, ...]:
    """List the row groups of files that all have the given columns.

    Parameters
    ----------
    paths
        The files.
    columns
        Names of the columns to read, and their Arrow types according to Spark's schema.
    beside_spark
        Whether Spark may read the same files, so that values must be equal to the bit: dates,
        times, decimals and bytes are then refused.

    Raises
    ------
    UnsupportedFilesError
        A file is unreadable or encrypted, or a column is missing or of another type.
    """

    def of(path: str) -> list[RowGroup]:
        file, metadata = _metadata(path)
        _check(path, metadata, columns, _SAME if beside_spark else _SAME | _OTHERS)
        rows = (metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
        return [RowGroup(file, k, count) for k, count in enumerate(rows) if count]

    groups_of = mapped(of, paths, min(_THREADS, len(paths)))
    return tuple(group for groups in groups_of for group in groups)


def _metadata(path: str) -> tuple[ListedFile, pq.FileMetaData]:
    try:
        with input_file(path) as file:
            return footer(path, file)
    except (OSError, pa.ArrowException) as error:
        raise UnsupportedFilesError(f"{path} is unreadable ({error})") from None


def _check(
    path: str, metadata: pq.FileMetaData, columns: Columns, known: frozenset[pa.DataType]
) -> None:
    try:
        schema = metadata.schema.to_arrow_schema()
    except pa.ArrowException as error:
        raise UnsupportedFilesError(
            f"{path} has a schema that Arrow cannot read ({error})"
        ) from None
    names, lower_names = set(schema.names), Counter(name.lower() for name in schema.names)
    leaves = (metadata.schema.column(k) for k in range(len(metadata.schema)))
    lists = {leaf.path for leaf in leaves if leaf.max_repetition_level}
    older = {path for path in lists if not path.endswith(_LISTS)}
    for name, expected in columns:
        if name not in names or lower_names[name.lower()] != 1:
            raise UnsupportedFilesError(f"{path} has no column {name!r}, or several with this name")
        kind = schema.field(name).type
        if not _same_values(kind, expected, known):
            raise UnsupportedFilesError(
                f"{path} has column {name!r} of type {kind}, whose values may differ from those "
                f"that Spark reads as {expected}"
            )
        if kinds.is_fixed_size_list(kind) and _has_nulls(metadata, name):
            raise UnsupportedFilesError(
                f"{path} has missing values in column {name!r} of lists of one size, which Arrow "
                "does not read"
            )
        if any(leaf == name or leaf.startswith(f"{name}.") for leaf in older):
            raise UnsupportedFilesError(f"{path} has lists in an old format in column {name!r}")


def _has_nulls(metadata: pq.FileMetaData, name: str) -> bool:
    """Whether a column of lists may have missing values, also within them."""
    columns = (
        metadata.row_group(group).column(k)
        for group in range(metadata.num_row_groups)
        for k in range(metadata.num_columns)
    )
    own = (column for column in columns if column.path_in_schema.split(".")[0] == name)
    return any(column.statistics is None or column.statistics.null_count != 0 for column in own)


def _same_values(stored: pa.DataType, expected: pa.DataType, known: frozenset[pa.DataType]) -> bool:
    """Whether Arrow and Spark read equal values; large lists and strings count as plain ones."""
    if kinds.is_dictionary(stored):
        return _same_values(stored.value_type, expected, known)
    if kinds.is_struct(expected):
        return (
            kinds.is_struct(stored)
            and [f.name for f in stored] == [f.name for f in expected]
            and all(
                _same_values(f.type, e.type, known) for f, e in zip(stored, expected, strict=True)
            )
        )
    if kinds.is_list(expected):
        is_list = kinds.is_list(stored) or kinds.is_large_list(stored)
        return (is_list or kinds.is_fixed_size_list(stored)) and _same_values(
            stored.value_type, expected.value_type, known
        )
    if kinds.is_timestamp(expected) or kinds.is_decimal(expected):
        return known >= _OTHERS and stored.id == expected.id
    return expected in known and (
        stored == expected or (kinds.is_string(expected) and kinds.is_large_string(stored))
    )


@dataclass(frozen=True)
class Scan:
    """Columns of the parts of files; a task reads one part or several.

    Parameters
    ----------
    parts
        The parts, each of a file.
    what
        What they are, for the log.
    part
        The rows of a part, by its number and the names of the columns; `DataError` if its file is
        unreadable or has changed.
    names
        The columns.
    cheap
        Whether reading takes as little time as from a cache.
    """

    parts: Sequence[RowGroup | Range]
    what: str
    part: Callable[[int, Sequence[str]], Iterator[pa.RecordBatch]]
    names: Sequence[str]
    cheap: bool = False

    def __str__(self) -> str:
        files = len({part.file for part in self.parts})
        return self.what.format(parts=len(self.parts), files=files)

    def read(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the parts with the numbers in the first column, and ``place``, the number."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in self.part(number, self.names):
                    place = pa.array(np.full(rows.num_rows, number))
                    yield rows.append_column("place", place)


def parquet_scan(df: DataFrame, names: Sequence[str]) -> Scan:
    """The scan of columns of a DataFrame.

    Raises
    ------
    UnsupportedFilesError
        Spark does not plan ``df`` like a scan of one Parquet file or directory on the local file
        system, or a file has a column of another type.
    """
    types = {field.name: field.dataType for field in df.schema}
    # Spark has no Arrow type of timestamps without a time zone.
    if times := [name for name in names if isinstance(types[name], TimestampType)]:
        raise UnsupportedFilesError(f"columns {times} are timestamps")
    columns = {name: to_arrow_type(types[name]) for name in names}
    return scan_of_groups(_row_groups(df, [*columns.items()]), columns, names)


def scan_of_groups(
    groups: Sequence[RowGroup], types: Mapping[str, pa.DataType], names: Sequence[str]
) -> Scan:
    """The scan of row groups, whose values become those of Arrow types by the names of columns."""

    def part(number: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        group = groups[number]
        path, rows = group.file.path, 0
        try:
            with input_file(path) as file:
                file_now, metadata = footer(path, file)
                check_same(path, file_now == group.file)
                is_small = _stored_bytes(metadata.row_group(group.number), names) <= _MOST_BUFFERED
                parquet = pq.ParquetFile(
                    file,
                    metadata=metadata,
                    pre_buffer=is_small,
                    buffer_size=0 if is_small else _BUFFER,
                    page_checksum_verification=True,
                    coerce_int96_timestamp_unit="us",
                )
                for batch in parquet.iter_batches(
                    _BATCH_ROWS, row_groups=[group.number], columns=names, use_threads=False
                ):
                    arrays = [batch.column(name).cast(types[name], safe=False) for name in names]
                    rows += batch.num_rows
                    yield pa.RecordBatch.from_arrays(arrays, [*names])
            # Another process may have overwritten the file during the read.
            check_same(path, group.file.is_unchanged())
            if rows != group.rows:
                raise OSError(f"{rows} rows instead of {group.rows}")
        except (OSError, KeyError, pa.ArrowException, UnsupportedFilesError) as error:
            raise DataError(
                f"found the unreadable file {path} ({error}); expected a complete Parquet file "
                f"with columns {', '.join(names)}; replace or remove it"
            ) from error

    return Scan(groups, "{parts} row groups of {files} files", part, names, cheap=True)


def _stored_bytes(group: pq.RowGroupMetaData, names: Sequence[str]) -> int:
    """Bytes that columns take in a row group of a file."""
    chunks = [group.column(k) for k in range(group.num_columns)]
    roots = {*names}
    return sum(
        int(chunk.total_compressed_size)
        for chunk in chunks
        if any(chunk.path_in_schema == n or chunk.path_in_schema.startswith(f"{n}.") for n in roots)
    )


def _row_groups(df: DataFrame, columns: Columns) -> tuple[RowGroup, ...]:
    """The row groups of ``df``; `UnsupportedFilesError` if it is no plain scan of local files."""
    paths = local_paths(df, _BY_FIELD_ID)
    if len({os.path.dirname(path) for path in paths}) > 1:
        raise UnsupportedFilesError("the files are in several directories")
    # The plan is cheaper to check than all footers. The first footer comes before the plan, because
    # Spark logs the stack trace of an unreadable file.
    row_groups(paths[:1], columns)
    if not _is_plain_scan(df, paths):
        raise UnsupportedFilesError("the rows are not an unchanged scan of Parquet files")
    groups = row_groups(paths, columns)
    if not groups:
        raise UnsupportedFilesError("the files have no rows")
    return groups


def _is_plain_scan(df: DataFrame, paths: Sequence[str]) -> bool:
    """Whether Spark plans ``df`` like a scan of the files' directory, or of the single file.

    The plan contains the path as the user wrote it, so several spellings are compared.
    """
    spark, root = df.sparkSession, os.path.dirname(paths[0])
    names = [quoted(name) for name in df.columns]
    try:
        # The schema of the first file: the directory may contain files of other formats.
        schema = literal_reader(spark, paths[0]).parquet(paths[0]).schema
    except SPARK_FAILURES:
        return False
    for place in [*(paths if len(paths) == 1 else []), root]:
        for path in (place, f"{place}/", f"file://{place}", os.path.relpath(place)):
            try:
                scan = reader_of(spark, path).schema(schema).parquet(path)
                if df.sameSemantics(scan.select(*names)):
                    return True
            except SPARK_FAILURES:
                # The path is a pattern that matches nothing, or the scan has other columns.
                continue
    return False
