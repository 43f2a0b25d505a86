"""Rows of a DataFrame as a source of batches for training (`RowSource`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from spark_auc.core.batch import Batch, Change
from spark_auc.core.labels import LabelCounts
from spark_auc.core.memory import ProcessMemory
from spark_auc.core.parallel import cpus
from spark_auc.core.row_source import ArrayRows, Fold, FoldResult, State
from spark_auc.core.sampling.draws import Draws
from spark_auc.core.state.codec import kind_of
from spark_auc.core.types import Float
from spark_auc.spark.data.aggregate import (
    LARGE_STATE,
    aggregate,
    record,
    source_count,
    task_number,
)
from spark_auc.spark.data.arrow_tasks import mapped_batches
from spark_auc.spark.data.columns import BatchReader, TrainingColumns
from spark_auc.spark.data.drawn_pairs import PairReader, drawn_rows
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.readers import TaskRows, rows_for_tasks
from spark_auc.spark.data.resources import SessionMemory

_log = logging.getLogger(__name__)

K = TypeVar("K")

_PACKED = pa.schema([("payload", pa.binary())])
_LABELS, _EXCEEDED = "labels", "exceeded"
# Most stored matrix entries in one cached value.
_PART_ENTRIES = 1 << 20
# Estimate of the vectors of all features in the state of a pass over cached rows.
_VECTORS = 5


class RowReader(Protocol):
    """Decodes the Arrow batches of one task."""

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        """Decode batches."""
        ...

    def labels(self) -> LabelCounts:
        """Number of rows of each label that was read."""
        ...


@dataclass(frozen=True)
class DistributedRows:
    """Rows of a DataFrame, decoded by Spark tasks in each pass.

    Parameters
    ----------
    frame
        Input of the tasks: columns of the rows, numbers of parts of files, or packed batches.
    reader
        Makes the reader of a task, which decodes that input.
    dimension
        Number of features ``d``.
    check
        Raises `DataError` for label counts that training cannot use.
    changes
        Transformations of the decoded rows, applied in this order.
    cached
        Whether another pass is cheap, so that `kept` need not cache the rows.
    sources
        Largest number of partitions of the frame, if each has a task of its own; see `aggregate`.
    """

    frame: DataFrame
    reader: Callable[[], RowReader]
    dimension: int
    check: Callable[[LabelCounts], object]
    changes: tuple[Change, ...] = ()
    cached: bool = False
    sources: int | None = None

    @property
    def memory(self) -> SessionMemory:
        """See `RowSource.memory`."""
        return SessionMemory(self.frame.sparkSession)

    @classmethod
    def of(cls, df: DataFrame, columns: TrainingColumns) -> DistributedRows:
        """Rows of a DataFrame, read by the tasks from its files where possible.

        Parameters
        ----------
        df
            The DataFrame.
        columns
            Columns of the rows.
        """
        selected = columns.select(df)
        frame, read, cheap = TaskRows(selected, iter, df.storageLevel.useMemory)
        if columns.derived:
            _log.info("reader: Spark, because it computes the column of keys, folds or segments")
        else:
            frame, read, cheap = rows_for_tasks(df, columns.names, selected)
        return cls(
            frame,
            lambda: BatchReader(columns, read),
            columns.features.dimension,
            lambda labels: labels.classes(columns.positive),
            cached=cheap,
        )

    @contextmanager
    def kept(self) -> Iterator[DistributedRows]:
        """Cache the decoded rows in Spark's memory for the passes inside the block.

        Parquet row groups and rows of a cached DataFrame are already cheap to read, and are used
        as they are.
        """
        if self.cached:
            yield self
            return
        make, changes = self.reader, self.changes

        def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            reader = make()
            for batch in _apply(changes, reader.read(batches)):
                for part in _parts(batch):
                    yield record(_PACKED, part.to_bytes())
            yield record(_PACKED, reader.labels().to_bytes())

        # Spark recomputes rows that exceed its memory: a copy on disk can be many times the source.
        source, sources = self.frame, self.sources
        if sources is None:
            # Grouped before they are cached: later Spark would group them by their locations.
            sources = source_count(source.sparkSession, 8 * _VECTORS * self.dimension)
            source = source.coalesce(sources)
        frame = mapped_batches(source, pack, _PACKED).persist(StorageLevel.MEMORY_ONLY)
        try:
            yield replace(
                self, frame=frame, reader=_PackedReader, changes=(), cached=True, sources=sources
            )
        finally:
            frame.unpersist()

    def changed(self, change: Change, dimension: int | None = None) -> DistributedRows:
        """See `Folding.changed`."""
        return replace(self, changes=(*self.changes, change), dimension=dimension or self.dimension)

    def fold(
        self, fold: Fold, kinds: Sequence[type[State]], *, state_bytes: int, what: str
    ) -> FoldResult:
        """See `Folding.fold`.

        Raises
        ------
        DataError
            A value is invalid, or the rows do not have two classes.
        ResourceError
            The states exceed the available memory.
        """
        make, changes = self.reader, self.changes

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, State]]:
            reader = make()
            for name, state in fold(_apply(changes, reader.read(batches))):
                # A task without rows sends no states, so that they do not count in the merge.
                if not reader.labels().rows:
                    return
                yield name, state
            yield _LABELS, reader.labels()

        states = aggregate(
            self.frame,
            run,
            (*kinds, LabelCounts),
            state_bytes=state_bytes,
            what=what,
            sources=self.sources,
        )
        labels = cast(LabelCounts, states.pop(_LABELS, LabelCounts()))
        self.check(labels)
        return FoldResult(states, labels)

    def paired(self, draws: Draws, bounds: tuple[Float, Float]) -> DistributedRows:
        """See `RowSource.paired`.

        Only the drawn rows are shuffled. Each part is paired by one task.
        """
        make, changes = self.reader, self.changes

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
            return _apply(changes, make().read(batches))

        dimension = self.dimension
        frame = drawn_rows(self.frame, read, draws, bounds, self.sources)
        return DistributedRows(
            frame,
            lambda: PairReader(dimension),
            dimension,
            lambda _: None,
            sources=self.memory.slots,
        )

    def gathered(self) -> ArrayRows:
        """Collect all rows into the memory of the driver."""
        with translated():
            table = self.frame.toArrow()
        reader = self.reader()
        batches = tuple(_apply(self.changes, reader.read(iter(table.to_batches()))))
        return ArrayRows(batches, self.dimension)

    def gathered_within(self, limit: float) -> ArrayRows | None:
        """See `RowSource.gathered_within`; each task slot has an equal share of the limit.

        A share below the size of a large state is not tried. The rows are merged in the order of
        their partitions.

        Raises
        ------
        DataError
            A value is invalid, or the rows do not have two classes.
        """
        make, changes = self.reader, self.changes
        share = int(limit // self.memory.slots)
        if share <= LARGE_STATE:
            return None

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, State]]:
            reader, task, size = make(), task_number(), 0
            parts: list[Batch] = []
            for batch in _apply(changes, reader.read(batches)):
                parts += _parts(batch)
                size += batch.nbytes
                if size > share:
                    yield f"{task:08}/{_EXCEEDED}", LabelCounts()
                    return
            for number, part in enumerate(parts):
                # Each key has one batch: batches are not merged.
                yield f"{task:08}/{number:08}", cast(State, part)
            yield f"{task:08}/{_LABELS}", reader.labels()

        what = f"rows in memory of at most {limit / 2**20:.0f} MiB"
        kinds = (cast(type[State], Batch), LabelCounts)
        states = aggregate(
            self.frame, run, kinds, state_bytes=share, what=what, sources=self.sources
        )
        if any(key.endswith(_EXCEEDED) for key in states):
            _log.info("the rows exceed this limit: the tasks compute the moments")
            return None
        _log.info("the rows take less memory than their moments: using the rows")
        labels = reduce(LabelCounts.merge, _of_kind(states, LabelCounts), LabelCounts())
        self.check(labels)
        memory = ProcessMemory(cpus())
        return ArrayRows(_of_kind(states, Batch), self.dimension, memory, labels)


@dataclass
class _PackedReader:
    """Decodes the batches and label counts that `DistributedRows.kept` stored as bytes."""

    counts: LabelCounts = field(default_factory=LabelCounts)

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        for batch in batches:
            for payload in batch.column(0):
                data = payload.as_py()
                if kind_of(data, ("LabelCounts", "Batch")) == "LabelCounts":
                    self.counts = self.counts.merge(LabelCounts.from_bytes(data))
                else:
                    yield Batch.from_bytes(data)

    def labels(self) -> LabelCounts:
        return self.counts


def _of_kind(states: Mapping[str, State], kind: type[K]) -> list[K]:
    """The states of one class, in the order of their names."""
    return [state for _, state in sorted(states.items()) if isinstance(state, kind)]


def _parts(batch: Batch) -> Iterator[Batch]:
    """Split a batch into parts of at most 2^20 matrix entries."""
    size = max(1, _PART_ENTRIES * batch.y.size // max(batch.X.size, 1))
    for start in range(0, batch.y.size, size):
        yield batch.take(np.arange(start, min(start + size, batch.y.size)))


def _apply(changes: Sequence[Change], batches: Iterator[Batch]) -> Iterator[Batch]:
    for change in changes:
        batches = change(batches)
    return batches
