"""Folding rows into mergeable states, wherever the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from spark_auc.core.batch import Batch, Change, stacked
from spark_auc.core.labels import LabelCounts
from spark_auc.core.memory import MemoryBudget, ProcessMemory
from spark_auc.core.sampling.draws import Draws
from spark_auc.core.sampling.pair_batches import PairBatches
from spark_auc.core.types import Float

S = TypeVar("S", bound="State")


@runtime_checkable
class State(Protocol):
    """A commutative monoid that travels as bytes."""

    def merge(self: S, other: S) -> S:
        """The state of both sets of rows."""
        ...

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        ...

    @classmethod
    def from_bytes(cls: type[S], data: bytes) -> S:
        """The state that `to_bytes` stored."""
        ...


Fold: TypeAlias = Callable[[Iterator[Batch]], Iterable[tuple[str, State]]]


@dataclass(frozen=True, eq=False)
class FoldResult:
    """The result of a fold.

    Parameters
    ----------
    states
        The merged states, by name; none where there are no rows.
    labels
        Rows of each label value, as they were read.
    """

    states: Mapping[str, State]
    labels: LabelCounts

    def __getitem__(self, name: str) -> State:
        return self.states[name]


class Folding(Protocol):
    """Rows of some dimension that can be read as often as is needed."""

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""
        ...

    def fold(
        self, fold: Fold, kinds: Sequence[type[State]], *, state_bytes: int, what: str
    ) -> FoldResult:
        """Fold all rows into states, by name, and count their labels.

        Parameters
        ----------
        fold
            Turns some of the rows into states, under the same names wherever there are rows.
        kinds
            The classes of the states.
        state_bytes
            Upper estimate of the bytes of all of them.
        what
            What they are, for messages.
        """
        ...

    def changed(self, change: Change, dimension: int | None = None) -> Folding:
        """The rows that ``change`` makes of these, of another dimension where given."""
        ...


class RowSource(Folding, Protocol):
    """Rows to train on."""

    @property
    def memory(self) -> MemoryBudget:
        """What there is to work with."""
        ...

    def changed(self, change: Change, dimension: int | None = None) -> RowSource:
        """See `Folding.changed`."""
        ...

    def paired(self, draws: Draws, bounds: tuple[Float, Float]) -> RowSource:
        """The pairs of the k-th positive with the k-th negative draw, as differences of rows.

        The differences stand as positive rows beside negative rows of zeros, so that all pairs
        of these are the pairs drawn. Their keys are the numbers of their parts.

        Parameters
        ----------
        draws
            Which rows to draw, as many of each class.
        bounds
            For the positive and the negative draws, ascending moments that part them into as many
            parts, each of as many draws of either class.
        """
        ...

    def gathered(self) -> ArrayRows:
        """All rows, in this process's memory."""
        ...

    def kept(self) -> AbstractContextManager[RowSource]:
        """The rows while they are read again and again."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows in this process's memory.

    Parameters
    ----------
    batches
        The rows.
    dimension
        Number of features ``d``.
    memory
        What there is to work with.
    """

    batches: Sequence[Batch]
    dimension: int
    memory: MemoryBudget = field(default_factory=ProcessMemory)

    def joined(self) -> Batch:
        """All rows as one batch, of which there is at least one."""
        return stacked(self.batches)

    def fold(
        self, fold: Fold, kinds: Sequence[type[State]], *, state_bytes: int, what: str
    ) -> FoldResult:
        """See `Folding.fold`; positive rows count as label 1, the others as 0."""
        counts = {0.0: 0, 1.0: 0}

        def counted() -> Iterator[Batch]:
            for batch in self.batches:
                positive = int(np.count_nonzero(batch.y))
                counts[1.0] += positive
                counts[0.0] += batch.y.size - positive
                yield batch

        states = dict(fold(counted()))
        return FoldResult(states, LabelCounts({label: n for label, n in counts.items() if n}))

    def changed(self, change: Change, dimension: int | None = None) -> ArrayRows:
        """See `Folding.changed`; the new rows are made at once."""
        batches = tuple(change(iter(self.batches)))
        return replace(self, batches=batches, dimension=dimension or self.dimension)

    def paired(self, draws: Draws, bounds: tuple[Float, Float]) -> ArrayRows:
        """See `RowSource.paired`; a difference is made when it is read."""
        return replace(self, batches=PairBatches.of(self.batches, draws, bounds))

    def gathered(self) -> ArrayRows:
        """See `RowSource.gathered`."""
        return self

    def kept(self) -> AbstractContextManager[ArrayRows]:
        """See `RowSource.kept`."""
        return nullcontext(self)


def each(change: Callable[[Batch], Batch]) -> Change:
    """The change of all batches that changes each of them so."""
    return lambda batches: (change(batch) for batch in batches)


def some(chosen: Callable[[Batch], np.ndarray[tuple[int], np.dtype[np.bool_]]]) -> Change:
    """The change that keeps the rows for which ``chosen`` is true."""
    return each(lambda batch: batch.take(np.flatnonzero(chosen(batch))))
