"""Rows to class statistics in one pass, and these to a model without the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.head_moments import HeadAccumulator, HeadMoments
from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import State
from spark_auc.core.types import Float
from spark_auc.spark.data.columns import BatchReader, TrainingColumns
from spark_auc.spark.data.rows import DistributedRows
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.mba import MBAClassifier
from spark_auc.spark.estimators.settings import MBASettings
from spark_auc.training.prior import Prior
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.stream_statistics import StreamStatistics
from spark_auc.training.train import train_on_moments

_SCORES, _HEAD = "scores", "head"


def statistics(
    rows: DistributedRows, w: Float | None = None, head: NDArray[np.int64] | None = None
) -> StreamStatistics:
    """Statistics of rows and, with the weights ``w`` ``(d,)``, their scores, in one pass.

    With a ``head`` ``(h,)`` of the columns, covariances are those of the head alone.

    Raises
    ------
    DataError
        A value cannot be used.
    ResourceError
        The statistics do not fit in memory.
    """
    dimension = rows.dimension

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        scores = ScoreHistogram.zero()

        def scored() -> Iterator[Batch]:
            nonlocal scores
            for batch in batches:
                if w is not None:
                    these = ScoreHistogram.of(settled_scores(batch.X, w), batch.y, batch.weight)
                    scores = scores.merge(these)
                yield batch

        if head is None:
            yield from PairMoments.fold_parts(scored(), dimension)
        else:
            accumulated = HeadAccumulator(dimension, head)
            for batch in scored():
                accumulated.add(batch)
            yield _HEAD, accumulated.finish()
        yield _SCORES, scores

    none = ScoreHistogram.zero()
    size = PairMoments.nbytes(dimension)
    if head is not None:
        size = HeadMoments.nbytes(dimension, head.size)
    result = rows.fold(
        fold,
        (MomentsTile, ScoreHistogram, HeadMoments),
        state_bytes=size + (64 * none.max_bins if w is not None else 0),
        what=f"moments of {dimension} features",
    )
    parts = dict(result.states)
    if not parts:
        return StreamStatistics.zero(dimension, head)
    scores = cast(ScoreHistogram, parts.pop(_SCORES))
    if head is not None:
        return StreamStatistics(cast(HeadMoments, parts[_HEAD]), result.labels, scores)
    moments = PairMoments.of_parts(cast(dict[str, MomentsTile], parts), dimension)
    return StreamStatistics(moments, result.labels, scores)


def rows_of_any_class(df: DataFrame, columns: TrainingColumns) -> DistributedRows:
    """Rows whose labels are for the caller to check: a part of a stream may lack a class."""
    # Tasks that read Parquet themselves are prepared by listing the whole directory of a file.
    return DistributedRows(
        columns.select(df), lambda: BatchReader(columns), columns.features.dimension, lambda _: None
    )


def solved(
    moments: PairMoments | HeadMoments,
    labels: LabelCounts,
    estimator: MBAClassifier,
    prior: Prior | None = None,
) -> TrainingResult:
    """What ``estimator`` would make of rows of these moments; errors are those of `model_of`."""
    if isinstance(moments, PairMoments):
        estimator.refuse("moments without rows", "covariance")
    estimator.refuse("moments without rows", "maxFPR")
    values: MBASettings = estimator.values()
    regs, mixes = estimator.penalties()
    settings = TrainingSettings(
        reg_params=regs,
        elastic_net_params=mixes,
        prior=prior,
        standardize=values["standardization"],
        tol=values["tol"],
        max_iter=values["maxIter"],
        on_failure=values["whenNotConverged"],
    )
    return train_on_moments(moments, labels, settings)


def model_of(
    statistics: StreamStatistics,
    columns: TrainingColumns,
    estimator: MBAClassifier,
    seconds: dict[str, float] | None = None,
    prior: Prior | None = None,
) -> LinearRankerModel:
    """The model that ``estimator`` would fit to the rows of these statistics.

    Parameters
    ----------
    statistics
        Of rows of both classes.
    columns
        The columns that they were made of.
    estimator
        Penalty, standardization, tolerance and column names; regParam is set.
    seconds
        Wall time of the phases before this one, for the summary.
    prior
        Centre of the penalty. Default: 0.

    Raises
    ------
    DataError
        There are not two classes.
    ConvergenceError
        The solver did not reach tol and whenNotConverged is "raise".
    """
    statistics.labels.classes(columns.positive)
    result = solved(statistics.moments, statistics.labels, estimator, prior)
    seconds = {**(seconds or {}), **result.seconds}
    return estimator.made(replace(result, seconds=seconds), columns)
