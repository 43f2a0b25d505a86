"""Rows of a table as a source of batches for training (`RowSource`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from math import inf
from typing import Protocol, cast

import numpy as np
import pyarrow as pa

from spark_auc.core.batch import Batch, Change
from spark_auc.core.labels import LabelCounts
from spark_auc.core.memory import MemoryBudget, ProcessMemory
from spark_auc.core.parallel import cpus
from spark_auc.core.row_source import ArrayRows, Fold, FoldResult, State
from spark_auc.core.sampling.draws import Draws
from spark_auc.core.state.codec import kind_of
from spark_auc.core.stored_batches import BatchStore, Stored
from spark_auc.core.types import Float
from spark_auc.tables.columns import BatchReader, TrainingColumns
from spark_auc.tables.drawn_pairs import PairReader, drawn_rows
from spark_auc.tables.table import Batches, Table

_log = logging.getLogger(__name__)

_PACKED = pa.schema([("payload", pa.binary())])
_LABELS = "labels"
# Most stored matrix entries in one cached value.
_PART_ENTRIES = 1 << 20
# Estimate of the vectors of all features in the state of a pass over cached rows.
_VECTORS = 5
# Rows are not gathered where a task's share is below this.
_LEAST_SHARE = 16 * 2**20


class RowReader(Protocol):
    """Decodes the Arrow batches of one task."""

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        """Decode batches."""

    def labels(self) -> LabelCounts:
        """Number of rows of each label that was read."""


@dataclass(frozen=True)
class TableRows:
    """Rows of a table, decoded by tasks in each pass.

    Parameters
    ----------
    table
        Input of the tasks: columns of the rows, or packed batches.
    reader
        Makes the reader of a task, which decodes that input.
    dimension
        Number of features ``d``.
    check
        Raises `DataError` for label counts that training cannot use.
    changes
        Transformations of the decoded rows, applied in this order.
    """

    table: Table
    reader: Callable[[], RowReader]
    dimension: int
    check: Callable[[LabelCounts], object]
    changes: tuple[Change, ...] = ()

    @property
    def memory(self) -> MemoryBudget:
        """See `RowSource.memory`."""
        return self.table.memory

    @classmethod
    def of(cls, table: Table, columns: TrainingColumns) -> TableRows:
        """Rows of a table.

        Parameters
        ----------
        table
            The table.
        columns
            Columns of the rows.
        """
        return cls(
            columns.of(table),
            lambda: BatchReader(columns),
            columns.features.dimension,
            lambda labels: labels.classes(columns.positive),
        )

    @classmethod
    def of_any_class(cls, table: Table, columns: TrainingColumns) -> TableRows:
        """Rows whose labels are for the caller to check: a part of a stream may lack a class."""
        return replace(cls.of(table, columns), check=lambda _: None)

    @contextmanager
    def kept(self) -> Iterator[TableRows]:
        """Cache the decoded rows for the passes inside the block, unless reading them is cheap."""
        if self.table.cheap:
            yield self
            return
        with self._packed().kept(8 * _VECTORS * self.dimension) as table:
            yield replace(self, table=table, reader=_PackedReader, changes=())

    def changed(self, change: Change, dimension: int | None = None) -> TableRows:
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

        def run(batches: Batches) -> Iterator[tuple[str, State]]:
            reader = make()
            for name, state in fold(_apply(changes, reader.read(batches))):
                # A task without rows sends no states, so that they do not count in the merge.
                if not reader.labels().rows:
                    return
                yield name, state
            yield _LABELS, reader.labels()

        states = self.table.fold(run, (*kinds, LabelCounts), state_bytes=state_bytes, what=what)
        labels = cast(LabelCounts, states.pop(_LABELS, LabelCounts()))
        self.check(labels)
        return FoldResult(states, labels)

    def paired(self, draws: Draws, bounds: tuple[Float, Float]) -> TableRows:
        """See `RowSource.paired`.

        Only the drawn rows are sorted. Each part is paired by one task.
        """
        make, changes = self.reader, self.changes

        def read(batches: Batches) -> Iterator[Batch]:
            return _apply(changes, make().read(batches))

        dimension, table = self.dimension, drawn_rows(self.table, read, draws, bounds)
        return TableRows(table, lambda: PairReader(dimension), dimension, lambda _: None)

    def gathered(self) -> ArrayRows:
        """See `RowSource.gathered`."""
        table = self._packed().gathered()
        assert table is not None
        return ArrayRows(tuple(_PackedReader().read(iter(table.to_batches()))), self.dimension)

    def gathered_within(self, limit: float, in_memory: float = inf) -> ArrayRows | None:
        """See `RowSource.gathered_within`; the rows have the order of their parts.

        A share below the size of a large state is not tried.

        Raises
        ------
        DataError
            A value is invalid, or the rows do not have two classes.
        """
        if limit // self.memory.slots <= _LEAST_SHARE:
            return None
        store = BatchStore(in_memory)

        def receive(packed: pa.RecordBatch) -> tuple[list[Stored], LabelCounts]:
            reader = _PackedReader()
            return [store.put(batch) for batch in reader.read(iter([packed]))], reader.labels()

        received = self._packed().received(receive, limit)
        if received is None:
            _log.info("the rows exceed this limit: they are read in parts")
            return None
        _log.info("the rows are gathered in memory")
        labels = reduce(LabelCounts.merge, (counts for _, counts in received), LabelCounts())
        self.check(labels)
        batches = store.batches(chain.from_iterable(stored for stored, _ in received))
        return ArrayRows(batches, self.dimension, ProcessMemory(cpus()), labels)

    def _packed(self) -> Table:
        """The decoded rows, and the labels of each part, as bytes."""
        make, changes = self.reader, self.changes
        if make is _PackedReader and not changes:
            return self.table

        def pack(batches: Batches) -> Batches:
            reader = make()
            for batch in _apply(changes, reader.read(batches)):
                for part in _parts(batch):
                    yield _row(part)
            yield _row(reader.labels())

        return self.table.map(pack, _PACKED)


def _row(state: Batch | LabelCounts) -> pa.RecordBatch:
    return pa.record_batch([pa.array([state.to_bytes()], pa.binary())], schema=_PACKED)


@dataclass
class _PackedReader:
    """Decodes the batches and label counts that `TableRows` stored as bytes."""

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
    """Split a batch into parts of at most 2^20 matrix entries."""
    size = max(1, _PART_ENTRIES * batch.y.size // max(batch.X.size, 1))
    for start in range(0, batch.y.size, size):
        yield batch.take(np.arange(start, min(start + size, batch.y.size)))


def _apply(changes: Sequence[Change], batches: Iterator[Batch]) -> Iterator[Batch]:
    for change in changes:
        batches = change(batches)
    return batches
