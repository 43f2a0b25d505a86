"""The state of one-pass learning: class moments, label counts and progressive scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import Label, LabelCounts
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.state.schema import Part, Schema

# A smaller total weight underflows in the covariance; such a class is reset to no rows.
_LEAST_WEIGHT = 1e-100


@dataclass(frozen=True, eq=False)
class StreamStatistics:
    """Class moments, label counts and progressive scores of the rows of a stream.

    Parameters
    ----------
    moments
        Weight, mean and scatter of each class (Gao et al., OPAUC, Eq. 4-5), exact.
    labels
        Number of rows of each label value.
    scores
        Score of each row by the model of the rows before it. Rows before the first model have
        no score.
    """

    moments: PairMoments
    labels: LabelCounts
    scores: ScoreHistogram

    @classmethod
    def zero(cls, dimension: int) -> StreamStatistics:
        """The statistics of no rows."""
        return cls(PairMoments.zero(dimension), LabelCounts(), ScoreHistogram.zero())

    def merge(self, other: StreamStatistics) -> StreamStatistics:
        """The statistics of both sets of rows."""
        return StreamStatistics(
            self.moments.merge(other.moments),
            self.labels.merge(other.labels),
            self.scores.merge(other.scores),
        )

    def faded(self, factor: float) -> StreamStatistics:
        """The statistics with the weight of all rows multiplied by a factor in [0, 1].

        Label counts and scores stay as they are.
        """
        if factor == 1.0:
            return self
        p, n = (_faded(m, factor) for m in (self.moments.positive, self.moments.negative))
        return replace(self, moments=PairMoments(p, n))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.labels.rows.values())

    @property
    def has_both_classes(self) -> bool:
        """Whether there are rows of both classes, which training requires."""
        return bool(self.moments.positive.rows and self.moments.negative.rows)

    def auc(self) -> float | None:
        """AUC of the scores; None without scores of both classes."""
        return auc(self.scores.table) if all(self.scores.table.rows) else None

    def auc_bounds(self) -> tuple[float, float] | None:
        """Bounds that contain the exact AUC of the scores; None without both classes."""
        return self.scores.auc_bounds() if all(self.scores.table.rows) else None

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _SCHEMA.encode(vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamStatistics:
        """The statistics from the bytes of `to_bytes`; `ModelFormatError` if they are invalid."""
        return _SCHEMA.restore(data, cls)


_SCHEMA = Schema(
    "StreamStatistics",
    1,
    {"moments": Part(PairMoments), "labels": Part(LabelCounts), "scores": Part(ScoreHistogram)},
)


def _faded(moments: ClassMoments, factor: float) -> ClassMoments:
    if moments.weight * factor < _LEAST_WEIGHT:
        return ClassMoments.zero(moments.dimension)
    return moments.scale(factor)


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
