"""Exact AUC of the scored rows of a table."""

from __future__ import annotations

import logging

from spark_auc.core.evaluation.delong import SMALL_CLASS
from spark_auc.core.evaluation.measures import RankingOptions
from spark_auc.core.evaluation.ranking import Ranking
from spark_auc.core.evaluation.report import AUCReport
from spark_auc.errors import ConfigError
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.pipeline.score_groups import by_group
from spark_auc.pipeline.score_tables import tabulated
from spark_auc.tables.table import Table, field_of

_log = logging.getLogger(__name__)


def evaluated(
    table: Table,
    columns: ScoreColumns,
    *,
    groupCol: str | None = None,
    level: float = 0.95,
    probabilities: bool = False,
    exact: bool = True,
    maxBins: int = 1 << 16,
    maxFPR: float = 0.1,
    costRatio: float = 1.0,
    fprBudget: float = 0.01,
) -> AUCReport:
    """Measure how well scores rank, in one pass over the rows.

    Parameters
    ----------
    table
        Rows with a score, a label and optionally a weight.
    columns
        Names of these columns.
    groupCol, level, probabilities, exact, maxBins, maxFPR, costRatio, fprBudget
        See `spark_auc.evaluate`, also for the result and the errors.
    """
    options = ranking_options(maxFPR, costRatio, fprBudget, level, probabilities)
    if groupCol is not None:
        field_of(table, groupCol)
    with tabulated(table, columns, max_bins=maxBins, keep=exact) as scored:
        if exact:
            ranking = scored.ranking(options)
        else:
            ranking = Ranking.of(scored.table, scored.centre, options)
    bounds = None if exact else scored.overview.histogram.auc_bounds()
    groups = None
    if groupCol is not None:
        count = sum(scored.overview.labels.rows.values())
        groups = by_group(table, columns, groupCol, level, count, scored.table.rows)
    report = AUCReport(
        options, ranking, scored.centre, scored.table, scored.classes, level, bounds, groups
    )
    measured = "exact" if exact else "histogram"
    _log.info("%s AUC of %s rows: %.6f", measured, scored.overview.labels.rows, report.auc)
    if report.interval.scale == "unknown":
        _log.warning("found one row of a class: the AUC has no confidence interval")
    elif report.interval.small_sample:
        _log.warning(
            "found fewer than %d effective rows of a class: the interval is wide, and tests of "
            "differences are rough",
            SMALL_CLASS,
        )
    return report


def ranking_options(
    max_fpr: float, cost: float, budget: float, level: float, probabilities: bool = False
) -> RankingOptions:
    """The options of a ranking; `ConfigError` for values out of range."""
    if not (0 < max_fpr <= 1 and 0 < cost < float("inf") and 0 <= budget <= 1 and 0 < level < 1):
        raise ConfigError(
            f"found maxFPR {max_fpr}, costRatio {cost}, fprBudget {budget} and level {level}; "
            "expected 0 < maxFPR <= 1, costRatio > 0, 0 <= fprBudget <= 1 and 0 < level < 1; "
            "correct these parameters"
        )
    return RankingOptions(max_fpr, cost, budget, probabilities=probabilities)
