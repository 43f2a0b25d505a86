"""Read Parquet files with Arrow inside the tasks, instead of with Spark's reader.

Tasks use Arrow if a DataFrame consists of Parquet files on the local file system, unchanged, and
Arrow reads the same values as Spark. Those of object stores are in
`spark_auc.spark.data.arrow_files`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, TimestampType

from spark_auc.errors import DataError
from spark_auc.spark.data.failures import SPARK_FAILURES
from spark_auc.spark.data.footers import RowGroup, footer, row_groups
from spark_auc.spark.data.local_paths import UnsupportedFilesError, local_paths
from spark_auc.spark.data.names import quoted
from spark_auc.spark.data.paths import literal_reader, reader_of
from spark_auc.storage.listed_files import check_same, input_file

# Spark's default number of rows in a batch.
_BATCH_ROWS = 10_000
# The columns of a row group are read at once up to this size, and larger ones through a buffer for
# each column.
_MOST_BUFFERED = 64 * 2**20
_BUFFER = 2**20
# With it columns have other names than in the files.
_BY_FIELD_ID = "spark.sql.parquet.fieldId.read.enabled"


class Scan(ABC):
    """Columns of the parts of files; a task reads one part or several."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of parts."""

    @abstractmethod
    def __str__(self) -> str:
        """What the parts are, for the log."""

    @abstractmethod
    def part(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part; `DataError` if its file is unreadable or has changed."""

    def read(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the parts with the numbers in the first column, and ``place``, the number."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for rows in self.part(number):
                    place = pa.array(np.full(rows.num_rows, number))
                    yield rows.append_column("place", place)


@dataclass(frozen=True)
class ParquetScan(Scan):
    """Reads columns of Parquet files by row group.

    Parameters
    ----------
    groups
        The row groups.
    columns
        Names of the columns to read, and the Arrow types to convert them to.
    """

    groups: tuple[RowGroup, ...]
    columns: tuple[tuple[str, pa.DataType], ...]

    @classmethod
    def of(cls, df: DataFrame, names: Sequence[str], types: Sequence[DataType]) -> ParquetScan:
        """The scan of columns of a DataFrame.

        Parameters
        ----------
        df
            The rows.
        names
            Their columns.
        types
            Spark's types of these columns; further ones are ignored.

        Raises
        ------
        UnsupportedFilesError
            Spark does not plan ``df`` like a scan of one Parquet file or directory on the local
            file system, or a file has a column of another type.
        """
        groups, kinds = _row_groups(df, names), map(to_arrow_type, types[: len(names)])
        return cls(groups, tuple(zip(names, kinds, strict=True)))

    def __len__(self) -> int:
        return len(self.groups)

    def __str__(self) -> str:
        return f"{len(self)} row groups of {len({group.file for group in self.groups})} files"

    def part(self, number: int) -> Iterator[pa.RecordBatch]:
        """See `Scan.part`."""
        group, names = self.groups[number], [name for name, _ in self.columns]
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
                    arrays = [
                        batch.column(name).cast(kind, safe=False) for name, kind in self.columns
                    ]
                    rows += batch.num_rows
                    yield pa.RecordBatch.from_arrays(arrays, names)
            # Another process may have overwritten the file during the read.
            check_same(path, group.file.is_unchanged())
            if rows != group.rows:
                raise OSError(f"{rows} rows instead of {group.rows}")
        except (OSError, KeyError, pa.ArrowException, UnsupportedFilesError) as error:
            raise DataError(
                f"found the unreadable file {path} ({error}); expected a complete Parquet file "
                f"with columns {', '.join(names)}; replace or remove it"
            ) from error


def _stored_bytes(group: pq.RowGroupMetaData, names: Sequence[str]) -> int:
    """Bytes that columns take in a row group of a file."""
    chunks = [group.column(k) for k in range(group.num_columns)]
    roots = {*names}
    return sum(
        int(chunk.total_compressed_size)
        for chunk in chunks
        if any(chunk.path_in_schema == n or chunk.path_in_schema.startswith(f"{n}.") for n in roots)
    )


def _row_groups(df: DataFrame, names: Sequence[str]) -> tuple[RowGroup, ...]:
    """The row groups of ``df``; `UnsupportedFilesError` if it is no plain scan of local files."""
    paths = local_paths(df, _BY_FIELD_ID)
    if len({os.path.dirname(path) for path in paths}) > 1:
        raise UnsupportedFilesError("the files are in several directories")
    fields = {field.name: field.dataType for field in df.schema}
    # Spark has no Arrow type of timestamps without a time zone.
    if times := [name for name in names if isinstance(fields[name], TimestampType)]:
        raise UnsupportedFilesError(f"columns {times} are timestamps")
    columns = [(name, to_arrow_type(fields[name])) for name in dict.fromkeys(names)]
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
