"""The weights of one linear ranker, or those of the rankers of segments, with their labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from spark_auc.core.labels import Label
from spark_auc.core.segments import SegmentWeights
from spark_auc.core.types import Float

_SEGMENT = "segment"


class SegmentScorer(NamedTuple):
    """Rankers of segments.

    Parameters
    ----------
    column
        Name of the segment column.
    weights
        The weights of its values.
    """

    column: str
    weights: SegmentWeights

    def columns(self) -> dict[str, Float]:
        """The columns ``(d,)`` of weights that a model saves, by name."""
        return {f"{_SEGMENT} {k}": w for k, w in enumerate(self.weights.W)}

    def facts(self) -> dict[str, Any]:
        """Everything else that a model saves, as JSON types."""
        values, intercept = list(self.weights.values), self.weights.intercept.tolist()
        return {"column": self.column, "values": values, "intercept": intercept}

    @classmethod
    def restored(cls, table: pa.Table, facts: Mapping[str, Any]) -> SegmentScorer:
        """The rankers that a model saved; `ValueError` or `KeyError` if they are invalid."""
        values, intercept = tuple(facts["values"]), np.array(facts["intercept"], float)
        W = np.array([table[f"{_SEGMENT} {k}"].to_numpy() for k in range(len(values) + 1)])
        if not (
            isinstance(facts["column"], str)
            and all(isinstance(value, str) for value in values)
            and len(set(values)) == len(values)
            and intercept.shape == (len(values) + 1,)
            and W.dtype == np.float64
            and np.isfinite(W).all()
            and np.isfinite(intercept).all()
        ):
            raise ValueError("its weights of segments are invalid")
        return cls(facts["column"], SegmentWeights(values, W, intercept))


@dataclass(frozen=True, eq=False)
class LinearScorer:
    """What scoring needs.

    Parameters
    ----------
    w : (d,)
        Weights for raw feature values.
    threshold
        Scores at or above it are predicted positive.
    positive, negative
        The label values.
    names
        Feature names, where the training columns carried them.
    segments
        Rankers of segments, which score in place of ``w``; None for one ranker.
    """

    w: Float
    threshold: float
    positive: Label
    negative: Label
    names: tuple[str, ...] | None = None
    segments: SegmentScorer | None = None

    def saved(self) -> tuple[pa.Table, dict[str, Any]]:
        """The table that a model saves, and everything else as JSON types."""
        columns: dict[str, Any] = {"feature": np.arange(self.w.size), "weight": self.w}
        if self.names:
            columns["name"] = list(self.names)
        facts: dict[str, Any] = {"threshold": self.threshold}
        facts |= {"positive": self.positive, "negative": self.negative}
        if self.segments:
            columns |= self.segments.columns()
            facts["segments"] = self.segments.facts()
        return pa.table(columns), facts

    @classmethod
    def restored(cls, table: pa.Table, facts: Mapping[str, Any]) -> Self:
        """What a model saved; `ValueError` or `KeyError` if it is invalid."""
        named = "name" in table.column_names
        w, labels = table["weight"].to_numpy(), (facts["positive"], facts["negative"])
        features = table["feature"].to_numpy()
        threshold = facts["threshold"]
        if not (
            w.dtype == np.float64
            and np.isfinite(w).all()
            and np.array_equal(features, np.arange(w.size))
            and isinstance(threshold, float | int)
            and all(isinstance(label, float | int | str) for label in labels)
        ):
            raise ValueError("its weights, threshold or labels are invalid")
        names = tuple(map(str, table["name"].to_pylist())) if named else None
        saved = facts.get("segments")
        segments = None if saved is None else SegmentScorer.restored(table, saved)
        return cls(w, threshold, *labels, names, segments)
