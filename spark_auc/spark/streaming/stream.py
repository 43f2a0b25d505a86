"""Rows that arrive, in micro-batches.

Structured Streaming keeps the account of what belongs to which batch, and gives a batch that was
not finished again as it was. Where rows come from is a `Stream`: files of a directory
(`stream_files`) or any other source that Spark knows (`stream_table`).

On Spark Connect the function given to `foreachBatch` runs in a process of the server, without the
state that this one keeps, so a stream needs classic Spark.
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
        As Spark names it.
    modified
        When it was last changed, in hours since 1970.
    """

    path: str
    modified: float


@dataclass(frozen=True)
class MicroBatch:
    """Rows that arrived together.

    Parameters
    ----------
    files
        What can be read, or refused, apart; none where rows do not come in files.
    rows
        The rows of some of the files.
    """

    files: Sequence[ArrivedFile]
    rows: Callable[[Sequence[ArrivedFile]], DataFrame]


class Stream(Protocol):
    """Where rows come from."""

    @property
    def spark(self) -> SparkSession:
        """A classic session."""
        ...

    @property
    def schema(self) -> StructType:
        """The schema of all batches' rows."""
        ...

    def arriving(self) -> DataFrame:
        """What Structured Streaming divides into batches."""
        ...

    def batch(self, arrived: DataFrame) -> MicroBatch:
        """The rows that one part of `arriving` stands for."""
        ...


def check_classic(spark: SparkSession) -> None:
    """`ConfigError` where the session is one of Spark Connect."""
    if not type(spark).__module__.startswith(("pyspark.sql.session", "pyspark.sql.classic")):
        raise ConfigError(
            "found a Spark Connect session, expected classic Spark for a stream, whose state "
            "stays with this process; leave out spark.remote, or learn a batch without --stream"
        )


def schema_of(ddl: str) -> StructType:
    """The schema written as DDL; `ConfigError` if it is none."""
    try:
        found, why = StructType.fromDDL(ddl), ""
    except SPARK_FAILURES as failure:
        found, why = None, f" ({str(failure).strip().splitlines()[0]})"
    if not isinstance(found, StructType):
        raise ConfigError(
            f"found the schema {ddl!r}{why}, expected names and types as in "
            "'label double, a double'; repair the schema in opauc.stream"
        )
    return found


def run(
    stream: Stream,
    on_batch: Callable[[int, Callable[[], MicroBatch]], None],
    *,
    checkpoint: str,
    every: str | None,
    stop: threading.Event,
) -> None:
    """Hand each batch's number, and what opens it, to ``on_batch``.

    Parameters
    ----------
    stream
        Where rows come from.
    on_batch
        Called once for each batch, and again for the last one where the process died in it.
    checkpoint
        Directory of Spark's account of the batches.
    every
        Interval between batches; None to end once all that is there was read.
    stop
        Set to end after the batch that is being learned.

    Raises
    ------
    Exception
        What ``on_batch`` raised.
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
