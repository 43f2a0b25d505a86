"""Moments of the rows of each fold: in memory, and by one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.accumulator import PairAccumulator
from spark_auc.core.moments.column_moments import ColumnAccumulator, ColumnMoments
from spark_auc.core.moments.moments_tile import MomentsTile, part_names
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import Folding, State
from spark_auc.core.sampling.folds import GroupCounts
from spark_auc.core.types import Int

_GROUPS = "groups"


class FoldMoments(Protocol):
    """Moments of the rows of each fold."""

    @property
    def folds(self) -> int:
        """Number ``k`` of folds."""

    def fold(self, number: int) -> PairMoments:
        """The moments of a fold's rows."""

    def complement(self, number: int) -> PairMoments:
        """The moments of the rows of all other folds."""

    def total(self) -> PairMoments:
        """The moments of all rows."""

    def rows(self, fold: int) -> tuple[int, int]:
        """Number of positive and of negative rows of a fold."""


@dataclass(frozen=True, eq=False)
class FoldsInMemory:
    """Moments of the rows of each fold, in memory; see `FoldMoments`.

    Parameters
    ----------
    parts
        Those of each fold.
    never_held_out
        Those of the rows that are never held out, if any.
    """

    parts: Sequence[PairMoments]
    never_held_out: PairMoments | None = None

    @property
    def folds(self) -> int:
        """See `FoldMoments.folds`."""
        return len(self.parts)

    def fold(self, number: int) -> PairMoments:
        """See `FoldMoments.fold`."""
        return self.parts[number]

    def complement(self, number: int) -> PairMoments:
        """See `FoldMoments.complement`."""
        others = [part for k, part in enumerate(self.parts) if k != number]
        return PairMoments.total([*others, *self._never()])

    def total(self) -> PairMoments:
        """See `FoldMoments.total`."""
        return PairMoments.total([*self.parts, *self._never()])

    def _never(self) -> list[PairMoments]:
        return [self.never_held_out] if self.never_held_out else []

    def rows(self, fold: int) -> tuple[int, int]:
        """See `FoldMoments.rows`."""
        part = self.parts[fold]
        return part.positive.rows, part.negative.rows


class Assignment(Protocol):
    """An assignment of rows to folds."""

    @property
    def enough(self) -> int:
        """See `spark_auc.core.sampling.folds.Folds.enough`."""

    def of(self, batch: Batch) -> Int:
        """The fold ``(n,)`` of each row."""

    def counted(self, counts: GroupCounts, batch: Batch) -> GroupCounts:
        """See `spark_auc.core.sampling.folds.Folds.counted`."""


def moments_of_folds(
    rows: Folding,
    held_out: Assignment,
    numbers: range,
    *,
    counting: bool = False,
    parts_of: str = "folds",
) -> tuple[list[PairMoments], LabelCounts, GroupCounts]:
    """The pair moments of each fold's rows, in one pass.

    Parameters
    ----------
    rows
        All rows.
    held_out
        The fold of each row.
    numbers
        The folds whose moments to compute.
    counting
        Whether to count the groups of rows in the same pass.
    parts_of
        What the folds are called in messages.

    Returns
    -------
    moments
        The pair moments of each of these folds.
    labels
        Number of rows of each label, of all folds.
    groups
        Counts of the groups; those of no rows unless ``counting``.
    """
    dimension = rows.dimension

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        accumulators = {k: PairAccumulator(dimension) for k in numbers}
        counts = GroupCounts.zero(held_out.enough)
        for ungrouped in batches:
            batch = ungrouped._replace(group=ungrouped.groups())
            if counting:
                counts = held_out.counted(counts, batch)
            fold_of_row = held_out.of(batch)
            for k, accumulator in accumulators.items():
                part = batch.take(np.flatnonzero(fold_of_row == k))
                accumulator.add(part.X, part.y, part.weight)
        for k in numbers:
            for name, tile in accumulators.pop(k).parts():
                yield f"{k}:{name}", tile
        yield _GROUPS, counts

    states = rows.fold(
        fold,
        (MomentsTile, GroupCounts),
        state_bytes=len(numbers) * PairMoments.nbytes(dimension) + 32 * held_out.enough,
        what=f"moments of {dimension} features in {len(numbers)} {parts_of}",
    )
    if not states.states:
        # No task had rows.
        none = [PairMoments.zero(dimension) for _ in numbers]
        return none, states.labels, GroupCounts.zero(held_out.enough)
    names = part_names(dimension)
    parts = [
        PairMoments.of_parts(
            {name: cast(MomentsTile, states[f"{k}:{name}"]) for name in names}, dimension
        )
        for k in numbers
    ]
    return parts, states.labels, cast(GroupCounts, states[_GROUPS])


def columns_of_folds(
    rows: Folding, held_out: Assignment, count: int, *, counting: bool = False
) -> tuple[list[ColumnMoments], GroupCounts]:
    """The column moments of the rows of ``count`` folds; see `moments_of_folds`."""
    dimension = rows.dimension

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        totals = [ColumnAccumulator(dimension) for _ in range(count)]
        counts = GroupCounts.zero(held_out.enough)
        for ungrouped in batches:
            batch = ungrouped._replace(group=ungrouped.groups())
            if counting:
                counts = held_out.counted(counts, batch)
            fold_of_row = held_out.of(batch)
            for k, total in enumerate(totals):
                total.add(batch.take(np.flatnonzero(fold_of_row == k)))
        for k, total in enumerate(totals):
            yield str(k), total.finish()
        yield _GROUPS, counts

    states = rows.fold(
        fold,
        (ColumnMoments, GroupCounts),
        state_bytes=count * 6 * 8 * dimension + 32 * held_out.enough,
        what=f"means and variances of {dimension} features in {count} folds",
    )
    if not states.states:
        return [ColumnMoments.zero(dimension)] * count, GroupCounts.zero(held_out.enough)
    columns = [cast(ColumnMoments, states[str(k)]) for k in range(count)]
    return columns, cast(GroupCounts, states[_GROUPS])
