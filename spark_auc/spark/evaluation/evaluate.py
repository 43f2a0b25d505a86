"""Exact AUC of a DataFrame of scored rows, of its groups, and of several models beside each other.

See `spark_auc.spark.evaluation.scores` for how it is done.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_auc.core.evaluation.delong import (
    SMALL_CLASS,
    AUCInterval,
    auc_interval,
    interval_of,
)
from spark_auc.core.evaluation.paired_auc import AUCDifference, PairedAUC
from spark_auc.core.evaluation.ranking import Ranking, RankingOptions
from spark_auc.core.evaluation.report import AUCReport, GroupAUC, Groups
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.labels import Label
from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.columns import label_column
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.features import known_column, quoted
from spark_auc.spark.evaluation.score_columns import ScoreColumns, read
from spark_auc.spark.evaluation.scores import tabulated

_log = logging.getLogger(__name__)


def evaluate(
    df: DataFrame,
    *,
    scoreCol: str = "rawPrediction",
    labelCol: str = "label",
    positiveLabel: Label | bool | None = None,
    weightCol: str | None = None,
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
    df
        Rows with a score, a label and maybe a weight.
    scoreCol
        A number, or a vector of two as Spark ML's classifiers give.
    labelCol, positiveLabel
        Label (0/1, -1/+1, or any two values with positiveLabel).
    weightCol
        Sampling weight >= 0 of each row.
    groupCol
        Column by whose values to measure AUC too (per advertiser, per day); another pass, in
        which all rows of one group meet in one task.
    level
        Confidence level.
    probabilities
        Whether scores are probabilities of the positive class: their log loss and calibration
        are measured too.
    exact
        Whether to measure all scores as they are; else a histogram of ``maxBins`` bins is
        measured, which keeps nothing of the rows, and bounds contain the exact AUC.
    maxBins
        Most bins of the histogram.
    maxFPR
        Greatest false positive rate of the partial AUC.
    costRatio
        Cost of a false negative over that of a false positive, for the threshold "cost".
    fprBudget
        Greatest false positive rate of the threshold "fprBudget".

    Returns
    -------
    AUCReport

    Raises
    ------
    ConfigError
        A column is unknown or of a type that cannot serve, or a setting is out of range.
    DataError
        A score, label or weight cannot be measured, or there are not two classes; with counts.

    Examples
    --------
    >>> from spark_auc import evaluate
    >>> report = evaluate(rows, scoreCol="age")
    >>> round(report.auc, 2)
    0.65
    >>> report.interval.lower < report.auc < report.interval.upper
    True
    """
    asked = _asked(maxFPR, costRatio, fprBudget, level, probabilities)
    columns = ScoreColumns(scoreCol, labelCol, positiveLabel, weightCol)
    if groupCol is not None:
        known_column(df, groupCol)
    with tabulated(df, columns, max_bins=maxBins, keep=exact) as scored:
        ranking = scored.ranking(asked) if exact else Ranking.of(scored.table, scored.centre, asked)
    bounds = None if exact else scored.overview.histogram.auc_bounds()
    groups = by_group(df, columns, groupCol, level) if groupCol is not None else None
    report = AUCReport(
        asked, ranking, scored.centre, scored.table, scored.classes, level, bounds, groups
    )
    _log.info("AUC %.6f of %s rows", report.auc, scored.overview.labels.rows)
    if report.interval.scale == "unknown":
        _log.warning("found one row of a class: its AUC is exact, but how sure it is is unknown")
    elif report.interval.small_sample:
        _log.warning(
            "found fewer than %d effective rows of a class: the interval of level %g covers the "
            "true AUC less often than that",
            SMALL_CLASS,
            level,
        )
    return report


def _asked(
    max_fpr: float, cost: float, budget: float, level: float, probabilities: bool = False
) -> RankingOptions:
    if not (0 < max_fpr <= 1 and 0 < cost < float("inf") and 0 <= budget <= 1 and 0 < level < 1):
        raise ConfigError(
            f"found maxFPR {max_fpr}, costRatio {cost}, fprBudget {budget} and level {level}; "
            "expected 0 < maxFPR <= 1, costRatio > 0, 0 <= fprBudget <= 1 and 0 < level < 1; "
            "set them so"
        )
    return RankingOptions(max_fpr, cost, budget, probabilities=probabilities)


_GROUP = pa.schema(
    [
        ("value", pa.string()),
        ("positive", pa.int64()),
        ("negative", pa.int64()),
        ("weight", pa.float64()),
        ("auc", pa.float64()),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
    ]
)
_GROUP_DDL = "value string, positive long, negative long, weight double, "
_GROUP_DDL += "auc double, lower double, upper double"


