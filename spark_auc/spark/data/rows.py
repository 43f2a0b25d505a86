"""Rows of a DataFrame as batches, read by the tasks as often as is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from spark_auc.core.batch import Batch, Change
from spark_auc.core.labels import LabelCounts
from spark_auc.core.row_source import ArrayRows, Fold, FoldResult, State
from spark_auc.core.sampling.draws import Draws
from spark_auc.core.state.codec import kind_of
from spark_auc.core.types import Float
from spark_auc.spark.data.aggregate import aggregate
from spark_auc.spark.data.columns import BatchReader, TrainingColumns
from spark_auc.spark.data.drawn_pairs import PairReader, drawn_rows
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.parquet import Read, rows_for_tasks
from spark_auc.spark.data.resources import SessionMemory

_LABELS = "labels"
# Stored entries of the rows that are cached as one value.
_PART_ENTRIES = 1 << 20


class Reads(Protocol):
    """What turns the Arrow batches of one task into rows."""

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        """The rows."""
        ...

    def labels(self) -> LabelCounts:
        """The label values read so far."""
        ...


@dataclass(frozen=True)
class DistributedRows:
    """Rows that the tasks read.

    Parameters
    ----------
    frame
        What the tasks are given.
    reader
        Makes what turns it into rows, in each task.
    dimension
        Number of features ``d``.
    check
        Raises where the labels of all rows cannot serve.
    changes
        What is done to the rows after reading.
    cached
        Whether reading them again is cheap.
    """

    frame: DataFrame
    reader: Callable[[], Reads]
    dimension: int
    check: Callable[[LabelCounts], object]
    changes: tuple[Change, ...] = ()
    cached: bool = False

    @property
    def memory(self) -> SessionMemory:
        """See `RowSource.memory`."""
        return SessionMemory(self.frame.sparkSession)

    @classmethod
    def of(cls, df: DataFrame, columns: TrainingColumns) -> DistributedRows:
        """The rows of a DataFrame."""
        selected = columns.select(df)
        plain: tuple[DataFrame, Read] = (selected, iter)
        # What Spark derives from a column comes with the rows that it reads.
        frame, read = plain if columns.derived else rows_for_tasks(df, columns.names, selected)
        return cls(
            frame,
            lambda: BatchReader(columns, read),
            columns.features.dimension,
            lambda labels: labels.classes(columns.positive),
            cached=frame is not selected or df.storageLevel.useMemory,
        )

    @contextmanager
    def kept(self) -> Iterator[DistributedRows]:
        """The rows while they are read again and again: cached as far as Spark's memory goes.

        Row groups that tasks read themselves are as good as cached, and so is what a cached
        DataFrame gives.
        """
        if self.cached:
            yield self
            return
        make, changes = self.reader, self.changes

        def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            reader = make()
            for batch in _changed(reader.read(batches), changes):
                for part in _parts(batch):
                    yield pa.RecordBatch.from_pydict({"payload": [part.to_bytes()]})
            yield pa.RecordBatch.from_pydict({"payload": [reader.labels().to_bytes()]})

        # What does not fit is read anew: a copy on disk could be many times the source.
        frame = self.frame.mapInArrow(pack, "payload binary").persist(StorageLevel.MEMORY_ONLY)
        try:
            yield replace(self, frame=frame, reader=_Packed, changes=(), cached=True)
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
            A value is not usable, or the labels are not of two classes.
        ResourceError
            The states do not fit in memory.
        """
        make, changes = self.reader, self.changes

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, State]]:
            reader = make()
            for name, state in fold(_changed(reader.read(batches), changes)):
                # A task without rows has no say.
                if not reader.labels().rows:
                    return
                yield name, state
            yield _LABELS, reader.labels()

        found = aggregate(
            self.frame, run, (*kinds, LabelCounts), state_bytes=state_bytes, what=what
        )
        labels = cast(LabelCounts, found.pop(_LABELS, LabelCounts()))
        self.check(labels)
        return FoldResult(found, labels)

    def paired(self, draws: Draws, bounds: tuple[Float, Float]) -> DistributedRows:
        """See `RowSource.paired`; the drawn rows are shuffled, no others.

        A part is paired by one task.
        """
        make, changes = self.reader, self.changes

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
            return _changed(make().read(batches), changes)

        dimension = self.dimension
        frame = drawn_rows(self.frame, read, draws, bounds)
        return DistributedRows(frame, lambda: PairReader(dimension), dimension, lambda _: None)

    def gathered(self) -> ArrayRows:
        """All rows, in this process's memory."""
        with translated():
            table = self.frame.toArrow()
        reader = self.reader()
        batches = tuple(_changed(reader.read(iter(table.to_batches())), self.changes))
        return ArrayRows(batches, self.dimension)


@dataclass
class _Packed:
    """Reads batches and label counts from their bytes."""

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


def _parts(batch: Batch) -> Iterator[Batch]:
    """The rows in parts that are small enough to be one value of a row of Spark's."""
    size = max(1, _PART_ENTRIES * batch.y.size // max(batch.X.size, 1))
    for start in range(0, batch.y.size, size):
        yield batch.take(np.arange(start, min(start + size, batch.y.size)))


def _changed(batches: Iterator[Batch], changes: Sequence[Change]) -> Iterator[Batch]:
    for change in changes:
        batches = change(batches)
    return batches
