"""Sources of rows, and how their rows are folded into mergeable states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, islice, pairwise
from math import inf
from threading import Lock
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from spark_auc.core.batch import Batch, Change, stacked
from spark_auc.core.labels import LabelCounts
from spark_auc.core.memory import MemoryBudget, ProcessMemory
from spark_auc.core.parallel import blas_of, free_cpus, mapped
from spark_auc.core.sampling.draws import Draws
from spark_auc.core.sampling.pair_batches import PairBatches
from spark_auc.core.stored_batches import StoredBatches
from spark_auc.core.types import Float

S = TypeVar("S", bound="State")
# Least number of matrix entries in a part of the rows in memory.
_PART_ENTRIES = 1 << 22


@runtime_checkable
class State(Protocol):
    """A mergeable state (a commutative monoid) that can be stored as bytes."""

    def merge(self: S, other: S) -> S:
        """The state of the union of both sets of rows."""

    def to_bytes(self) -> bytes:
        """Versioned bytes."""

    @classmethod
    def from_bytes(cls: type[S], data: bytes) -> S:
        """The state that `to_bytes` stored."""


Fold: TypeAlias = Callable[[Iterator[Batch]], Iterable[tuple[str, State]]]


@dataclass(frozen=True, eq=False)
class FoldResult:
    """The result of a fold.

    Parameters
    ----------
    states
        The merged states, by name; empty for a source without rows.
    labels
        Number of rows of each label value, as read.
    """

    states: Mapping[str, State]
    labels: LabelCounts

    def __getitem__(self, name: str) -> State:
        return self.states[name]


class Folding(Protocol):
    """Rows that can be folded into states, any number of times."""

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""

    def fold(
        self, fold: Fold, kinds: Sequence[type[State]], *, state_bytes: int, what: str
    ) -> FoldResult:
        """Fold all rows into named states, and count the rows of each label.

        Parameters
        ----------
        fold
            Function from batches to named states. It yields the same names for every part of
            the rows.
        kinds
            Classes of the states.
        state_bytes
            Upper bound on the total size of the states, in bytes.
        what
            Description of the states for messages.

        Raises
        ------
        ResourceError
            The states need more memory than the source's budget allows.
        """

    def changed(self, change: Change, dimension: int | None = None) -> Folding:
        """The rows after ``change``; ``dimension`` is their new number of features, if changed."""


class RowSource(Folding, Protocol):
    """The rows of a training run."""

    @property
    def memory(self) -> MemoryBudget:
        """The memory budget of computations on these rows."""

    def changed(self, change: Change, dimension: int | None = None) -> RowSource:
        """See `Folding.changed`."""

    def paired(self, draws: Draws, bounds: tuple[Float, Float]) -> RowSource:
        """Pair the k-th positive draw with the k-th negative draw, and return the differences.

        The differences are positive rows. Negative rows of zeros are added, so that the pairs of
        the new source are the pairs drawn. The key of a difference is the number of its part.

        Parameters
        ----------
        draws
            The draws, the same number from each class.
        bounds
            Ascending arrival times that split the positive draws, and those that split the
            negative draws, into parts. A part holds equally many draws of both classes.
        """

    def gathered(self) -> ArrayRows:
        """All rows, in this process's memory."""

    def gathered_within(self, limit: float, in_memory: float = inf) -> ArrayRows | None:
        """All rows, for this process; None if they take more than ``limit`` bytes.

        The rows are read once. Tasks have equal shares of the limit: one that exceeds its share
        also gives None. Of more than ``in_memory`` bytes, the features are in a temporary file.
        """

    def kept(self) -> AbstractContextManager[RowSource]:
        """Context manager that caches the rows for repeated passes."""


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows of this process, in memory or in a temporary file.

    Parameters
    ----------
    batches
        The rows.
    dimension
        Number of features ``d``.
    memory
        The memory budget of computations on them.
    labels
        Number of rows of each label value, as read. Default: the label of a positive row is 1, that
        of a negative row 0.
    """

    batches: Sequence[Batch]
    dimension: int
    memory: MemoryBudget = field(default_factory=ProcessMemory)
    labels: LabelCounts | None = None

    def joined(self) -> Batch:
        """All rows as one batch; the source has at least one batch."""
        return stacked(self.batches)

    def fold(
        self, fold: Fold, kinds: Sequence[type[State]], *, state_bytes: int, what: str
    ) -> FoldResult:
        """See `Folding.fold`.

        Rows of many entries are folded in up to 4 parts, in as many threads as there are
        processors. The parts do not depend on the processors, and so neither does the result.
        """
        counts = {0.0: 0, 1.0: 0}

        def counted(part: Iterable[Batch]) -> Iterator[Batch]:
            for batch in part:
                positive = int(np.count_nonzero(batch.y))
                with lock:
                    counts[1.0] += positive
                    counts[0.0] += batch.y.size - positive
                yield batch

        def begun(part: Iterable[Batch]) -> Iterable[tuple[str, State]]:
            # The first state is of all rows of the part; a fold may make the others one by one.
            states = iter(fold(counted(part)))
            return chain([*islice(states, 1)], states)

        parts, at_once, lock = self._parts(state_bytes), free_cpus(), Lock()
        merged = dict[str, State]()
        with blas_of(self.dimension, len(parts)):
            # The states of all parts need not fit in memory together.
            for first in range(0, len(parts), at_once):
                for states in mapped(begun, parts[first : first + at_once]):
                    for k, state in states:
                        merged[k] = merged[k].merge(state) if k in merged else state
        labels = LabelCounts({label: n for label, n in counts.items() if n})
        return FoldResult(merged, self.labels or labels)

    def _parts(self, state_bytes: int) -> list[Sequence[Batch]]:
        """The batches in parts, each with more entries than numbers in its state."""
        if isinstance(self.batches, StoredBatches):
            entries = self.batches.entries
        elif isinstance(self.batches, tuple):
            entries = sum(batch.X.size for batch in self.batches)
        else:
            return [self.batches]
        least = max(_PART_ENTRIES, state_bytes // 8)
        count = min(entries // least, 4, len(self.batches))
        count = max(count, 1)
        bounds = [len(self.batches) * k // count for k in range(count + 1)]
        return [self.batches[a:b] for a, b in pairwise(bounds)]

    def changed(self, change: Change, dimension: int | None = None) -> ArrayRows:
        """See `Folding.changed`; the change is applied immediately."""
        changed, own = change(iter(self.batches)), self.batches
        batches = own.again(changed) if isinstance(own, StoredBatches) else tuple(changed)
        return replace(self, batches=batches, dimension=dimension or self.dimension, labels=None)

    def paired(self, draws: Draws, bounds: tuple[Float, Float]) -> ArrayRows:
        """See `RowSource.paired`; differences are computed when they are read."""
        return replace(self, batches=PairBatches.of(self.batches, draws, bounds), labels=None)

    def gathered(self) -> ArrayRows:
        """See `RowSource.gathered`."""
        is_stored = isinstance(self.batches, StoredBatches)
        return replace(self, batches=tuple(self.batches)) if is_stored else self

    def gathered_within(self, limit: float, in_memory: float = inf) -> ArrayRows:
        """See `RowSource.gathered_within`; these rows are in memory for any limit."""
        return self

    def kept(self) -> AbstractContextManager[ArrayRows]:
        """See `RowSource.kept`."""
        return nullcontext(self)


def batchwise(change: Callable[[Batch], Batch]) -> Change:
    """The `Change` that applies a function to every batch."""
    return lambda batches: (change(batch) for batch in batches)


def rows_where(selected: Callable[[Batch], np.ndarray[tuple[int], np.dtype[np.bool_]]]) -> Change:
    """The `Change` that keeps the rows for which ``selected`` ``(n,)`` is true."""
    return batchwise(lambda batch: batch.take(np.flatnonzero(selected(batch))))


def complements(own: Sequence[S]) -> list[S]:
    """The state of all other parts, for each part, by merges alone.

    A subtraction would leave rounding errors in columns that are constant in the other parts. The
    merges of the parts before each one, and of the parts after it, are shared: fewer than three
    merges per part.

    Parameters
    ----------
    own
        States of the parts, at least two.
    """
    after = list(accumulate(reversed(own[1:]), lambda b, a: a.merge(b)))
    before, others = own[0], [after.pop()]
    for state in own[1:-1]:
        others.append(before.merge(after.pop()))
        before = before.merge(state)
    return [*others, before]
