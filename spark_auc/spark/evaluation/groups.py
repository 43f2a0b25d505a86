"""AUC of each group of scored rows."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_auc.core.evaluation.delong import auc_interval
from spark_auc.core.evaluation.report import GroupAUC, Groups
from spark_auc.core.evaluation.roc import auc
from spark_auc.spark.data.aggregate import record
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.features import quoted
from spark_auc.spark.data.labels import label_column
from spark_auc.spark.evaluation.score_columns import ScoreColumns, read

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
    """Measure the AUC of the rows of each value of a column.

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
    with translated():
        table = rows.groupBy("group").applyInArrow(measure, _GROUP_DDL).toArrow()
    groups = [GroupAUC(**row) for row in table.to_pylist()]
    return Groups(column, tuple(sorted(groups, key=lambda g: (g.value is None, g.value))))
