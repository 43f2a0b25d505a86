"""The engines of jobs: this process, or Spark.

The sources of the rows decide, before work begins: this process reads Parquet, delimited text and
JSON Lines, local or in object stores, and tables of Delta Lake and Iceberg; Spark reads all others.
The key ``engine`` of the configuration, or --engine, overrides this.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import pyarrow as pa

from spark_auc.app.config.sections import SparkSection, text_of
from spark_auc.app.config.sources import Source
from spark_auc.errors import ConfigError, DataError
from spark_auc.lakes.delta import DeltaLake
from spark_auc.lakes.iceberg import IcebergTable
from spark_auc.publication.versions import data_files, resolve
from spark_auc.storage.file_systems import (
    OTHER_CODECS,
    is_local,
    is_pattern,
    is_store,
    scheme_of,
)
from spark_auc.storage.file_systems import opened as open_location
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.delimited import separator_of
from spark_auc.tables.files import json_rows, text_rows
from spark_auc.tables.layouts import FORMATS
from spark_auc.tables.nested import with_fields
from spark_auc.tables.parquet_files import parquet_rows
from spark_auc.tables.partitions import partitions_of
from spark_auc.tables.remembered import remembered
from spark_auc.tables.table import Table, fields_by_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_TEXTS = ("csv", "json", *FORMATS)


class Needs(NamedTuple):
    """What a job needs of an engine.

    Parameters
    ----------
    sources
        The sources of its rows.
    reasons
        Whether each of some properties, which Spark alone serves, holds; by their names.
    """

    sources: Sequence[Source]
    reasons: Mapping[str, bool] = {}


class Engine(Protocol):
    """Reads sources as tables."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The errors of rows that cannot be read."""

    def completed(self, source: Source) -> Source:
        """A source that arguments name, with options that its files tell, such as the separator.

        Raises
        ------
        ConfigError
            There is no such table.
        DataError
            There are no lines.
        """

    def read(
        self, source: Source, names: Collection[str] | None = ()
    ) -> AbstractContextManager[Table]:
        """The rows of a source, for use inside the block.

        Parameters
        ----------
        source
            The source.
        names
            Names that may be paths of fields of structs, which become columns; None: all paths.

        Raises
        ------
        ConfigError
            The source cannot be read.
        DataError
            The rows are malformed.
        """


@dataclass(frozen=True)
class LocalEngine:
    """The engine of this process."""

    failures: ClassVar[tuple[type[Exception], ...]] = (ConfigError, DataError, OSError)

    def completed(self, source: Source) -> Source:
        """See `Engine.completed`."""
        if source.format != "csv" or "sep" in source.options:
            return source
        assert source.path is not None
        separator = separator_of(_files(source.path)[0])
        return source.model_copy(update={"options": {"sep": separator} | source.options})

    @contextmanager
    def read(self, source: Source, names: Collection[str] | None = ()) -> Iterator[Table]:
        """See `Engine.read`."""
        table = _local_rows(source)
        if source.select is not None:
            table = table.select(source.select)
        table = source.typed(with_fields(table, names))
        # Text takes longer to read than what its values become.
        yield remembered(table) if source.format in _TEXTS else table


@dataclass(frozen=True)
class SparkEngine:
    """The engine of a session of Spark."""

    session: SparkSession

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """See `Engine.failures`."""
        from spark_auc.spark.data.failures import SPARK_FAILURES

        return (ConfigError, DataError, *SPARK_FAILURES)

    def completed(self, source: Source) -> Source:
        """See `Engine.completed`."""
        from spark_auc.spark.data.failures import translated
        from spark_auc.spark.data.paths import separator_of

        if source.table is not None and not self.session.catalog.tableExists(source.table):
            raise ConfigError(
                f"found neither a file nor a table {source.table!r}, expected the path of a file, "
                "a directory or the name of a table; check --data"
            )
        if source.format != "csv" or not source.path:
            return source
        with translated():
            separator = separator_of(self.session, resolve(source.path))
        return source.model_copy(update={"options": {"sep": separator} | source.options})

    @contextmanager
    def read(self, source: Source, names: Collection[str] | None = ()) -> Iterator[Table]:
        """See `Engine.read`."""
        from spark_auc.spark.data.spark_table import SparkTable

        with source.read(self.session, names) as rows:
            yield SparkTable(rows)


