"""Parquet files read inside the tasks instead of by the JVM.

Spark hands rows to Python element by element. Where a DataFrame is nothing but Parquet files on a
file system of the machine, tasks that open these files themselves have the same rows in a
fraction of the time. Where there is any doubt that they are the same, Spark reads them.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type

from spark_auc.errors import DataError
from spark_auc.spark.data.failures import SPARK_FAILURES
from spark_auc.spark.data.features import quoted
from spark_auc.spark.data.footers import RowGroup, UnlikeError, opened, row_groups

_log = logging.getLogger(__name__)

Read: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

# As many rows as Spark puts into a batch.
_BATCH_ROWS = 10_000
# With these on, Spark reads other columns, or leaves out files, of which no footer tells.
_SETTINGS = (
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
)


@dataclass(frozen=True)
class ParquetScan:
    """Columns of Parquet files, one row group at a time.

    Parameters
    ----------
    groups
        The row groups.
    columns
        Names of the columns to read and the Arrow types to return.
    """

    groups: tuple[RowGroup, ...]
    columns: tuple[tuple[str, pa.DataType], ...]

    def read(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of the columns in the row groups with the given numbers, and these numbers.

        Raises
        ------
        DataError
            A file is unreadable, or is not the one that was listed.
        """
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for read in self._batches(self.groups[number]):
                    place = pa.array(np.full(read.num_rows, number))
                    yield read.append_column("place", place)

    def _batches(self, group: RowGroup) -> Iterator[pa.RecordBatch]:
        names = [name for name, _ in self.columns]
        path, rows = group.file.path, 0
        try:
            found, metadata = opened(path)
            _check_same(path, found == group.file)
            with pq.ParquetFile(
                path, metadata=metadata, pre_buffer=True, page_checksum_verification=True
            ) as file:
                for batch in file.iter_batches(
                    _BATCH_ROWS, row_groups=[group.number], columns=names, use_threads=False
                ):
                    arrays = [
                        batch.column(name).cast(kind, safe=False) for name, kind in self.columns
                    ]
                    rows += batch.num_rows
                    yield pa.RecordBatch.from_arrays(arrays, names)
            # It may have been written over while it was read.
            _check_same(path, group.file.is_there())
            if rows != group.rows:
                raise OSError(f"{rows} rows in place of {group.rows}")
        except (OSError, KeyError, pa.ArrowException, UnlikeError) as error:
            raise DataError(
                f"found the unreadable file {path} ({error}); expected a whole Parquet file "
                f"with columns {', '.join(names)}; replace it or leave it out"
            ) from error


def _check_same(path: str, same: bool) -> None:
    if not same:
        raise DataError(
            f"found {path} changed since it was listed; expected the same file, its time of change "
            "included, on every machine until the job ends; run again"
        )


def rows_for_tasks(
    df: DataFrame, names: Sequence[str], selected: DataFrame
) -> tuple[DataFrame, Read]:
    """What `mapInArrow` shall run over, and what turns its batches into those of ``selected``.

    Parameters
    ----------
    df
        Any rows.
    names
        Columns of ``df``.
    selected
        These columns alone, each as it is or cast, and perhaps the place of each row.

    Returns
    -------
    DataFrame, callable
        The numbers of row groups and a reader of them where Spark itself says that ``df`` is the
        same as a directory of Parquet files, or one file, on this machine's file system, holds no
        cached copy of it, and every file has these columns in the types of ``df``; else
        ``selected`` and the identity.
    """
    try:
        groups = _row_groups(df, names)
    except UnlikeError as why:
        _log.info("Spark reads the rows: %s", why)
        return selected, iter
    types = [to_arrow_type(field.dataType) for field in selected.schema]
    scan = ParquetScan(groups, tuple(zip(names, types[: len(names)], strict=True)))
    files = len({group.file for group in groups})
    _log.info("tasks read %d row groups of %d Parquet files themselves", len(groups), files)
    count = len(groups)
    return df.sparkSession.range(0, count, 1, count), scan.read


def _row_groups(df: DataFrame, names: Sequence[str]) -> tuple[RowGroup, ...]:
    """The row groups that make up ``df``; `UnlikeError` where it is more or other than files."""
    level = df.storageLevel
    if level.useMemory or level.useDisk:
        raise UnlikeError("they are cached")
    conf = df.sparkSession.conf
    if on := [key for key in _SETTINGS if str(conf.get(key, "false")).lower() != "false"]:
        raise UnlikeError(f"{', '.join(on)} is set")
    files = [urlsplit(file) for file in df.inputFiles()]
    if {file.scheme for file in files} != {"file"}:
        raise UnlikeError("they are no files of this machine's file system")
    paths = sorted(unquote(file.path) for file in files)
    if len({os.path.dirname(path) for path in paths}) > 1:
        raise UnlikeError("they lie in several directories")
    fields = {field.name: field.dataType for field in df.schema}
    wanted = [(name, to_arrow_type(fields[name])) for name in dict.fromkeys(names)]
    # Of all files after the plan, which is cheaper to refuse; of the first one before it, for
    # Spark fills its log with what is wrong with a file.
    row_groups(paths[:1], wanted)
    if not _is_plain(df, paths):
        raise UnlikeError("they are not all columns of Parquet files as they are")
    groups = row_groups(paths, wanted)
    if not groups:
        raise UnlikeError("there are none")
    return groups


def _is_plain(df: DataFrame, paths: Sequence[str]) -> bool:
    """Whether Spark plans ``df`` as it plans reading the files' directory or the single file.

    A relation remembers its path as it was written, hence the several spellings.
    """
    read, root = df.sparkSession.read, os.path.dirname(paths[0])
    names = [quoted(name) for name in df.columns]
    try:
        # The schema of the first file alone: others in the directory need not be Parquet.
        schema = read.parquet(literal(paths[0])).schema
    except SPARK_FAILURES:
        return False
    for whole in [*(paths if len(paths) == 1 else []), root]:
        for path in (whole, f"{whole}/", f"file://{whole}", os.path.relpath(whole)):
            try:
                plain = df.sparkSession.read.schema(schema).parquet(path)
                if df.sameSemantics(plain.select(*names)):
                    return True
            except SPARK_FAILURES:
                # The path means something else when written out, or the columns are not its own.
                continue
    return False


def literal(path: str) -> str:
    """The path where Spark expects a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