def by_group(df: DataFrame, columns: ScoreColumns, column: str, level: float) -> Groups:
    """AUC among the rows of each value of a column; the rows must have been found measurable."""
    _, positive = label_column(df, columns.label, columns.positive)

    def measured(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        table, _, _ = read(rows.to_batches(), positive)
        found = [*table.rows, float(table.class_sums()[0].sum()), None, None, None]
        if min(table.rows):
            found[3] = auc(table)
        if min(table.rows) > 1:
            found[4:] = auc_interval(table, level)[1:3]
        arrays = [
            pa.array([v], t) for v, t in zip([key[0].as_py(), *found], _GROUP.types, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=_GROUP)

    rows = columns.select(df, group=F.col(quoted(column)).cast("string"))
    with translated():
        found = rows.groupBy("group").applyInArrow(measured, _GROUP_DDL).toArrow()
    groups = [GroupAUC(**row) for row in found.to_pylist()]
    return Groups(column, tuple(sorted(groups, key=lambda g: (g.value is None, g.value))))


@dataclass(frozen=True, eq=False)
class Comparison:
    """AUCs of several models on the same rows.

    Parameters
    ----------
    names
        The score columns.
    paired
        AUCs and DeLong's covariance of them.
    intervals
        The AUC of each with its interval.
    level
        Confidence level.
    """

    names: tuple[str, ...]
    paired: PairedAUC
    intervals: tuple[AUCInterval, ...]
    level: float

    def difference(self, first: str, second: str) -> AUCDifference:
        """AUC of the first less that of the second, its interval, and the test that it is 0."""
        i, j = (self.names.index(name) for name in (first, second))
        return self.paired.compare(i, j, self.level)


def compare(
    df: DataFrame,
    scoreCols: Sequence[str],
    *,
    labelCol: str = "label",
    positiveLabel: Label | bool | None = None,
    weightCol: str | None = None,
    level: float = 0.95,
) -> Comparison:
    """Compare models that scored the same rows, by paired DeLong (DeLong et al. 1988).

    Parameters
    ----------
    df
        Rows with several scores, a label and maybe a weight. It is read once; scores, labels and
        weights are kept on the executors' disks meanwhile.
    scoreCols
        Two score columns or more.
    labelCol, positiveLabel, weightCol, level
        As in `evaluate`.

    Raises
    ------
    ConfigError, DataError
        As `evaluate`; DataError too where a class has fewer than two rows, or where Spark had to
        make rows again and they were others.

    Examples
    --------
    >>> from spark_auc import compare
    >>> both = compare(rows, ["age", "position"])
    >>> difference = both.difference("age", "position")
    >>> difference.lower < difference.difference < difference.upper
    True
    """
    if len(set(scoreCols)) < max(2, len(scoreCols)):
        raise ConfigError(
            f"found the score columns {list(scoreCols)}, expected two or more different ones; "
            "set scoreCols"
        )
    asked = _asked(1.0, 1.0, 0.0, level)
    given = [ScoreColumns(name, labelCol, positiveLabel, weightCol) for name in scoreCols]
    # All that follows is of one reading: a row that is scored again may be scored otherwise.
    kept = given[0].select(df, **{f"s{k}": c.score_column(df) for k, c in enumerate(given)})
    kept = kept.drop("score").persist(StorageLevel.DISK_ONLY)
    weight = "weight" if weightCol else None
    columns = [ScoreColumns(f"s{k}", "label", positiveLabel, weight) for k in range(len(given))]
    u = F.col("weight") if weight else F.lit(1.0)
    rows = kept.select("*", u.alias("u"), columns[0].is_positive(kept).alias("y"))
    aucs = []
    with ExitStack() as stack:
        stack.callback(kept.unpersist)
        for k, each in enumerate(columns):
            scored = stack.enter_context(tabulated(kept, each, what=scoreCols[k]))
            aucs.append(scored.ranking(asked).auc)
            placed = scored.placements().toDF(f"s{k}", f"p{k}", f"n{k}")
            rows = rows.join(placed, f"s{k}")
        for k, value in enumerate(aucs):
            placement = F.when(F.col("y"), F.col(f"p{k}")).otherwise(F.col(f"n{k}"))
            rows = rows.withColumn(f"v{k}", placement - F.lit(value))
        pairs = list(combinations_with_replacement(range(len(columns)), 2))
        sums = [F.sum(F.expr(f"u * u * v{i} * v{j}")).alias(f"c{i}_{j}") for i, j in pairs]
        counted = F.count_if(F.col("u") > 0).alias("rows")
        with translated():
            found = rows.groupBy("y").agg(counted, *sums).toArrow().to_pylist()
    class_sums = scored.table.class_sums()
    compared = {row["y"]: row["rows"] for row in found}
    if (compared.get(True, 0), compared.get(False, 0)) != scored.table.rows:
        raise DataError(
            f"found {compared.get(True, 0)} positive and {compared.get(False, 0)} negative rows "
            "when their scores were read again, expected {} and {}; write the scored rows first, "
            "and compare what was written".format(*scored.table.rows)
        )
    products = np.zeros((2, len(columns), len(columns)))
    for row in found:
        for i, j in pairs:
            products[0 if row["y"] else 1, [i, j], [j, i]] = row[f"c{i}_{j}"]
    paired = PairedAUC.from_sums(np.array(aucs), class_sums, products)
    intervals = tuple(
        interval_of(value, float(paired.covariance[k, k]), class_sums, level)
        for k, value in enumerate(aucs)
    )
    return Comparison(tuple(scoreCols), paired, intervals, level)
