"""A table of Delta Lake: the data files of its latest version, and commits of rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from os import fspath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError, ConflictError, DataError, require
from spark_auc.storage.file_systems import is_local, opened

# Settings of a table by which columns have other names in the files.
_MAPPING = "delta.columnMapping.mode"


# What deltalake decodes, or takes for a separator, in local paths; with brackets it fails.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]^|\\\x00-\x1f\x7f]")


def delta_location(location: AnyPath) -> str:
    """A location as deltalake takes it: the absolute path of a local one.

    Raises
    ------
    ConfigError
        deltalake would read the local path as another, or fail.
    """
    if not is_local(location):
        return fspath(location)
    path = opened(location)[2]
    if misread := _MISREAD.search(path):
        raise ConfigError(
            f"found {misread[0]!r} in the path {path!r} of a Delta table, expected none of "
            "[ ] ^ | \\ and no % before two digits, which the package deltalake reads as another "
            "path; name another directory"
        )
    return path


class DeltaLake:
    """The latest version of a table when it was opened.

    Parameters
    ----------
    location
        A path, or a URI of S3, GCS or ABFS.
    options
        Options of the object store; see deltalake.

    Raises
    ------
    ConfigError
        See `delta_location`.
    MissingPackageError
        deltalake is not installed.
    """

    def __init__(self, location: AnyPath, options: Mapping[str, str] | None = None) -> None:
        require("store", "deltalake")
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        self.location, self._options = delta_location(location), dict(options or {}) or None
        self._table: DeltaTable | None
        try:
            self._table = DeltaTable(self.location, storage_options=self._options)
        except TableNotFoundError:
            self._table = None

    @property
    def schema(self) -> pa.Schema | None:
        """The columns; None if there is no table."""
        return None if self._table is None else pa.schema(self._table.schema().to_arrow())

    @property
    def schema_json(self) -> Any:
        """The columns in the form of Spark's JSON; None if there is no table."""
        return None if self._table is None else json.loads(self._table.schema().to_json())

    @property
    def partitions(self) -> list[str]:
        """The partition columns."""
        return [] if self._table is None else list(self._table.metadata().partition_columns)

    def files(self) -> list[str]:
        """URIs of the Parquet files, whose rows are those of the table.

        Raises
        ------
        ConfigError
            A file is not in the directories of its partitions.
        DataError
            There is no table, or the files have deleted rows or other names of columns.
        """
        if self._table is None:
            raise DataError(
                f"found no Delta table at {self.location!r}, expected one; check the path"
            )
        deleted = pa.table(self._table.deletion_vectors()).num_rows
        mapping = self._table.metadata().configuration.get(_MAPPING, "none")
        found = f"{deleted} deletion vectors" if deleted else ""
        if mapping not in (None, "none"):
            found = f"column mapping by {mapping}"
        if found:
            raise DataError(
                f"found {found} in the Delta table {self.location!r}, expected files that have its "
                "rows and names; rewrite the table, or read it by Delta's connector for Spark"
            )
        # The log has relative paths as URLs; paths of Spark and Arrow are not decoded.
        paths = list(map(unquote, pa.table(self._table.get_add_actions())["path"].to_pylist()))
        self._check_layout(paths)
        return sorted(p if "://" in p else f"{self.location.rstrip('/')}/{p}" for p in paths)

    def _check_layout(self, files: Sequence[str]) -> None:
        """`ConfigError` if a file is not in the directories of its partitions."""
        partitions = self.partitions
        for file in files:
            names = [part.partition("=")[0] for part in file.split("/")[:-1] if "=" in part]
            if partitions and names[-len(partitions) :] != partitions:
                raise ConfigError(
                    f"found the file {file} outside of directories of {', '.join(partitions)} in "
                    f"the Delta table {self.location!r}, expected NAME=VALUE; rewrite the table, "
                    "or read it by Delta's connector for Spark"
                )

    def write(
        self, rows: pa.RecordBatchReader, mode: str, partition_by: Sequence[str] = ()
    ) -> None:
        """Commit rows to the version that was opened, all or none.

        Parameters
        ----------
        rows
            The rows.
        mode
            "errorIfExists", "append" or "overwrite". An overwrite with partition columns replaces
            the partitions of ``rows`` alone.
        partition_by
            Partition columns, of a new table too. Other ones than the table has are refused.

        Raises
        ------
        ConfigError
            The table exists, or deltalake refuses the rows.
        ConflictError
            Another writer committed rows that this commit would replace, or made the table.
        """
        from deltalake import write_deltalake
        from deltalake.exceptions import CommitFailedError, DeltaError

        predicate, source = None, rows
        if mode == "overwrite" and self._table is not None:
            # Without a predicate, deltalake would keep the rows of a commit since then.
            predicate = "true"
            if partition_by:
                table = rows.read_all()
                source, predicate = table.to_reader(), _predicate(table, partition_by)
                if not predicate:
                    return
        kind: Any = "error" if mode == "errorIfExists" or self._table is None else mode
        try:
            write_deltalake(
                self._table if self._table is not None else self.location,
                source,
                mode=kind,
                partition_by=list(partition_by) or None,
                predicate=predicate,
                storage_options=None if self._table is not None else self._options,
            )
        except (CommitFailedError, DeltaError) as error:
            is_race = isinstance(error, CommitFailedError) or (
                self._table is None and "already exists" in str(error)
            )
            if is_race:
                raise ConflictError(
                    f"found another commit to the Delta table {self.location!r} since this job "
                    f"began ({error}), expected none to the same rows; nothing is written: run "
                    "this job again"
                ) from None
            raise ConfigError(
                f"found that deltalake refuses the rows for {self.location!r} ({error}), expected "
                "rows of its columns and partitions; correct the output"
            ) from None


def _predicate(table: pa.Table, columns: Sequence[str]) -> str:
    """SQL of the partitions of rows; empty without rows."""
    distinct = table.group_by(list(columns)).aggregate([]).to_pylist()
    terms = (" AND ".join(_equals(name, row[name]) for name in columns) for row in distinct)
    return " OR ".join(f"({term})" for term in terms)


def _equals(name: str, value: Any) -> str:
    column = f'"{name}"'
    if value is None:
        return f"{column} IS NULL"
    if isinstance(value, bool | int):
        return f"{column} = {str(value).lower()}"
    text = str(value).replace("'", "''")
    return f"{column} = '{text}'"
