"""Learn a stream by gradient steps, one row after another: OPAUC and SOLAM as published."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from pyspark.sql import functions as F

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.operator import score_moments
from spark_auc.core.row_source import State
from spark_auc.errors import ConfigError
from spark_auc.pipeline.one_pass import ScoredBatches
from spark_auc.spark.data.prepared import RowOrder
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.online import OnlineEstimator, finite
from spark_auc.spark.streaming.learning import Part, other_learner
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.rows import TableRows
from spark_auc.training.learned_rows import LearnedRows
from spark_auc.training.result import TrainingResult
from spark_auc.training.stream_statistics import StreamStatistics

_log = logging.getLogger(__name__)

_NUMBER = "spark_auc_number"
_LEARNED, _SCORES = "learned", "scores"


@dataclass(frozen=True)
class OneByOne:
    """A learner in sequence; see `spark_auc.spark.streaming.learning.Learning`.

    One task learns the rows of a batch: files in the order of their times, and rows as they are in
    the files, or by orderCol inside a batch. The first batch chooses what ``fit`` would choose by
    all rows (scales, shifts, the length of steps, SOLAM's constant steps and bounds); they stay.

    Parameters
    ----------
    estimator
        The estimator of the learner.
    """

    estimator: OnlineEstimator
    in_order: bool = True
    keyed: bool = False

    def check(self, before: StreamStatistics) -> None:
        """See `Learning.check`; the job's settings tell one such learner from another."""
        if not isinstance(before.moments, LearnedRows):
            raise ConfigError(other_learner(before.moments, type(self.estimator).__name__))

    def learned(self, part: Part) -> StreamStatistics:
        """See `Learning.learned`."""
        table, columns, before, w = part[:4]
        rows = TableRows.of_any_class(table, columns)
        numbered = table.filtered().withColumn(_NUMBER, F.monotonically_increasing_id())
        seed = self.estimator.values()["seed"]
        column = self.estimator.values()["orderCol"] or _NUMBER
        order = RowOrder.of(SparkTable(numbered), columns, column, seed, 1)
        beginning = self._begun(rows, columns, order) if before is None else before.moments
        assert isinstance(beginning, LearnedRows)

        def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            scored = ScoredBatches(w)
            yield _LEARNED, beginning.after(scored(batches))
            yield _SCORES, scored.scores

        arranged = SparkTable(order.arranged(0), sources=1, files=False)
        result = TableRows.of_any_class(arranged, columns).fold(
            fold,
            (LearnedRows, ScoreHistogram),
            state_bytes=len(beginning.learner) + 6 * 8 * beginning.dimension + ScoredBatches.BYTES,
            what=f"a learner of {beginning.dimension} features",
        )
        if not result.states:
            return StreamStatistics(beginning.after(()), result.labels, ScoreHistogram.zero())
        done = cast(LearnedRows, result[_LEARNED])
        scores = score_moments(rows, done.w)
        return StreamStatistics(
            replace(done, scores=scores), result.labels, cast(ScoreHistogram, result[_SCORES])
        )

    def _begun(self, rows: TableRows, columns: TrainingColumns, order: RowOrder) -> LearnedRows:
        """The learner before the first row."""
        surveyed = self.estimator.surveyed(columns, rows, order)
        positive, negative = map(int, surveyed.surveyed.rows)
        if not positive or not negative:
            raise ConfigError(
                f"found {positive} positive and {negative} negative rows in the first batch, "
                "expected both classes, by which scales and steps are chosen; let the first batch "
                "be larger (opauc.stream.maxFilesPerTrigger, or the limits of the source)"
            )
        learner = self.estimator.begun(surveyed)
        settings = {f.name: getattr(learner, f.name) for f in fields(cast(Any, learner)) if f.init}
        kind, count = type(learner).__name__, surveyed.count
        _log.info("%s begins with %s, by the %d rows of the first batch", kind, settings, count)
        shift, scale = surveyed.shift, surveyed.scale
        none, no_scores = ColumnMoments.zero(scale.size), ColumnMoments.zero(1)
        return LearnedRows(learner.to_bytes(), shift, scale, none, no_scores)

    def model(self, statistics: StreamStatistics, columns: TrainingColumns) -> LinearRankerModel:
        """See `Learning.model`."""
        learned = statistics.moments
        assert isinstance(learned, LearnedRows)
        statistics.labels.classes(columns.positive)
        learner, w = learned.restored(), finite(learned.w)
        result = TrainingResult(
            w,
            learned.scores,
            learned.columns,
            statistics.labels,
            type(learner).__name__,
            {},
            saddle=getattr(learner, "averages", None),
            estimated=False,
        )
        return self.estimator.made(result, columns)
