"""The state of one-pass learning: class moments, label counts and progressive scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import Label, LabelCounts
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.head_moments import HeadAccumulator, HeadMoments
from spark_auc.core.moments.low_rank_moments import LowRankAccumulator, LowRankMoments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.state.schema import Part, Schema, Values
from spark_auc.training.learned_rows import LearnedRows

# A smaller total weight underflows in the covariance; such a class is reset to no rows.
_LEAST_WEIGHT = 1e-100

StreamMoments: TypeAlias = PairMoments | HeadMoments | LowRankMoments | LearnedRows
Begun: TypeAlias = Callable[[], HeadAccumulator | LowRankAccumulator]
_FIELDS: dict[str, type[StreamMoments]] = {
    "moments": PairMoments,
    "head": HeadMoments,
    "sketch": LowRankMoments,
    "learned": LearnedRows,
}


@dataclass(frozen=True, eq=False)
class StreamStatistics:
    """What was learned of a stream, label counts and progressive scores of its rows.

    Parameters
    ----------
    moments
        Weight, mean and scatter of each class (Gao et al., OPAUC, Eq. 4-5): exact, or approximate;
        or a learner of one row after another.
    labels
        Number of rows of each label value.
    scores
        Score of each row by the model of the rows before it. Rows before the first model have
        no score.
    """

    moments: StreamMoments
    labels: LabelCounts
    scores: ScoreHistogram

    @classmethod
    def zero(cls, dimension: int, begun: Begun | None = None) -> StreamStatistics:
        """The statistics of no rows; ``begun`` begins approximate moments."""
        moments = PairMoments.zero(dimension) if begun is None else begun().finish()
        return cls(moments, LabelCounts(), ScoreHistogram.zero())

    def merge(self, other: StreamStatistics) -> StreamStatistics:
        """The statistics of both sets of rows, with moments of the same class."""
        mine: Any = self.moments
        return StreamStatistics(
            mine.merge(other.moments),
            self.labels.merge(other.labels),
            self.scores.merge(other.scores),
        )

    def faded(self, factor: float) -> StreamStatistics:
        """The statistics with the weight of all rows multiplied by a factor in [0, 1].

        Label counts and scores stay as they are. A learner of one row after another keeps no
        weights of rows, and is not faded.
        """
        if factor == 1.0:
            return self
        moments = self.moments
        assert not isinstance(moments, LearnedRows)
        if isinstance(moments, PairMoments):
            return replace(self, moments=_faded(moments, factor))
        columns = moments.columns.scale(factor)
        gone = np.flatnonzero(columns.weight < _LEAST_WEIGHT)
        for k in gone:
            columns = columns.without(int(k))
        if isinstance(moments, HeadMoments):
            head = _faded(moments.moments, factor)
            return replace(self, moments=replace(moments, moments=head, columns=columns))
        sums, sketch = (np.sqrt(factor) * part for part in (moments.sums, moments.sketch))
        sums[gone] = sketch[gone] = 0.0
        return replace(self, moments=replace(moments, sums=sums, sketch=sketch, columns=columns))

    @property
    def class_rows(self) -> tuple[int, int]:
        """Number of positive and of negative rows."""
        moments = self.moments
        if isinstance(moments, PairMoments):
            return moments.positive.rows, moments.negative.rows
        positive, negative = map(int, moments.columns.rows)
        return positive, negative

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.labels.rows.values())

    @property
    def has_both_classes(self) -> bool:
        """Whether there are rows of both classes, which training requires."""
        return all(self.class_rows)

    def auc(self) -> float | None:
        """AUC of the scores; None without scores of both classes."""
        return auc(self.scores.table) if all(self.scores.table.rows) else None

    def auc_bounds(self) -> tuple[float, float] | None:
        """Bounds that contain the exact AUC of the scores; None without both classes."""
        return self.scores.auc_bounds() if all(self.scores.table.rows) else None

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        kinds = {
            name: self.moments if type(self.moments) is kind else None
            for name, kind in _FIELDS.items()
        }
        return _SCHEMA.encode(vars(self) | kinds)

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamStatistics:
        """The statistics from the bytes of `to_bytes`; `ModelFormatError` if they are invalid."""
        return _SCHEMA.restore(
            data,
            lambda labels, scores, **kinds: cls(
                next(given for given in kinds.values() if given is not None), labels, scores
            ),
        )


def _of_one_class(values: Values) -> str | None:
    given = [name for name in _FIELDS if values[name] is not None]
    return None if len(given) == 1 else f"it has {len(given)} sets of moments"


_SCHEMA = Schema(
    "StreamStatistics",
    1,
    {
        **{name: Part(kind, optional=True) for name, kind in _FIELDS.items()},
        "labels": Part(LabelCounts),
        "scores": Part(ScoreHistogram),
    },
    _of_one_class,
)


def _faded(moments: PairMoments, factor: float) -> PairMoments:
    def one(moments: ClassMoments) -> ClassMoments:
        if moments.weight * factor < _LEAST_WEIGHT:
            return ClassMoments.zero(moments.dimension)
        return moments.scale(factor)

    return PairMoments(one(moments.positive), one(moments.negative))


def check_labels(labels: LabelCounts, positive: Label | None) -> None:
    """Check the labels of a part of a stream, which may lack one class or both.

    Parameters
    ----------
    labels
        Label counts.
    positive
        The positive label value; None for the conventions 0/1 and -1/+1.

    Raises
    ------
    DataError
        The labels have more than two values, or values of no convention.
    """
    conventional = labels.rows.keys() <= {0.0, 1.0, -1.0}
    if len(labels.rows) > 1 or not (positive is not None or conventional):
        labels.classes(positive)
