"""The Delta table of a store: its files by partition, commits of whole partitions, and vacuum."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from os import fspath
from typing import NamedTuple

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pyarrow import fs

from spark_auc.core.types import AnyPath
from spark_auc.errors import ModelFormatError, StoreConflict
from spark_auc.lakes.delta import delta_location
from spark_auc.store import durability
from spark_auc.store.durability import flush_checkpoint, flush_commits, local_path

_log = logging.getLogger(__name__)

# Commits of other periods are merged by as many retries as there may be writers at once.
_RETRIES = 1000
_COMMITS_PER_CHECKPOINT = 10
# Larger than any period: the rows of a source are one file.
_ONE_FILE = 2**40
_CONFIGURATION = {
    # The bytes have no minimum; the log would hold two of them for each file.
    "delta.dataSkippingStatsColumns": "segment,fold,class,tile",
    "delta.logRetentionDuration": "interval 30 days",
    # A deletion finds all superseded files by the log, however old.
    "delta.deletedFileRetentionDuration": "interval 36500 days",
}


class File(NamedTuple):
    """A data file: its path below the table's root, and its size in bytes."""

    path: str
    size: int


class Table:
    """A Delta table with string partition columns, one file per partition.

    Parameters
    ----------
    location
        A path, or a URI of S3, GCS or ABFS.
    schema
        Arrow schema of the rows.
    partitions
        Names of the partition columns.
    storage_options
        Options of the object store; see deltalake.

    Raises
    ------
    ConfigError
        See `delta_location`.
    ModelFormatError
        The table has other columns.
    """

    def __init__(
        self,
        location: AnyPath,
        schema: pa.Schema,
        partitions: Sequence[str],
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        # A URI of a file is decoded, as deltalake does.
        path = local_path(fspath(location))
        self.location = delta_location(fspath(location) if path is None else path)
        self.schema, self.partitions = schema, list(partitions)
        self._options = dict(storage_options) if storage_options else None
        self._delta: DeltaTable | None = None
        self.refresh()

    @property
    def version(self) -> int:
        """Version of the snapshot; -1 if there is no table yet."""
        return -1 if self._delta is None else int(self._delta.version())

    def refresh(self) -> None:
        """Read the latest version."""
        if self._delta is not None:
            self._delta.update_incremental()
            return
        try:
            self._delta = self._opened()
        except TableNotFoundError:
            return
        found = [(f.name, f.type.type) for f in self._delta.schema().fields]
        found_partitions = self._delta.metadata().partition_columns
        if [n for n, _ in found] != self.schema.names or found_partitions != self.partitions:
            raise ModelFormatError(
                f"found a table of the columns {[n for n, _ in found]} by {found_partitions} at "
                f"{self.location!r}, expected {self.schema.names} by {self.partitions}; set "
                "another location for the store"
            )

    def _opened(self) -> DeltaTable:
        return DeltaTable(self.location, storage_options=self._options)

    def files(self) -> dict[tuple[str, ...], File]:
        """The file of each partition in the snapshot.

        Raises
        ------
        ModelFormatError
            A partition has several files.
        """
        if self._delta is None:
            return {}
        actions = pa.table(self._delta.get_add_actions(flatten=True))
        names = ["path", "size_bytes", *(f"partition.{name}" for name in self.partitions)]
        columns = (actions[name].to_pylist() for name in names)
        files: dict[tuple[str, ...], File] = {}
        for path, size, *partition in zip(*columns, strict=True):
            key = tuple(partition)
            if key in files:
                raise ModelFormatError(
                    f"found several files of {dict(zip(self.partitions, key, strict=True))}, "
                    "expected one; replace the period by another run of its job"
                )
            files[key] = File(path, size)
        return files

    def file_system(self) -> fs.FileSystem:
        """The file system with the table's root as its root."""
        path = local_path(self.location)
        if path is not None:
            return fs.SubTreeFileSystem(str(path.resolve()), fs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return fs.PyFileSystem(DeltaStorageHandler(self.location, self._options))

    def has_mark(self, mark: str) -> bool:
        """Whether a commit of the snapshot, or before it, has a mark."""
        return self._delta is not None and self._delta.transaction_version(mark) is not None

    def replace(
        self,
        predicate: str,
        rows: Iterator[pa.RecordBatch],
        group_size: int,
        mark: str | None = None,
    ) -> None:
        """Replace the rows of a partition, in one commit, and flush it to the disk.

        Parameters
        ----------
        predicate
            SQL condition on the partition columns.
        rows
            The new rows.
        group_size
            Number of rows of a row group.
        mark
            Mark of the commit; see `has_mark`.

        Raises
        ------
        StoreConflict
            Another process changed the partition since the snapshot was read.
        """
        delta = self._created()
        with _conflicts():
            write_deltalake(
                delta,
                pa.RecordBatchReader.from_batches(self.schema, rows),
                mode="overwrite",
                predicate=predicate,
                target_file_size=_ONE_FILE,
                writer_properties=WriterProperties(
                    compression="ZSTD",
                    compression_level=1,
                    max_row_group_size=group_size,
                    column_properties={
                        "bytes": ColumnProperties(
                            dictionary_enabled=False, statistics_enabled="NONE"
                        )
                    },
                ),
                commit_properties=CommitProperties(
                    max_commit_retries=_RETRIES,
                    app_transactions=[Transaction(mark, 1)] if mark else None,
                ),
                post_commithook_properties=_hooks(),
            )
        self._settle()

    def remove(self, predicate: str) -> None:
        """Remove partitions, in one commit; arguments and errors are those of `replace`."""
        with _conflicts():
            self._created().delete(
                predicate,
                commit_properties=CommitProperties(max_commit_retries=_RETRIES),
                post_commithook_properties=_hooks(),
            )
        self._settle()

    def _created(self) -> DeltaTable:
        if self._delta is None:
            try:
                self._delta = DeltaTable.create(
                    self.location,
                    schema=self.schema,
                    mode="error",
                    partition_by=self.partitions,
                    configuration=_CONFIGURATION,
                    storage_options=self._options,
                    # A retry would commit the columns again after the process that created the
                    # table, and that process' next commit would fail for changed metadata.
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
            except DeltaError:
                # Another process created it.
                self.refresh()
                if self._delta is None:
                    raise
        return self._delta

    def _settle(self) -> None:
        """Flush the commits; every ten commits, write a checkpoint and delete expired entries."""
        assert self._delta is not None
        path, version = local_path(self.location), self.version
        if path is not None:
            covered = flush_commits(path, version)
            due = version - covered >= _COMMITS_PER_CHECKPOINT
        else:
            due = version % _COMMITS_PER_CHECKPOINT == 0
        if not due:
            return
        try:
            self._delta.create_checkpoint()
            if path is not None:
                flush_checkpoint(path)
            self._delta.cleanup_metadata()
        except (DeltaError, OSError) as error:
            # The commit stands; the next one writes the checkpoint.
            _log.warning("no checkpoint at version %d: %s", version, error)

    def vacuum(self, hours: int = 0) -> None:
        """Delete files that were superseded ``hours`` ago; readers of older versions fail.

        Files that no log entry names may belong to a running writer: they remain, and for 0 hours
        the log lists them.
        """
        if self._delta is None:
            return
        found = partial(self._delta.vacuum, hours, enforce_retention_duration=False)
        found = partial(found, post_commithook_properties=_hooks())
        superseded = found(dry_run=False)
        if (root := local_path(self.location)) is not None:
            durability.flush_deletions(root, superseded)
        self._delta.update_incremental()
        self._settle()
        deleted = {path.rpartition("/")[-1] for path in superseded}
        left = [] if hours else found(dry_run=True, full=True)
        if unnamed := {path.rpartition("/")[-1] for path in left} - deleted:
            _log.warning(
                "found files that no log entry names, of a running or killed job: %s; if no job "
                "runs, delete them",
                ", ".join(sorted(unnamed)[:5]),
            )

    def disk_size(self) -> int | None:
        """Bytes of all files on a local disk, the log and superseded files included; else None."""
        path = local_path(self.location)
        if path is None:
            return None
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())

    def is_latest(self) -> bool:
        """Whether no process committed since the snapshot was read."""
        return self.version == (-1 if self._delta is None else int(self._opened().version()))


def _hooks() -> PostCommitHookProperties:
    # A checkpoint may cover only entries that are flushed.
    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


@contextmanager
def _conflicts() -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise StoreConflict(
            f"found another process that changed the same period ({str(error)[:120]!r}), "
            "expected one job per period at a time; its rows remain: run this job again"
        ) from None
