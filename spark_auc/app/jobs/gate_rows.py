"""The rows of a gate, scored once by the challenger, the champion and the anchor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_auc.app.config.retraining import GateSection, Retrain
from spark_auc.app.config.sections import Columns
from spark_auc.core.evaluation.delong import AUCInterval
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.core.evaluation.score_histogram import ScoreHistogram

if TYPE_CHECKING:
    from spark_auc.app.jobs.engines import Engine
    from spark_auc.pipeline.comparison import Comparison
    from spark_auc.pipeline.models import PipelineModel
    from spark_auc.tables.table import Batches, Table

CHALLENGER, CHAMPION, ANCHOR = "challenger", "champion", "anchor"
_NEWEST = "newest"

_log = logging.getLogger(__name__)


def readable_rows(engine: Engine, config: Retrain, period: str) -> tuple[int, int]:
    """Number of positive and of negative rows that the source has of a period; 0 if unreadable.

    The rows of stored periods may be deleted: their files, or their part of a table.
    """
    from spark_auc.pipeline.retraining import rows_by_class

    source, names = config.rows_of(period), config.columns
    try:
        source.check()
        with engine.read(source) as rows:
            return rows_by_class(rows, names.label, names.positiveLabel, names.weight)
    except engine.failures as error:
        _log.info("the rows of period %s cannot be read: %s", period, error)
        return 0, 0


def pooled_periods(
    period: str,
    counts: tuple[int, int],
    earlier: Sequence[str],
    rule: GateSection,
    readable: Callable[[str], tuple[int, int]],
) -> tuple[list[str], tuple[int, int]]:
    """The gate's periods, ascending, and their rows: the newest, until each class has enough.

    Parameters
    ----------
    period, counts
        The new period, and its rows of each class.
    earlier
        Earlier periods that the champion was not trained on, ascending.
    rule
        The least number of rows, and the most periods.
    readable
        The rows of a period that can be read. The first period without rows ends the pool.
    """
    pooled, rows = [period], counts
    for before in reversed(earlier):
        if min(rows) >= rule.least or len(pooled) >= rule.most:
            break
        found = readable(before)
        if not any(found):
            break
        pooled.insert(0, before)
        rows = rows[0] + found[0], rows[1] + found[1]
    return pooled, rows


class GateRows:
    """Scored rows of the gate's periods, kept in memory or on disk.

    Parameters
    ----------
    scored
        Label, weight and a column of scores for each model.
    names
        Names of the columns of scores.
    columns
        The section of the columns, for the positive label.
    rows
        Number of positive and of negative rows.
    """

    def __init__(
        self, scored: Table, names: Sequence[str], columns: Columns, rows: tuple[int, int]
    ) -> None:
        self._scored, self._names, self._columns, self.rows = scored, names, columns, rows

    @classmethod
    @contextmanager
    def of(
        cls,
        periods: Sequence[Table],
        models: Mapping[str, PipelineModel],
        columns: Columns,
        rows: tuple[int, int],
    ) -> Iterator[GateRows]:
        """Score the rows of all periods by each model, for use inside the block.

        Without models there are no scores.
        """
        from spark_auc.pipeline.retraining import scored

        if not models:
            yield cls(periods[-1], (), columns, rows)
            return
        label = columns.label, columns.positiveLabel, columns.weight
        segments = next(filter(None, (model.ranker.segments for model in models.values())), None)
        parts = [
            _marked(scored(period, models, *label, segments), newest=period is periods[-1])
            for period in periods
        ]
        with parts[0].union(parts[1:]).kept(spill=True) as together:
            yield cls(together, list(models), columns, rows)

    @cached_property
    def _comparison(self) -> Comparison:
        from spark_auc.pipeline.comparison import compared

        positive = self._columns.positiveLabel
        return compared(self._scored, self._names, "label", positive, "weight")

    def paired(self) -> PairedAUC:
        """AUCs of the models and their covariance, in the order of the models."""
        return self._comparison.paired

    def interval(self, name: str) -> AUCInterval:
        """AUC of a model with its confidence interval."""
        from spark_auc.pipeline.evaluation import evaluated
        from spark_auc.pipeline.score_columns import ScoreColumns

        if len(self._names) > 1:
            return self._comparison.intervals[list(self._names).index(name)]
        columns = ScoreColumns(name, "label", self._columns.positiveLabel, "weight")
        return evaluated(self._scored, columns).interval

    def histogram(self, name: str, *, newest: bool = False) -> ScoreHistogram:
        """Histogram of a model's scores, of the newest period's rows only if ``newest``."""
        from spark_auc.pipeline.retraining import score_histogram

        rows = self._scored
        if newest:
            rows = rows.where([_NEWEST], lambda arrays: arrays[0].to_numpy(zero_copy_only=False))
        return score_histogram(rows, name, self._columns.positiveLabel)

    def as_dict(self) -> dict[str, Any]:
        """Rows and the AUC of each model with its interval, as JSON types; needs enough rows.

        With rankers of segments, also the rows and AUCs of each segment.
        """
        from spark_auc.pipeline.retraining import SEGMENT, segment_aucs

        intervals = {name: self.interval(name) for name in self._names}
        measured: dict[str, Any] = {
            "rows": list(self.rows),
            "auc": {
                name: {"auc": i.auc, "lower": i.lower, "upper": i.upper}
                for name, i in intervals.items()
            },
        }
        if SEGMENT in self._scored.schema.names:
            positive = self._columns.positiveLabel
            count = sum(self.rows)
            measured["segments"] = segment_aucs(self._scored, self._names, positive, count)
        return measured


def _marked(table: Table, *, newest: bool) -> Table:
    """The scored rows of a period, with whether it is the newest."""
    schema = table.schema.append(pa.field(_NEWEST, pa.bool_()))

    def marked(batches: Batches) -> Batches:
        for batch in batches:
            mark = pa.array(np.full(batch.num_rows, newest))
            yield pa.RecordBatch.from_arrays([*batch.columns, mark], schema=schema)

    return table.map(marked, schema)