@contextmanager
def opened(name: str, settings: SparkSection, reason: str | None) -> Iterator[Engine]:
    """The engine of a job, for use inside the block.

    Parameters
    ----------
    name
        Name of the application.
    settings
        The settings of Spark.
    reason
        What `reason_for_spark` found.
    """
    if reason is None:
        _log.info("engine: this process")
        yield LocalEngine()
        return
    _log.info("engine: Spark, because of %s", reason)
    # A late import: errors in the configuration do not wait for Spark.
    from spark_auc.spark.data.failures import translated
    from spark_auc.spark.data.session import session

    with session(name, settings.settings(), remote=settings.remote) as spark, translated():
        yield SparkEngine(spark)


def _local_rows(source: Source) -> ArrowTable:
    """All rows of a source that this process can read."""
    options = {name: text_of(value) for name, value in source.options.items()}
    if source.format == "delta":
        assert source.path is not None
        delta = DeltaLake(source.path, options)
        partitions = pa.schema([f for f in delta.schema or () if f.name in delta.partitions])
        return parquet_rows(delta.files(), delta.schema, partitions)
    if source.format == "iceberg":
        iceberg = IcebergTable(source.table or "", options)
        return parquet_rows(iceberg.files(), iceberg.schema)
    assert source.path is not None
    files = _files(source.path)
    partitions = partitions_of(open_location(resolve(source.path))[0], files)
    if source.layout is not None:
        return text_rows(files, layout=source.layout, partitions=partitions)
    if source.format == "csv":
        separator = options.get("sep", ",")
        return text_rows(files, separator, trimmed=source.trimmed, partitions=partitions)
    if source.format == "json":
        return json_rows(files, partitions)
    return parquet_rows(files, partitions=partitions)


def _files(path: str) -> list[str]:
    """The files of rows of a path; `ConfigError` without them."""
    files = data_files(path)
    if not files:
        raise ConfigError(f"found no files of rows at {path!r}, expected some; check the path")
    return files


def reason_for_spark(needs: Needs, settings: SparkSection, engine: str | None) -> str | None:
    """Why Spark runs a job; None where this process does.

    Parameters
    ----------
    needs
        What the job needs.
    settings
        The settings of Spark.
    engine
        "local" or "spark", if the user chose.

    Raises
    ------
    ConfigError
        The engine is "local", and there is a reason for Spark; or there is none, and Spark has
        settings.
    """
    if engine == "spark":
        return "engine: spark"
    found = {
        "spark.remote or spark.master": settings.remote or "spark.master" in settings.conf,
        "spark-submit": "PYSPARK_GATEWAY_PORT" in os.environ,
        **needs.reasons,
        **{reason: True for source in needs.sources if (reason := _of_source(source))},
    }
    reason = next((reason for reason, holds in found.items() if holds), None)
    if engine == "local" and reason is not None:
        raise ConfigError(
            f"found engine: local and {reason}, which Spark alone serves, expected one of them; "
            "leave out engine, or set it to spark"
        )
    if reason is None and settings.conf:
        raise ConfigError(
            f"found spark.conf ({', '.join(settings.conf)}) for rows that this process reads "
            "itself, expected engine: spark with settings of Spark; set engine to spark, or leave "
            "out spark.conf"
        )
    return reason


def _of_source(source: Source) -> str | None:
    """Why Spark reads a source; None where this process can."""
    path, is_lake = source.path or "", source.format in ("delta", "iceberg")
    local = is_local(path)
    reasons = {
        "a table of the session's catalog": source.table is not None and not is_lake,
        "SQL in where": source.where is not None,
        f"files of {source.format}": not is_lake and source.format not in ("parquet", *_TEXTS),
        "a pattern of files": is_pattern(path),
        f"a location of {scheme_of(path)}": not (local or is_store(path)),
        "files of another codec": path.lower().endswith(OTHER_CODECS),
        "options of Spark's reader": not (is_lake or source.through_arrow),
    }
    reason = next((reason for reason, holds in reasons.items() if holds), None)
    if reason is None and source.select is not None:
        lookup = fields_by_name(_local_rows(source))
        if not all(len(lookup(name)) == 1 for name in source.select):
            return "SQL in select"
    return reason
