"""Files that arrive in a directory, in micro-batches.

Structured Streaming keeps the account of which files belong to which batch. What streams are the
names of the files, not their rows: inside `foreachBatch` a DataFrame is only what its tasks
return, so that one unreadable file would hide which files the batch has. The rows are read by
name instead, all together or one file at a time.

On Spark Connect the function given to `foreachBatch` runs in a process of the server, without the
state that this one keeps, so a stream needs classic Spark.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.failures import SPARK_FAILURES, translated

# What Spark's "binaryFile" source tells of a file; the content is never asked for.
_LISTED = "path string, modificationTime timestamp, length long, content binary"
_LISTING_OPTIONS = ("pathGlobFilter", "recursiveFileLookup")
# By default Spark ignores, without a word, a file that is a week older than the newest one read.
_OLDEST_FILE = "36500d"
_POLL_SECONDS = 0.5


class Arrived(NamedTuple):
    """A file of a batch.

    Parameters
    ----------
    path
        As Spark names it.
    modified
        When it was last changed, in hours since 1970.
    """

    path: str
    modified: float


@dataclass(frozen=True)
class FileStream:
    """Files of a directory in order of their time of change, in batches.

    Parameters
    ----------
    spark
        A classic session.
    path
        Directory or pattern.
    format, options, schema
        How rows are read from the files.
    """

    spark: SparkSession
    path: str
    format: str
    options: Mapping[str, str]
    schema: StructType

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        path: str,
        form: str,
        options: Mapping[str, str],
        ddl: str | None = None,
        known: str | None = None,
    ) -> FileStream:
        """The stream with the schema given as DDL, or known as JSON, or that of the files there.

        Raises
        ------
        ConfigError
            The session is one of Spark Connect, or the schema is none.
        DataError
            No file tells a schema.
        """
        if not type(spark).__module__.startswith(("pyspark.sql.session", "pyspark.sql.classic")):
            raise ConfigError(
                "found a Spark Connect session, expected classic Spark for a stream; "
                "leave out spark.remote, or leave out opauc.stream and learn of a batch"
            )
        # Without it a damaged line of text is a row of nulls, or a row cut short.
        options = ({"mode": "FAILFAST"} if form in {"csv", "json"} else {}) | dict(options)
        stream = cls(spark, path, form, options, StructType())
        if ddl is not None:
            return replace(stream, schema=stream._given(ddl))
        schema = StructType.fromJson(json.loads(known)) if known else stream._inferred()
        return replace(stream, schema=schema)

    def _given(self, ddl: str) -> StructType:
        try:
            found, why = StructType.fromDDL(ddl), ""
        except SPARK_FAILURES as failure:
            found, why = None, f" ({str(failure).strip().splitlines()[0]})"
        if not isinstance(found, StructType):
            raise ConfigError(
                f"found the schema {ddl!r}{why}, expected names and types as in "
                "'label double, a double'; repair opauc.stream.schema"
            )
        return found

    def _inferred(self) -> StructType:
        reader = self.spark.read.format(self.format).options(**self.options)
        try:
            return reader.load(self.path).schema
        except SPARK_FAILURES:
            # One unreadable file is enough to fail; any readable one will do.
            for file in self._present():
                try:
                    return reader.load(_literal(file.path)).schema
                except SPARK_FAILURES:
                    continue
        raise DataError(
            f"found no readable {self.format} file at {self.path!r}, expected one to take the "
            "schema from; add one or set opauc.stream.schema"
        )

    def _present(self) -> list[Arrived]:
        listed = self.spark.read.format("binaryFile").options(**self._listing()).load(self.path)
        return _arrived(listed)

    def _listing(self) -> dict[str, str]:
        return {key: self.options[key] for key in _LISTING_OPTIONS if key in self.options}

    def rows(self, files: Sequence[Arrived]) -> DataFrame:
        """The rows of some files."""
        reader = self.spark.read.format(self.format).options(**self.options).schema(self.schema)
        return reader.load([_literal(file.path) for file in files])

    def none(self) -> DataFrame:
        """No rows."""
        return self.spark.createDataFrame([], self.schema)

    def run(
        self,
        on_batch: Callable[[int, Callable[[], list[Arrived]]], None],
        *,
        checkpoint: str,
        max_files: int,
        every: str | None,
        stop: threading.Event,
    ) -> None:
        """Hand each batch's number, and what lists its files, to ``on_batch``.

        Parameters
        ----------
        on_batch
            Called once for each batch, and again for the last one where the process died in it.
        checkpoint
            Directory of Spark's account of the files.
        max_files
            Most files of a batch.
        every
            Interval between batches; None to end once all files that are there were read.
        stop
            Set to end after the batch that is being learned.

        Raises
        ------
        Exception
            What ``on_batch`` raised.
        """
        failures: list[BaseException] = []
        busy = threading.Lock()

        def run_batch(listed: DataFrame, number: int) -> None:
            with busy:
                try:
                    if stop.is_set():
                        raise _StoppedError
                    on_batch(number, lambda: _arrived(listed))
                except BaseException as error:
                    failures.append(error)
                    raise

        names = (
            self.spark.readStream.format("binaryFile")
            .schema(_LISTED)
            .options(maxFilesPerTrigger=max_files, maxFileAge=_OLDEST_FILE, **self._listing())
            .load(self.path)
            .select("path", "modificationTime")
        )
        trigger: dict[str, Any] = {"processingTime": every} if every else {"availableNow": True}
        writer = names.writeStream.foreachBatch(run_batch).trigger(**trigger)
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                # A batch that begins meanwhile ends itself.
                if stop.is_set() and busy.acquire(blocking=False):
                    busy.release()
                    query.stop()
        except SPARK_FAILURES:
            if not failures:
                raise
            if not isinstance(failures[0], _StoppedError):
                raise failures[0] from None
        finally:
            if query.isActive:
                query.stop()


class _StoppedError(Exception):
    pass


def _arrived(listed: DataFrame) -> list[Arrived]:
    with translated():
        found = listed.select("path", F.unix_micros("modificationTime")).collect()
    return sorted((Arrived(path, micros / 3.6e9) for path, micros in found), key=lambda f: f[::-1])


def _literal(path: str) -> str:
    """The path where Spark expects a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
