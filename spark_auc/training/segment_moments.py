"""Pair moments of the rows of each segment and fold, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_auc.core.batch import Batch
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import Folding
from spark_auc.core.sampling.folds import Folds, GroupCounts
from spark_auc.core.types import Int
from spark_auc.errors import ConfigError
from spark_auc.training.fold_moments import moments_of_folds
from spark_auc.training.segments import REST


@dataclass(frozen=True, eq=False)
class SegmentFolds:
    """Folds of the rows of each segment: fold ``k`` of segment ``s`` is ``s * parts + k``.

    Parameters
    ----------
    folds
        The folds.
    """

    folds: Folds

    @property
    def enough(self) -> int:
        """See `Folds.enough`."""
        return self.folds.enough

    def of(self, batch: Batch) -> Int:
        """The number ``(n,)`` of each row's segment and fold."""
        if batch.segment is None:
            raise ConfigError(
                "found rows without segments, expected a segment column; set segmentCol"
            )
        return batch.segment * self.folds.parts + self.folds.of(batch)

    def counted(self, counts: GroupCounts, batch: Batch) -> GroupCounts:
        """See `Folds.counted`."""
        return self.folds.counted(counts, batch)


def moments_of_segments(
    rows: Folding, folds: Folds, segments: Sequence[str]
) -> tuple[dict[str, list[PairMoments]], LabelCounts]:
    """The pair moments of the rows of each segment by fold, in one pass.

    Parameters
    ----------
    rows
        All rows, with numbers of segments.
    folds
        The fold of each row.
    segments
        The segments, in the order of their numbers.

    Returns
    -------
    moments
        By segment, and under `REST` those of rows of no segment; the rows of no fold are the last
        part, if there are any. Segments without rows are left out.
    labels
        Number of rows of each label.

    Raises
    ------
    ResourceError
        The moments do not fit in memory.
    """
    names, k = (*segments, REST), folds.parts
    numbers = range(len(names) * k)
    what = f"folds, {k} of each of {len(names)} segments"
    parts, labels, _ = moments_of_folds(rows, SegmentFolds(folds), numbers, parts_of=what)
    moments = {name: parts[s * k : (s + 1) * k] for s, name in enumerate(names)}
    return {
        name: of
        for name, of in moments.items()
        if any(part.positive.rows or part.negative.rows for part in of)
    }, labels
