"""A table of Iceberg: the data files of its current snapshot, and commits of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_auc.errors import ConfigError, ConflictError, DataError, require

_NAME_MAPPING = "schema.name-mapping.default"


class IcebergTable:
    """The current snapshot of a table when it was opened.

    Parameters
    ----------
    name
        Its name in the catalog, such as ``sales.scores``.
    options
        Properties of the catalog, such as ``type``, ``uri`` and ``warehouse``, and ``catalog``,
        its name (default: that of pyiceberg's configuration, or "default"); see pyiceberg.

    Raises
    ------
    MissingPackageError
        pyiceberg is not installed.
    ConfigError
        The catalog cannot be opened, or has no such namespace.
    """

    def __init__(self, name: str, options: Mapping[str, str] | None = None) -> None:
        require("iceberg", "pyiceberg")
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError

        self.location, properties = name, dict(options or {})
        namespace = name.rpartition(".")[0]
        try:
            self._catalog = load_catalog(properties.pop("catalog", None), **properties)
            is_namespace = self._catalog.namespace_exists(namespace)
            self._table: Any = self._catalog.load_table(name) if is_namespace else None
        except NoSuchTableError:
            self._table = None
        except Exception as error:
            # A catalog raises errors of its database or server.
            raise ConfigError(
                f"found a catalog of the table {name!r} that does not open "
                f"({type(error).__name__}), expected one of pyiceberg; correct options, such as "
                "type, uri and warehouse"
            ) from None
        if not is_namespace:
            raise ConfigError(
                f"found no namespace {namespace!r} in the catalog of the table {name!r}, expected "
                "NAMESPACE.TABLE; create it, or correct table and options"
            )

    @property
    def schema(self) -> pa.Schema | None:
        """The columns; None if there is no table."""
        return None if self._table is None else self._table.schema().as_arrow()

    @property
    def partitions(self) -> list[str]:
        """The partition columns.

        Raises
        ------
        ConfigError
            A partition is not that of a column's values.
        """
        if self._table is None:
            return []
        fields = self._table.spec().fields
        if others := [
            f"{f.transform} of {f.name}" for f in fields if str(f.transform) != "identity"
        ]:
            raise ConfigError(
                f"found the partitions {', '.join(others)} in the Iceberg table {self.location!r}, "
                "expected columns alone; write to a table that is partitioned by columns"
            )
        return [self._table.schema().find_column_name(field.source_id) for field in fields]

    def files(self) -> list[str]:
        """URIs of the Parquet files, whose rows are those of the table.

        Raises
        ------
        DataError
            There is no table, or the files have deleted rows, another format, or other names or
            types of columns.
        """
        if self._table is None:
            raise DataError(
                f"found no Iceberg table {self.location!r}, expected one; check table and options"
            )
        tasks = list(self._table.scan().plan_files())
        deleted = sum(len(task.delete_files) for task in tasks)
        formats = {str(task.file.file_format.name) for task in tasks} - {"PARQUET"}
        current = {field.field_id: field for field in self._table.schema().fields}
        ids = {field.name: field.field_id for field in current.values()}
        changed = sorted(
            {
                field.name
                for schema in self._table.schemas().values()
                for field in schema.fields
                if ids.get(field.name, field.field_id) != field.field_id
                or (
                    (now := current.get(field.field_id))
                    and (now.name, now.field_type) != (field.name, field.field_type)
                )
            }
        )
        found = f"{deleted} files of deleted rows" if deleted else ""
        found = f"files of {', '.join(sorted(formats))}" if formats else found
        found = f"columns that changed ({', '.join(changed)})" if changed else found
        if _NAME_MAPPING in self._table.properties:
            found = "files that were added from outside"
        if found:
            raise DataError(
                f"found {found} in the Iceberg table {self.location!r}, expected Parquet files "
                "that have its rows and names; rewrite the table, or read it by Iceberg's "
                "connector for Spark"
            )
        return sorted(task.file.file_path for task in tasks)

    def write(
        self, rows: pa.RecordBatchReader, mode: str, partition_by: Sequence[str] = ()
    ) -> None:
        """Commit rows to the snapshot that was opened, all or none.

        Parameters
        ----------
        rows
            The rows; those of a partitioned table are collected in memory.
        mode
            See `spark_auc.lakes.delta.DeltaLake.write`.
        partition_by
            Partition columns of the table, or of a new one.

        Raises
        ------
        ConfigError
            pyiceberg refuses the rows.
        ConflictError
            Another writer committed to the table, or made it.
        """
        from pyiceberg.exceptions import (
            CommitFailedException,
            CommitStateUnknownException,
            TableAlreadyExistsError,
            ValidationException,
        )

        source = rows.read_all() if partition_by or self.partitions else rows
        try:
            if self._table is None:
                self._created(source, partition_by)
            else:
                with self._table.transaction() as transaction:
                    if mode == "append":
                        transaction.append(source)
                    elif partition_by:
                        transaction.dynamic_partition_overwrite(source)
                    else:
                        transaction.overwrite(source)
        except CommitStateUnknownException:
            raise
        except (CommitFailedException, TableAlreadyExistsError, ValidationException) as error:
            raise ConflictError(
                f"found another commit to the Iceberg table {self.location!r} since this job began "
                f"({error}), expected none; nothing is written: run this job again"
            ) from None
        except (TypeError, ValueError, NotImplementedError) as error:
            raise ConfigError(
                f"found that pyiceberg refuses the rows for {self.location!r} ({error}), expected "
                "rows of its columns and partitions; correct the output"
            ) from None

    def _created(self, source: Any, partition_by: Sequence[str]) -> None:
        """Make the table with rows, in one commit."""
        from pyiceberg.transforms import IdentityTransform

        with self._catalog.create_table_transaction(self.location, source.schema) as transaction:
            if partition_by:
                with transaction.update_spec() as spec:
                    for name in partition_by:
                        spec.add_field(name, IdentityTransform(), name)
            transaction.append(source)
