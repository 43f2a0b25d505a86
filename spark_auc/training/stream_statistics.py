"""The state of one-pass learning: class moments, label counts and progressive scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import Label, LabelCounts
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.head_moments import HeadAccumulator, HeadMoments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.state.schema import Part, Schema, Values

# A smaller total weight underflows in the covariance; such a class is reset to no rows.
_LEAST_WEIGHT = 1e-100


@dataclass(frozen=True, eq=False)
class StreamStatistics:
    """Class moments, label counts and progressive scores of the rows of a stream.

    Parameters
    ----------
    moments
        Weight, mean and scatter of each class (Gao et al., OPAUC, Eq. 4-5), exact; of too many
        features for a matrix those of a head of the columns, and variances of the others.
    labels
        Number of rows of each label value.
    scores
        Score of each row by the model of the rows before it. Rows before the first model have
        no score.
    """

    moments: PairMoments | HeadMoments
    labels: LabelCounts
    scores: ScoreHistogram

    @classmethod
    def zero(cls, dimension: int, head: NDArray[np.int64] | None = None) -> StreamStatistics:
        """The statistics of no rows, with a ``head`` ``(h,)`` of the columns if one is given."""
        moments: PairMoments | HeadMoments = PairMoments.zero(dimension)
        if head is not None:
            moments = HeadAccumulator(dimension, head).finish()
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

        Label counts and scores stay as they are.
        """
        if factor == 1.0:
            return self
        p, n = (_faded(m, factor) for m in (self.pairs.positive, self.pairs.negative))
        faded = PairMoments(p, n)
        if isinstance(self.moments, PairMoments):
            return replace(self, moments=faded)
        columns = self.moments.columns.scale(factor)
        for kept, k in ((p, 0), (n, 1)):
            if not kept.rows:
                columns = columns.without(k)
        return replace(self, moments=replace(self.moments, moments=faded, columns=columns))

    @property
    def pairs(self) -> PairMoments:
        """The moments; those of the head if that is all there is."""
        return self.moments if isinstance(self.moments, PairMoments) else self.moments.moments

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.labels.rows.values())

    @property
    def has_both_classes(self) -> bool:
        """Whether there are rows of both classes, which training requires."""
        return bool(self.pairs.positive.rows and self.pairs.negative.rows)

    def auc(self) -> float | None:
        """AUC of the scores; None without scores of both classes."""
        return auc(self.scores.table) if all(self.scores.table.rows) else None

    def auc_bounds(self) -> tuple[float, float] | None:
        """Bounds that contain the exact AUC of the scores; None without both classes."""
        return self.scores.auc_bounds() if all(self.scores.table.rows) else None

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        both: dict[str, Any] = {"moments": None, "head": None}
        both["moments" if isinstance(self.moments, PairMoments) else "head"] = self.moments
        return _SCHEMA.encode(vars(self) | both)

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamStatistics:
        """The statistics from the bytes of `to_bytes`; `ModelFormatError` if they are invalid."""
        return _SCHEMA.restore(
            data,
            lambda moments, head, labels, scores: cls(
                head if moments is None else moments, labels, scores
            ),
        )


def _of_one_class(values: Values) -> str | None:
    given = [name for name in ("moments", "head") if values[name] is not None]
    return None if len(given) == 1 else f"it has {len(given)} sets of moments"


_SCHEMA = Schema(
    "StreamStatistics",
    1,
    {
        "moments": Part(PairMoments, optional=True),
        "head": Part(HeadMoments, optional=True),
        "labels": Part(LabelCounts),
        "scores": Part(ScoreHistogram),
    },
    _of_one_class,
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
