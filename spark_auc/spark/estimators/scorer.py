"""Scores of DataFrames by linear rankers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.functions import arrow_udf

from spark_auc.core.products import settled_scores
from spark_auc.core.types import Float
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.spark.data.features import Features
from spark_auc.spark.data.segments import SegmentColumn


def scores_of(scorer: LinearScorer, df: DataFrame, features: Features) -> Column:
    """The scores of rows with these features; see `score_column`.

    Raises
    ------
    ConfigError
        The segment column is missing, or of another type.
    """
    if scorer.segments is None:
        return score_column(features, scorer.w)
    column, weights = scorer.segments
    number = SegmentColumn(column, weights.values).number(df, features)

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
