"""Read Parquet files with Arrow inside the tasks, instead of with Spark's reader.

Tasks use Arrow if a DataFrame consists of Parquet files on the local file system, unchanged, and
Arrow reads the same values as Spark. Those of object stores are in
`spark_auc.spark.data.arrow_files`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import TimestampType

from spark_auc.errors import DataError
from spark_auc.spark.data.failures import SPARK_FAILURES
from spark_auc.spark.data.footers import Columns, RowGroup, footer, row_groups
from spark_auc.spark.data.local_paths import UnsupportedFilesError, local_paths
from spark_auc.spark.data.names import quoted
from spark_auc.spark.data.paths import literal_reader, reader_of
from spark_auc.storage.listed_files import check_same, input_file
from spark_auc.tables.text_ranges import Range

# Spark's default number of rows in a batch.
_BATCH_ROWS = 10_000
# The columns of a row group are read at once up to this size, and larger ones through a buffer for
# each column.
_MOST_BUFFERED = 64 * 2**20
_BUFFER = 2**20
# With it columns have other names than in the files.
_BY_FIELD_ID = "spark.sql.parquet.fieldId.read.enabled"


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
    kinds = {field.name: field.dataType for field in df.schema}
    # Spark has no Arrow type of timestamps without a time zone.
    if times := [name for name in names if isinstance(kinds[name], TimestampType)]:
        raise UnsupportedFilesError(f"columns {times} are timestamps")
    columns = {name: to_arrow_type(kinds[name]) for name in names}
    return scan_of_groups(_row_groups(df, [*columns.items()]), columns, names)


def scan_of_groups(
    groups: Sequence[RowGroup], kinds: Mapping[str, pa.DataType], names: Sequence[str]
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
                    arrays = [batch.column(name).cast(kinds[name], safe=False) for name in names]
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
