"""Parquet files read inside the tasks instead of by the JVM.

Spark hands rows to Python element by element. Where a DataFrame is nothing but Parquet files on a
file system of the machine, tasks that open these files themselves have the same rows in a
fraction of the time.
"""

from __future__ import annotations

import logging
import os
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
from spark_auc.spark.failures import SPARK_FAILURES
from spark_auc.spark.features import quoted

_log = logging.getLogger(__name__)

Read: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

# As many rows as Spark puts into a batch.
_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class RowGroup:
    """One row group of a file, and how the file looked when the groups were listed."""

    path: str
    number: int
    groups: int
    rows: int


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
        types = [kind for _, kind in self.columns]
        try:
            with pq.ParquetFile(group.path, pre_buffer=True) as file:
                here = file.metadata
                if (
                    here.num_row_groups != group.groups
                    or here.row_group(group.number).num_rows != group.rows
                ):
                    raise DataError(
                        f"found {group.path} changed since it was listed; expected the same file "
                        "on every machine until the job ends; run again"
                    )
                for batch in file.iter_batches(
                    _BATCH_ROWS, row_groups=[group.number], columns=names, use_threads=False
                ):
                    arrays = [
                        batch.column(name).cast(kind, safe=False)
                        for name, kind in zip(names, types, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, names)
        except (OSError, KeyError, pa.ArrowException) as error:
            raise DataError(
                f"found the unreadable file {group.path} ({error}); expected a whole Parquet file "
                f"with columns {', '.join(names)}; replace it or leave it out"
            ) from error


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
        same as a directory of Parquet files, or one file, on this machine's file system and
        holds no cached copy of it; else ``selected`` and the identity.
    """
    types = [to_arrow_type(field.dataType) for field in selected.schema]
    groups = _row_groups(df, names)
    if groups is None:
        return selected, iter
    scan = ParquetScan(groups, tuple(zip(names, types[: len(names)], strict=True)))
    files = len({group.path for group in groups})
    _log.info("tasks read %d row groups of %d Parquet files themselves", len(groups), files)
    count = len(groups)
    return df.sparkSession.range(0, count, 1, count), scan.read


def _row_groups(df: DataFrame, names: Sequence[str]) -> tuple[RowGroup, ...] | None:
    """The row groups that make up ``df``; None where it is more or other than plain files."""
    level = df.storageLevel
    files = [urlsplit(file) for file in df.inputFiles()]
    if level.useMemory or level.useDisk or {file.scheme for file in files} != {"file"}:
        return None
    paths = sorted(unquote(file.path) for file in files)
    groups = []
    try:
        for path in paths:
            with pq.ParquetFile(path) as file:
                if not set(names) <= set(file.schema_arrow.names):
                    return None
                found = file.metadata
                groups += [
                    RowGroup(path, k, found.num_row_groups, found.row_group(k).num_rows)
                    for k in range(found.num_row_groups)
                ]
    except (OSError, pa.ArrowException):
        return None
    return tuple(groups) if groups and _is_plain(df, paths) else None


def _is_plain(df: DataFrame, paths: Sequence[str]) -> bool:
    """Whether Spark plans ``df`` as it plans reading the files' directory or the single file.

    A relation remembers its path as it was written, hence the several spellings.
    """
    roots = {os.path.dirname(path) for path in paths}
    if len(roots) > 1:
        return False
    names = [quoted(name) for name in df.columns]
    for root in [*roots, *(paths if len(paths) == 1 else [])]:
        try:
            schema = df.sparkSession.read.parquet(root).schema
            for path in (root, os.path.relpath(root), f"file://{root}"):
                read = df.sparkSession.read.schema(schema).parquet(path)
                if df.sameSemantics(read.select(*names)):
                    return True
        except SPARK_FAILURES:
            # The path means something else when written out, or the columns are not its own.
            continue
    return False
