"""Scores of DataFrames by linear rankers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from spark_auc.core.products import settled_scores
from spark_auc.core.types import Float
from spark_auc.pipeline.ranker_settings import LinearRankerSettings
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.spark.data.spark_table import Inputs, SparkTable, inputs
from spark_auc.spark.evaluation.score_columns import score_column as number_of_score
from spark_auc.spark.evaluation.score_columns import vector_of_two
from spark_auc.tables.features import Features
from spark_auc.tables.segments import SegmentColumn


def scores_of(
    scorer: LinearScorer, df: DataFrame, features: Features, *, invalid: bool = False
) -> Column:
    """The scores of rows with these features; see `score_column`.

    Raises
    ------
    ConfigError
        The segment column is missing, or of another type.
    """
    if scorer.segments is None:
        return score_column(df, features, scorer.w, invalid=invalid)
    name, weights = scorer.segments
    segment = SegmentColumn(name, weights.values)
    segment.check(SparkTable(df))

    def scores(arrays: Sequence[pa.Array]) -> Float:
        result: Float = weights.scores(features.decode(arrays[:-1]), segment.numbers(arrays[-1]))
        return result

    return _column(features, scores, inputs(df, [*features.columns, name]), invalid)


def score_column(df: DataFrame, features: Features, w: Float, *, invalid: bool = False) -> Column:
    """The scores ``w'x`` as a column.

    Parameters
    ----------
    df
        The rows.
    features
        The features of the rows.
    w : (d,)
        The weights.
    invalid
        Whether a row that cannot be used has a null score; else it fails the job (`DataError`).
    """

    def scores(arrays: Sequence[pa.Array]) -> Float:
        return settled_scores(features.decode(arrays), w)

    return _column(features, scores, inputs(df, features.columns), invalid)


def with_predictions(
    df: DataFrame,
    score: Column,
    scorer: LinearScorer,
    values: LinearRankerSettings,
    threshold: float,
) -> DataFrame:
    """The rows with the columns of scores and predictions.

    Parameters
    ----------
    df
        The rows.
    score
        Their scores; null for rows that cannot be scored.
    scorer
        The labels.
    values
        Names and form of the columns.
    threshold
        Scores at or above it are predicted positive.

    """
    raw, prediction = values["rawPredictionCol"], values["predictionCol"]
    if raw:
        shown = vector_of_two(-score, score) if values["vectorOutput"] else score
        df = df.withColumn(raw, shown)
        score = number_of_score(df, raw)
    if values["handleInvalid"] == "skip":
        df = df.filter(score.isNotNull())
    if prediction:
        # A row without a score has no prediction.
        above = score >= F.lit(threshold)
        label = F.when(above, F.lit(scorer.positive)).when(~above, F.lit(scorer.negative))
        df = df.withColumn(prediction, label)
    return df


def _column(
    features: Features,
    scores: Callable[[Sequence[pa.Array]], Float],
    columns: Inputs,
    invalid: bool,
) -> Column:
    width, arrays_of = len(features.columns), columns.arrays

    def column(*inputs_of_rows: pa.Array) -> pa.Array:
        arrays = arrays_of(inputs_of_rows)
        usable = pa.array(features.usable(arrays[:width])) if invalid else None
        if usable is None or usable.true_count == len(usable):
            return pa.array(scores(arrays))
        found = pa.array(scores([array.filter(usable) for array in arrays]))
        # A place that is null gives a null score.
        places = pc.if_else(usable, pc.cumulative_sum(usable.cast("int64")), None)
        return found.take(pc.subtract(places, 1))

    # Spark reads the types themselves, which are but text under postponed annotations.
    column.__annotations__ = {"inputs_of_rows": pa.Array, "return": pa.Array}
    scored: Column = arrow_udf(column, "double")(*columns.expressions)  # type: ignore[call-overload]
    return scored
