"""What a retraining does with the rows of a period: their moments by fold, and rankers' scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import Label, LabelCounts
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.features.token_names import FeatureNames
from spark_auc.pipeline.recipe_ranker import suited
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.pipeline.score_groups import by_group
from spark_auc.pipeline.score_tables import tabulated
from spark_auc.spark.data.row_columns import label_column, weight_column
from spark_auc.spark.data.spark_table import SparkTable, scoreable, segment_value
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.mba import MBAClassifier
from spark_auc.spark.estimators.one_pass import model_of, solved
from spark_auc.spark.features.recipe_model import FeatureRecipeModel
from spark_auc.spark.pipeline_model import RankerPipelineModel
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.rows import TableRows
from spark_auc.tables.segments import SegmentColumn
from spark_auc.tables.table import Table
from spark_auc.training.fold_moments import moments_of_folds
from spark_auc.training.prior import Prior
from spark_auc.training.segment_moments import moments_of_segments
from spark_auc.training.segments import REST
from spark_auc.training.stream_statistics import StreamStatistics

# Column of the segments of scored rows.
SEGMENT = "segment"


def fold_moments(
    rows: Table, columns: TrainingColumns, folds: Folds
) -> tuple[dict[str, list[PairMoments]], LabelCounts]:
    """The moments of each fold's rows, which may lack a class, and the number of rows by label.

    Parameters
    ----------
    rows, columns
        The rows and their columns. Without a segment column, all rows are of no segment.
    folds
        The fold of each row.

    Returns
    -------
    moments
        By segment, and under `REST` those of rows of no segment.
    labels
        Number of rows of each label.

    Raises
    ------
    DataError
        A value cannot be used.
    ResourceError
        The moments do not fit in memory.
    """
    of_any_class = TableRows.of_any_class(rows, columns)
    if columns.segments is not None:
        return moments_of_segments(of_any_class, folds, columns.segments.values)
    moments, labels, _ = moments_of_folds(of_any_class, folds, range(folds.count))
    return {REST: moments}, labels


def trained(
    moments: PairMoments,
    labels: tuple[Label, Label],
    columns: TrainingColumns,
    params: Mapping[str, Any],
    prior: Prior | None = None,
) -> LinearRankerModel:
    """The ranker of moments, with Params of `MBAClassifier` for one penalty.

    Parameters
    ----------
    moments
        Pair moments of the training rows.
    labels
        The positive and the negative label.
    columns
        Columns of rows like those that the moments were made of.
    params
        Penalty, standardization, tolerance and names of columns.
    prior
        Centre of the penalty. Default: 0.

    Raises
    ------
    ConvergenceError
        The solver did not reach its tolerance.
    """
    rows = moments.positive.rows, moments.negative.rows
    counts = LabelCounts(dict(zip(labels, rows, strict=True)))
    statistics = StreamStatistics(moments, counts, ScoreHistogram.zero())
    return model_of(statistics, columns, MBAClassifier(**params), prior=prior)


def retrained(
    model: RankerPipelineModel, moments: PairMoments, params: Mapping[str, Any]
) -> RankerPipelineModel:
    """A model of other moments of the same features and labels, without names of tokens.

    Parameters
    ----------
    model
        A model with a recipe or of prepared features. Counts of the rows of the recipe's fit are
        left out.
    moments
        Pair moments of the training rows.
    params
        See `trained`.

    Raises
    ------
    ConvergenceError
        The solver did not reach its tolerance.
    """
    old, recipe = model.ranker.scorer, model.recipe
    rows = moments.positive.rows, moments.negative.rows
    counts = LabelCounts(dict(zip((old.positive, old.negative), rows, strict=True)))
    stage = None if recipe is None else FeatureRecipeModel(recipe)
    estimator = suited(MBAClassifier(**params), stage)
    result = solved(moments, counts, estimator)
    labels = old.names if recipe is None else FeatureNames(recipe)
    ranker = estimator.model_from(result, old.positive, old.names, labels)
    return RankerPipelineModel(ranker, stage)


def scored(
    rows: DataFrame,
    models: Mapping[str, RankerPipelineModel],
    label: str,
    positive: Label | None,
    weight: str | None,
    segments: SegmentColumn | None = None,
) -> DataFrame:
    """Label, weight and the scores of several models, a column each by its name; and segments."""
    columns = list[Column]()
    for name, model in models.items():
        features = model.features(SparkTable(rows))
        if segments is not None and not columns:
            columns.append(segment_value(rows, segments).alias(SEGMENT))
        columns.append(model.ranker.score_column(rows, features).alias(name))
    chosen = scoreable(rows)
    of_label, _ = label_column(rows, label, positive)
    of_weight = F.lit(1.0) if weight is None else weight_column(rows, weight)
    return chosen.select(of_label.alias("label"), of_weight.alias("weight"), *columns)


def segment_aucs(
    rows: DataFrame,
    names: Sequence[str],
    positive: Label | None,
    count: int,
    level: float = 0.95,
) -> dict[str, Any]:
    """Rows and AUC of each segment by some of the scores of `scored`, as JSON types.

    ``count`` is the number of rows.
    """
    found: dict[str, Any] = {}
    known = SparkTable(rows.filter(F.col(SEGMENT).isNotNull()))
    for name in names:
        columns = ScoreColumns(name, "label", positive, "weight")
        for group in by_group(known, columns, SEGMENT, level, count).rows:
            entry = {"rows": [group.positive, group.negative], "auc": {}}
            found.setdefault(str(group.value), entry)["auc"][name] = group.auc
    return found


def rows_by_class(rows: DataFrame, label: str, positive: Label | None) -> tuple[int, int]:
    """Number of positive and of negative rows; rows without a label are in neither."""
    column, value = label_column(rows, label, positive)
    is_positive = column == F.lit(1.0 if value is None else value)
    found = rows.agg(F.count_if(is_positive), F.count_if(~is_positive)).first()
    assert found is not None
    return int(found[0]), int(found[1])


def score_histogram(rows: DataFrame, name: str, positive: Label | None) -> ScoreHistogram:
    """Histogram of one of the scores of `scored`."""
    columns = ScoreColumns(name, "label", positive, "weight")
    with tabulated(SparkTable(rows), columns, keep=False) as table:
        return table.overview.histogram
