"""A summary of scored rows from one pass: labels, invalid rows, and a histogram of the scores."""

from __future__ import annotations

from dataclasses import dataclass, fields

from spark_auc.core.batch import WEIGHTS
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import LabelCounts
from spark_auc.core.state.rules import COUNTS
from spark_auc.core.state.schema import Part, Schema, array
from spark_auc.errors import DataError


@dataclass(frozen=True)
class Faults:
    """Numbers of rows that cannot be evaluated, by their fault.

    Parameters
    ----------
    rows
        Number of all rows.
    null_scores, infinite_scores, null_labels, bad_weights
        Number of rows with each fault; weights are bad outside `WEIGHTS`.
    """

    rows: int = 0
    null_scores: int = 0
    infinite_scores: int = 0
    null_labels: int = 0
    bad_weights: int = 0

    def plus(self, other: Faults) -> Faults:
        """The faults of both sets of rows."""
        names = [field.name for field in fields(self)]
        return Faults(*(getattr(self, name) + getattr(other, name) for name in names))

    def check(self, of: str) -> None:
        """Raise `DataError` with the counts if any row has a fault; ``of`` is the score column."""
        counts = {
            "null scores": self.null_scores,
            "NaN or infinite scores": self.infinite_scores,
            "null or NaN labels": self.null_labels,
            f"weights that are null, NaN, negative or not from {WEIGHTS[0]} to {WEIGHTS[1]}": (
                self.bad_weights
            ),
        }
        faults = [f"{count} {fault}" for fault, count in counts.items() if count]
        if faults:
            raise DataError(
                f"found {', '.join(faults)} among {self.rows} rows with scores in {of}, expected "
                "none; repair or drop these rows"
            )


@dataclass(frozen=True, eq=False)
class Overview:
    """A mergeable summary of scored rows, of bounded size.

    Parameters
    ----------
    faults
        Numbers of invalid rows.
    labels
        Number of rows of each label value.
    histogram
        Histogram of the scores.
    """

    faults: Faults
    labels: LabelCounts
    histogram: ScoreHistogram

    @classmethod
    def zero(cls, max_bins: int) -> Overview:
        """The overview of no rows."""
        return cls(Faults(), LabelCounts(), ScoreHistogram.zero(max_bins))

    def merge(self, other: Overview) -> Overview:
        """The overview of both sets of rows."""
        return Overview(
            self.faults.plus(other.faults),
            self.labels.merge(other.labels),
            self.histogram.merge(other.histogram),
        )

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _SCHEMA.encode(vars(self) | {"faults": list(vars(self.faults).values())})

    @classmethod
    def from_bytes(cls, data: bytes) -> Overview:
        """The overview that `to_bytes` stored; raises `ModelFormatError` for other bytes."""
        values = _SCHEMA.decode(data)
        return cls(**values | {"faults": Faults(*values["faults"].tolist())})


_SCHEMA = Schema(
    "Overview",
    1,
    {
        "faults": array("<i8", len(fields(Faults)), rule=COUNTS),
        "labels": Part(LabelCounts),
        "histogram": Part(ScoreHistogram),
    },
)
