"""AUC of each group of scored rows."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_auc.core.evaluation.delong import auc_interval
from spark_auc.core.evaluation.measures import RankingOptions
from spark_auc.core.evaluation.report import AUCReport, GroupAUC, Groups
from spark_auc.core.evaluation.roc import auc
from spark_auc.spark.data.aggregate import record
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.features import quoted
from spark_auc.spark.data.labels import label_column
from spark_auc.spark.evaluation.score_columns import ScoreColumns, read
from spark_auc.spark.evaluation.scores import tabulated

# Most rows of a group that one task measures in its memory.
_MOST_ROWS = 1 << 20

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


def by_group(df: DataFrame, columns: ScoreColumns, column: str, level: float, count: int) -> Groups:
    """Measure the AUC of the rows of each value of a column.

    One task measures a group of at most a million rows. Larger groups are measured one by one, each
    by ranges of its scores, so that no task has all of their rows in memory.

    Parameters
    ----------
    df
        Scored rows, whose scores, labels and weights are valid.
    columns
        Names of the score, label and weight columns.
    column
        Name of the group column.
    level
        Confidence level.
    count
        Number of rows, or more.
    """
    _, positive = label_column(df, columns.label, columns.positive)

    def measure(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        table, _, _ = read(rows.to_batches(), positive)
        measures = [*table.rows, float(table.class_sums()[0].sum()), None, None, None]
        if min(table.rows):
            measures[3] = auc(table)
        if min(table.rows) > 1:
            measures[4:] = auc_interval(table, level)[1:3]
        return pa.Table.from_batches([record(_GROUP, key[0].as_py(), *measures)])

    rows = columns.select(df, group=F.col(quoted(column)).cast("string"))
    selected = ScoreColumns("score", "label", columns.positive, columns.weight and "weight")
    groups = _large(rows, selected, level) if count > _MOST_ROWS else []
    for group in groups:
        rows = rows.filter(~F.col("group").eqNullSafe(F.lit(group.value)))
    with translated():
        table = rows.groupBy("group").applyInArrow(measure, _GROUP_DDL).toArrow()
    groups += [GroupAUC(**row) for row in table.to_pylist()]
    return Groups(column, tuple(sorted(groups, key=lambda g: (g.value is None, g.value))))


def _large(rows: DataFrame, columns: ScoreColumns, level: float) -> list[GroupAUC]:
    """The groups that are too large for a task."""
    weight = F.col("weight") if columns.weight else F.lit(1.0)
    is_positive = columns.is_positive(rows)
    counts = (F.count_if(is_positive), F.count_if(~is_positive), F.sum(weight))
    with translated():
        sizes = rows.filter(weight > 0).groupBy("group").agg(*counts).collect()
    groups = []
    for value, positive, negative, total in sizes:
        if positive + negative <= _MOST_ROWS:
            continue
        measures: list[float | None] = [None, None, None]
        if min(positive, negative):
            own = rows.filter(F.col("group").eqNullSafe(F.lit(value)))
            measures = _by_ranges(own, columns, level)
        groups.append(GroupAUC(value, positive, negative, total, *measures))
    return groups


def _by_ranges(rows: DataFrame, columns: ScoreColumns, level: float) -> list[float | None]:
    """AUC and interval of rows of both classes; no interval with one row of a class."""
    options = RankingOptions(1.0, 1.0, 0.0)
    with tabulated(rows, columns) as scored:
        ranking = scored.ranking(options)
        report = AUCReport(options, ranking, scored.centre, scored.table, scored.classes, level)
    interval = report.interval[1:3] if min(scored.table.rows) > 1 else (None, None)
    return [report.auc, *interval]
