"""Whether a job can read the sources that it names, before Spark starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spark_auc.app.config.sections import Section, SparkSection
from spark_auc.app.config.sources import Source
from spark_auc.errors import ConfigError
from spark_auc.publication.directory import Directory
from spark_auc.publication.versions import files_of
from spark_auc.storage.file_systems import is_local, is_pattern, scheme_of


def check_reach(section: Section, settings: SparkSection) -> None:
    """Check that tasks or Spark can read each source of a section.

    Parameters
    ----------
    section
        The section of the job.
    settings
        The settings of Spark.

    Raises
    ------
    ConfigError
        A source is empty, or neither Arrow nor Spark has a file system for it.
    StorageError
        The store of a source failed.
    """
    from spark_auc.spark.data.session import may_open

    for source in _sources(section):
        if source.path is None or is_local(source.path):
            continue
        scheme, reason = scheme_of(source.path), "Arrow reads Parquet and delimited text"
        try:
            is_read = source.through_arrow and Directory.of(source.path).object_store
        except ConfigError as error:
            is_read, reason = False, str(error)
        if is_read and files_of(source.path):
            continue
        if is_read and not is_pattern(source.path):
            raise ConfigError(
                f"found nothing at {source.path!r}, expected a file, a directory or a "
                "published output; check the path"
            )
        if not may_open(scheme, settings.settings(), settings.remote):
            raise ConfigError(
                f"found {source.path!r} of format {source.format}, and no jar by which Spark opens "
                f"{scheme} ({reason}), expected Parquet or CSV in an object store, or a jar like "
                "hadoop-aws; convert the files, or set spark.jars.packages"
            )


def _sources(value: Any) -> Iterator[Source]:
    if isinstance(value, Source):
        yield value
    elif isinstance(value, Section):
        for name in type(value).model_fields:
            yield from _sources(getattr(value, name))
