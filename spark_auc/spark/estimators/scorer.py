"""What scores rows: the weights of one linear ranker, or those of the rankers of segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.functions import arrow_udf

from spark_auc.core.labels import Label
from spark_auc.core.products import settled_scores
from spark_auc.core.segments import SegmentWeights
from spark_auc.core.types import Float
from spark_auc.spark.data.features import Features
from spark_auc.spark.data.segments import SegmentColumn

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

    def number(self, df: DataFrame, features: Features) -> Column:
        """The number of each row's segment; errors are those of `SegmentColumn.number`."""
        return SegmentColumn(self.column, self.weights.values).number(df, features)

    def columns(self) -> dict[str, Float]:
        """The columns ``(d,)`` of weights that a model saves, by name."""
        return {f"{_SEGMENT} {k}": w for k, w in enumerate(self.weights.W)}

    def facts(self) -> dict[str, Any]:
        """Everything else that a model saves, as JSON types."""
        values, intercept = list(self.weights.values), self.weights.intercept.tolist()
        return {"column": self.column, "values": values, "intercept": intercept}

    @classmethod
    def restored(cls, table: pa.Table, facts: dict[str, Any]) -> SegmentScorer:
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
        Scores above it are predicted positive.
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

    def column(self, df: DataFrame, features: Features) -> Column:
        """The scores of rows with these features; see `score_column`.

        Raises
        ------
        ConfigError
            The segment column is missing, or of another type.
        """
        if self.segments is None:
            return score_column(features, self.w)
        weights = self.segments.weights
        number = self.segments.number(df, features)

        def scores(*arrays: pa.Array) -> pa.Array:
            X = features.decode(arrays[:-1])
            return pa.array(weights.scores(X, arrays[-1].to_numpy()))

        return _column(scores, [*features.expressions(), number])


def score_column(features: Features, w: Float) -> Column:
    """The scores ``w'x`` as a column; a row that cannot be used fails the job (`DataError`)."""

    def scores(*arrays: pa.Array) -> pa.Array:
        return pa.array(settled_scores(features.decode(arrays), w))

    return _column(scores, features.expressions())


def _column(scores: Callable[..., pa.Array], expressions: Sequence[Column]) -> Column:
    # Spark reads the types themselves, which are but text under postponed annotations.
    scores.__annotations__ = {"arrays": pa.Array, "return": pa.Array}
    scored: Column = arrow_udf(scores, "double")(*expressions)  # type: ignore[call-overload]
    return scored
