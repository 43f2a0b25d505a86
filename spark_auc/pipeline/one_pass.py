"""Rows to class statistics in one pass, and these to a model without the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.head_moments import HeadMoments
from spark_auc.core.moments.low_rank_moments import LowRankMoments
from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import RowSource, State
from spark_auc.core.types import Float
from spark_auc.pipeline.pair_moments_fit import PairMomentsFit
from spark_auc.tables.columns import TrainingColumns
from spark_auc.training.approximation import ApproximateMoments
from spark_auc.training.learned_rows import LearnedRows
from spark_auc.training.prior import Prior
from spark_auc.training.result import TrainingResult
from spark_auc.training.stream_statistics import Begun, StreamStatistics
from spark_auc.training.train import train_on_moments

_SCORES, _MOMENTS = "scores", "moments"


def statistics(
    rows: RowSource, w: Float | None = None, begun: Begun | None = None, begun_bytes: int = 0
) -> StreamStatistics:
    """Statistics of rows and, with the weights ``w`` ``(d,)``, their scores, in one pass.

    Parameters
    ----------
    rows
        The rows.
    w : (d,), optional
        Weights.
    begun, begun_bytes
        What begins approximate moments, and their size; None for exact ones.

    Raises
    ------
    DataError
        A value cannot be used.
    ResourceError
        The statistics do not fit in memory.
    """
    dimension = rows.dimension

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        scored = ScoredBatches(w)
        if begun is None:
            yield from PairMoments.fold_parts(scored(batches), dimension)
        else:
            accumulated = begun()
            for batch in scored(batches):
                accumulated.add(batch)
            yield _MOMENTS, accumulated.finish()
        yield _SCORES, scored.scores

    size = PairMoments.nbytes(dimension) if begun is None else begun_bytes
    result = rows.fold(
        fold,
        (MomentsTile, ScoreHistogram, HeadMoments, LowRankMoments),
        state_bytes=size + (ScoredBatches.BYTES if w is not None else 0),
        what=f"moments of {dimension} features",
    )
    parts = dict(result.states)
    if not parts:
        return StreamStatistics.zero(dimension, begun)
    scores = cast(ScoreHistogram, parts.pop(_SCORES))
    if begun is not None:
        return StreamStatistics(cast(Any, parts[_MOMENTS]), result.labels, scores)
    moments = PairMoments.of_parts(cast(dict[str, MomentsTile], parts), dimension)
    return StreamStatistics(moments, result.labels, scores)


class ScoredBatches:
    """Batches whose scores by the weights ``w`` ``(d,)``, if there are any, are counted."""

    BYTES = 64 * ScoreHistogram.zero().max_bins

    def __init__(self, w: Float | None) -> None:
        self.scores, self._w = ScoreHistogram.zero(), w

    def __call__(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches."""
        for batch in batches:
            if self._w is not None:
                these = ScoreHistogram.of(settled_scores(batch.X, self._w), batch.y, batch.weight)
                self.scores = self.scores.merge(these)
            yield batch


def solved(
    moments: PairMoments | ApproximateMoments,
    labels: LabelCounts,
    estimator: PairMomentsFit,
    prior: Prior | None = None,
) -> TrainingResult:
    """What ``estimator`` would make of rows of these moments; errors are those of `model_of`."""
    if isinstance(moments, PairMoments):
        estimator.refuse("moments without rows", "covariance")
    estimator.refuse("moments without rows", "maxFPR")
    settings = replace(estimator.settings_on_moments(), prior=prior)
    return train_on_moments(moments, labels, settings)


def model_of(
    statistics: StreamStatistics,
    columns: TrainingColumns,
    estimator: PairMomentsFit,
    seconds: dict[str, float] | None = None,
    prior: Prior | None = None,
) -> Any:
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
    moments = statistics.moments
    assert not isinstance(moments, LearnedRows)
    result = solved(moments, statistics.labels, estimator, prior)
    seconds = {**(seconds or {}), **result.seconds}
    return estimator.made(replace(result, seconds=seconds), columns)
