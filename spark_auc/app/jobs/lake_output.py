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

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

Table: TypeAlias = DeltaLake | IcebergTable


def opened(output: ScoreOutput) -> Table:
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
        table: Table = DeltaLake(output.place, output.settings())
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


def check_schema(table: Table, rows: DataFrame, output: ScoreOutput) -> list[str]:
    """The columns of rows in the order of a table, before a row is read.

    Raises
    ------
    ConfigError
        The rows have other columns than the table, a column that no table stores, or no partition
        column.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import UserDefinedType

    types = {field.name: field.dataType for field in rows.schema}
    vectors = [name for name, kind in types.items() if isinstance(kind, UserDefinedType)]
    if missing := [name for name in output.partitionBy if name not in types]:
        raise ConfigError(
            f"found partitionBy {missing} that no column of the scores has, expected some of "
            f"{', '.join(types)}; add them to score.keep"
        )
    if vectors:
        raise ConfigError(
            f"found vectors in the columns {', '.join(vectors)}, expected values that a table "
            "stores; leave them out of score.keep"
        )
    if table.schema is None:
        return list(types)
    found = {name: kind.simpleString() for name, kind in types.items()}
    wanted = {f.name: f.dataType.simpleString() for f in from_arrow_schema(table.schema)}
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


def written(table: Table, rows: DataFrame, output: ScoreOutput, run: str) -> int:
    """Commit rows to a table, all or none, and return their number.

    Parameters
    ----------
    table
        What `opened` returned when the job began.
    rows
        The rows.
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

    from spark_auc.spark.data.names import quoted
    from spark_auc.spark.data.part_files import write_parquet

    names = check_schema(table, rows, output)
    rows = rows.select(*map(quoted, names))
    staging = Directory.of(str(output.staged)) / run
    try:
        write_parquet(rows, staging)
        staged = ds.dataset(staging.path, filesystem=staging.filesystem, format="parquet")
        count, schema = int(staged.count_rows()), _schema(staged, rows)
        reader = pa.RecordBatchReader.from_batches(schema, _batches(staged, schema, names))
        table.write(reader, output.mode, output.partitionBy)
    finally:
        _delete(staging)
    _log.info("committed the scores of %d rows to %s", count, output.place)
    return count


def _schema(staged: ds.Dataset, rows: DataFrame) -> pa.Schema:
    """The types of staged rows, where Spark's files have times in another unit."""
    from pyspark.sql.types import TimestampType

    zones = {f.name: "UTC" if isinstance(f.dataType, TimestampType) else None for f in rows.schema}
    types = {f.name: f.type for f in staged.schema}
    return pa.schema(
        {
            name: pa.timestamp("us", zone) if pa.types.is_timestamp(types[name]) else types[name]
            for name, zone in zones.items()
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
