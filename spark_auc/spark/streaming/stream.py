"""Process a stream in micro-batches.

Structured Streaming records which rows belong to which batch, and repeats an unfinished batch with
the same rows. The source is a `Stream`: files of a directory (`FileStream`) or another source of
Spark (`TableStream`).

A stream needs classic Spark: on Spark Connect the function passed to `foreachBatch` runs in a
process of the server, without the state of this process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_auc.errors import ConfigError
from spark_auc.spark.data.failures import SPARK_FAILURES

_POLL_SECONDS = 0.5


class ArrivedFile(NamedTuple):
    """A file of a batch.

    Parameters
    ----------
    path
        Path in Spark's form.
    modified
        Time of the last change, in hours since 1970.
    """

    path: str
    modified: float


@dataclass(frozen=True)
class MicroBatch:
    """Rows of one batch.

    Parameters
    ----------
    files
        The files of the batch, each of which can be rejected; empty if the source has no files.
    rows
        Reads the rows of a subset of the files.
    """

    files: Sequence[ArrivedFile]
    rows: Callable[[Sequence[ArrivedFile]], DataFrame]


class Stream(Protocol):
    """A source of batches."""

    @property
    def spark(self) -> SparkSession:
        """A classic session."""

    @property
    def schema(self) -> StructType:
        """The schema of the rows, the same for all batches."""

    def arriving(self) -> DataFrame:
        """The streaming DataFrame that Structured Streaming divides into batches."""

    def batch(self, arrived: DataFrame) -> MicroBatch:
        """The rows of a batch.

        Parameters
        ----------
        arrived
            The batch's part of `arriving`.
        """


def check_classic(spark: SparkSession) -> None:
    """`ConfigError` if the session is a Spark Connect session."""
    if not type(spark).__module__.startswith(("pyspark.sql.session", "pyspark.sql.classic")):
        raise ConfigError(
            "found a Spark Connect session, expected classic Spark for a stream, whose state is in "
            "this process; remove spark.remote, or learn one batch without --stream"
        )


def schema_of(ddl: str) -> StructType:
    """Parse a schema in DDL form; `ConfigError` if it is invalid."""
    try:
        schema, reason = StructType.fromDDL(ddl), ""
    except SPARK_FAILURES as failure:
        schema, reason = None, f" ({str(failure).strip().splitlines()[0]})"
    if not isinstance(schema, StructType):
        raise ConfigError(
            f"found the schema {ddl!r}{reason}, expected names and types as in "
            "'label double, a double'; repair the schema in opauc.stream"
        )
    return schema


def run(
    stream: Stream,
    on_batch: Callable[[int, Callable[[], MicroBatch]], None],
    *,
    checkpoint: str,
    every: str | None,
    stop: threading.Event,
) -> None:
    """Call a function for each batch of a stream.

    Parameters
    ----------
    stream
        The source.
    on_batch
        Called with the number of the batch and a function that returns its rows: once for each
        batch, and again for the last batch after the process died during it.
    checkpoint
        Directory of Spark's checkpoint.
    every
        Interval between batches, such as "1 minute"; None to end after all available rows.
    stop
        When set, the stream ends after the current batch.

    Raises
    ------
    Exception
        The exception of ``on_batch``.
    """
    failures: list[BaseException] = []
    busy = threading.Lock()

    def run_batch(arrived: DataFrame, number: int) -> None:
        with busy:
            try:
                if stop.is_set():
                    raise _StoppedError
                on_batch(number, lambda: stream.batch(arrived))
            except BaseException as error:
                failures.append(error)
                raise

    trigger: dict[str, Any] = {"processingTime": every} if every else {"availableNow": True}
    writer = stream.arriving().writeStream.foreachBatch(run_batch).trigger(**trigger)
    query = writer.option("checkpointLocation", checkpoint).start()
    try:
        while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
            # A batch that starts now raises _StoppedError.
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
