"""Folding rows into mergeable states, wherever the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from spark_auc.core.batch import Batch, stacked

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
Change: TypeAlias = Callable[[Iterator[Batch]], Iterator[Batch]]


class Folding(Protocol):
    """Rows of some dimension that can be read as often as is needed."""

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""
        ...

    def fold(
        self, fold: Fold, kinds: Sequence[type[State]], *, state_bytes: int, what: str
    ) -> Mapping[str, State]:
        """Fold all rows into states, by name.

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


@dataclass(frozen=True)
class LocalRows:
    """Rows in this process's memory.

    Parameters
    ----------
    batches
        The rows.
    dimension
        Number of features ``d``.
    """

    batches: Sequence[Batch]
    dimension: int

    def joined(self) -> Batch:
        """All rows as one batch, of which there is at least one."""
        return stacked(self.batches)

    def fold(
        self, fold: Fold, kinds: Sequence[type[State]], *, state_bytes: int, what: str
    ) -> Mapping[str, State]:
        """See `Folding.fold`."""
        return dict(fold(iter(self.batches)))

    def changed(self, change: Change, dimension: int | None = None) -> LocalRows:
        """See `Folding.changed`; the new rows are made at once."""
        batches = tuple(change(iter(self.batches)))
        return replace(self, batches=batches, dimension=dimension or self.dimension)


def each(change: Callable[[Batch], Batch]) -> Change:
    """The change of all batches that changes each of them so."""
    return lambda batches: (change(batch) for batch in batches)


def some(chosen: Callable[[Batch], np.ndarray[tuple[int], np.dtype[np.bool_]]]) -> Change:
    """The change that keeps the rows for which ``chosen`` is true."""
    return each(lambda batch: batch.take(np.flatnonzero(chosen(batch))))
