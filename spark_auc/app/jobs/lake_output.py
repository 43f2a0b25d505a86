"""Scores to a table of Delta Lake or Iceberg, in one commit.

Tasks write the rows to files of the run beside the table, where no reader sees them. The driver
commits them from there, batch by batch, and deletes them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from spark_auc.app.config.outputs import ScoreOutput
from spark_auc.errors import ConfigError
from spark_auc.lakes.delta import DeltaLake
from spark_auc.lakes.iceberg import IcebergTable
from spark_auc.publication.directory import Directory
from spark_auc.tables.table import Table
from spark_auc.tables.types import is_list, is_text, is_vector

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_log = logging.getLogger(__name__)

LakeTable: TypeAlias = DeltaLake | IcebergTable


def opened(output: ScoreOutput) -> LakeTable:
    """The table as it is now; its commit is refused if others commit to the same rows since.

    Raises
    ------
    ConfigError
        The table exists and must not, has other partitions than ``partitionBy``, or its catalog
        cannot be opened.
    MissingPackageError
        The package of the format is not installed.
    """
    if output.format == "delta":
        table: LakeTable = DeltaLake(output.place, output.settings())
    else:
        table = IcebergTable(output.place, output.settings())
    if table.schema is None:
        return table
    if output.mode == "errorIfExists":
        raise ConfigError(
            f"found a table at {output.place!r}, expected none; set output.mode to append or "
            "overwrite, or name another table"
        )
    there = table.partitions
    if output.partitionBy and output.partitionBy != there:
        raise ConfigError(
            f"found partitionBy {output.partitionBy} for the table {output.place!r}, which is "
            f"partitioned by {there}; set partitionBy so, or leave it out"
        )
    return table


def check_schema(target: LakeTable, schema: pa.Schema, output: ScoreOutput) -> list[str]:
    """The columns of rows in the order of a table, before a row is read.

    Raises
    ------
    ConfigError
        The rows have other columns than the table, a column that no table stores, or no partition
        column.
    """
    vectors = [field.name for field in schema if is_vector(field.type)]
    if missing := [name for name in output.partitionBy if name not in schema.names]:
        raise ConfigError(
            f"found partitionBy {missing} that no column of the scores has, expected some of "
            f"{', '.join(schema.names)}; add them to score.keep"
        )
    if vectors:
        raise ConfigError(
            f"found vectors in the columns {', '.join(vectors)}, expected values that a table "
            "stores; leave them out of score.keep"
        )
    if target.schema is None:
        return list(schema.names)
    found = {field.name: _stored(field.type) for field in schema}
    wanted = {field.name: _stored(field.type) for field in target.schema}
    differences = [
        f"{name} ({found.get(name, 'not in the scores')}, in the table "
        f"{wanted.get(name, 'not there')})"
        for name in sorted({*found, *wanted})
        if found.get(name) != wanted.get(name)
    ]
    if differences:
        raise ConfigError(
            f"found scores that differ from the table {output.place!r} in the columns "
            f"{'; '.join(differences)}, expected the same columns; change score.keep and "
            "data.select, or name another table"
        )
    return list(wanted)


def written(
    target: LakeTable, rows: Table, columns: Sequence[str], output: ScoreOutput, run: str
) -> int:
    """Commit columns of rows to a table, all or none, and return the number of rows.

    Parameters
    ----------
    target
        What `opened` returned when the job began.
    rows, columns
        The rows, and names of the columns.
    output
        The output.
    run
        Id of the run, which no other run has.

    Raises
    ------
    ConfigError
        See `check_schema`; the table refuses the rows.
    ConflictError
        Another writer committed to the table since it was opened.
    """
    # The import takes pandas along.
    import pyarrow.dataset as ds

    schema = pa.schema([rows.schema.field(name) for name in columns])
    names = check_schema(target, schema, output)
    staging = Directory.of(str(output.staged)) / run
    try:
        rows.write(staging, names)
        staged = ds.dataset(staging.path, filesystem=staging.filesystem, format="parquet")
        count, schema = int(staged.count_rows()), _schema(staged, schema)
        reader = pa.RecordBatchReader.from_batches(schema, _batches(staged, schema, names))
        target.write(reader, output.mode, output.partitionBy)
    finally:
        _delete(staging)
    _log.info("committed the scores of %d rows to %s", count, output.place)
    return count


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type of a column as tables store it."""
    if is_text(kind):
        return pa.string()
    if is_list(kind):
        return pa.list_(_stored(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _stored(field.type)) for field in kind])
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _schema(staged: ds.Dataset, rows: pa.Schema) -> pa.Schema:
    """The types of staged rows, where Spark's files have times in another unit."""
    types = {f.name: f.type for f in staged.schema}
    return pa.schema(
        {
            field.name: _stored(field.type)
            if pa.types.is_timestamp(field.type)
            else types[field.name]
            for field in rows
        }
    )


def _batches(
    staged: ds.Dataset, schema: pa.Schema, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    yield from (batch.cast(schema) for batch in staged.to_batches(columns=list(names)))


def _delete(staging: Directory) -> None:
    try:
        staging.filesystem.delete_dir(staging.path)
    except FileNotFoundError:
        return
    except OSError as error:
        _log.warning("cannot delete %s, which no table needs: %s", staging.uri, error)
