"""Exact AUC of scored rows, and comparison of models on the same rows.

`spark_auc.pipeline.evaluation` computes the measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from typing import cast

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_auc.core import html
from spark_auc.core.evaluation.delong import AUCInterval, interval_of
from spark_auc.core.evaluation.paired_auc import AUCDifference, PairedAUC
from spark_auc.core.evaluation.report import AUCReport
from spark_auc.core.labels import Label
from spark_auc.errors import ConfigError, DataError
from spark_auc.pipeline.evaluation import evaluated, ranking_options
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.pipeline.score_tables import tabulated
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.nested import with_fields
from spark_auc.spark.data.row_columns import label_column, weight_column
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.evaluation.score_columns import score_column


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
        Rows with a score, a label and optionally a weight.
    scoreCol
        Score column: a number, or a vector of two elements as of Spark ML's classifiers.
    labelCol, positiveLabel
        Label column of 0/1, -1/+1, or any two values if positiveLabel is set.
    weightCol
        Column of sampling weights >= 0; None for weight 1.
    groupCol
        Column of groups (users, advertisers, days) whose AUCs to measure too: each value of text,
        numbers, booleans or times is a group. The rows are sorted in another pass, above a million
        rows with a sample in one more.
    level
        Confidence level, in (0, 1).
    probabilities
        Whether scores are probabilities of the positive class, whose log loss and calibration are
        measured too.
    exact
        Whether to measure the exact scores. If false, a histogram of ``maxBins`` bins is measured:
        no rows are kept, and the report has bounds of the exact AUC.
    maxBins
        Largest number of bins of the histogram.
    maxFPR
        Largest false positive rate of the partial AUC, in (0, 1].
    costRatio
        Cost of a false negative divided by that of a false positive, for the threshold "cost".
    fprBudget
        Largest false positive rate of the threshold "fprBudget", in [0, 1].

    Returns
    -------
    AUCReport
        The AUC with its confidence interval, curves, thresholds and the AUCs of the groups.

    Raises
    ------
    ConfigError
        A column is unknown or of an unsupported type, or a parameter is out of range.
    DataError
        A score, label or weight is invalid, or the rows do not have two classes; the message
        contains counts.

    Examples
    --------
    >>> from spark_auc import evaluate
    >>> report = evaluate(rows, scoreCol="age")
    >>> round(report.auc, 2)
    0.65
    >>> report.interval.lower < report.auc < report.interval.upper
    True
    """
    columns = ScoreColumns(scoreCol, labelCol, positiveLabel, weightCol)
    names = [name for name in (scoreCol, labelCol, weightCol, groupCol) if name is not None]
    df = with_fields(df, names)
    # Without others, such as lines of text whose fields Spark has computed already.
    used = dict.fromkeys(known_column(df, name).name for name in names)
    return evaluated(
        SparkTable(df.select(*map(quoted, used))),
        columns,
        groupCol=groupCol,
        level=level,
        probabilities=probabilities,
        exact=exact,
        maxBins=maxBins,
        maxFPR=maxFPR,
        costRatio=costRatio,
        fprBudget=fprBudget,
    )


@dataclass(frozen=True, eq=False)
class Comparison:
    """AUCs of several models on the same rows.

    Parameters
    ----------
    names
        Names of the score columns.
    paired
        AUCs, and DeLong's estimate of their covariance.
    intervals
        AUC and confidence interval of each score column.
    level
        Confidence level.
    """

    names: tuple[str, ...]
    paired: PairedAUC
    intervals: tuple[AUCInterval, ...]
    level: float

    def _repr_html_(self) -> str:
        rows = [
            (n, i.auc, i.lower, i.upper) for n, i in zip(self.names, self.intervals, strict=True)
        ]
        pairs = [
            (f"{first} - {second}", *self.difference(first, second))
            for first, second in combinations(self.names, 2)
        ]
        return html.page(
            f"AUC on the same rows, {self.level:.0%} intervals",
            html.table(["score", "AUC", "lower", "upper"], rows),
            html.table(["difference", "AUC", "lower", "upper", "z", "p-value"], pairs),
        )

    def difference(self, first: str, second: str) -> AUCDifference:
        """Difference of two AUCs with its confidence interval and test.

        Parameters
        ----------
        first, second
            Names of the score columns; the difference is AUC(first) - AUC(second).
        """
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
        Rows with several scores, a label and optionally a weight. They are read once; scores,
        labels and weights are kept on the executors' disks during the comparison.
    scoreCols
        Names of two or more score columns.
    labelCol, positiveLabel, weightCol, level
        See `evaluate`.

    Returns
    -------
    Comparison
        AUCs, intervals and covariance of the score columns.

    Raises
    ------
    ConfigError
        See `evaluate`.
    DataError
        See `evaluate`; also if a class has fewer than two rows, or if Spark computed rows again
        with other scores.

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
    options = ranking_options(1.0, 1.0, 0.0, level)
    df = with_fields(df, [*scoreCols, labelCol, weightCol])
    # All passes read these cached rows: rows that are scored again can have other scores.
    of_scores = {f"s{k}": score_column(df, name) for k, name in enumerate(scoreCols)}
    label, positive = label_column(df, labelCol, positiveLabel)
    chosen = {**of_scores, "label": label}
    if weightCol:
        chosen["weight"] = weight_column(df, weightCol)
    cached = df.select(*(c.alias(n) for n, c in chosen.items())).persist(StorageLevel.DISK_ONLY)
    weight = "weight" if weightCol else None
    columns = [ScoreColumns(name, "label", positiveLabel, weight) for name in of_scores]
    u = F.col("weight") if weight else F.lit(1.0)
    y = F.col("label") > 0 if positive is None else F.col("label") == F.lit(positive)
    rows, table = cached.select("*", u.alias("u"), y.alias("y")), SparkTable(cached)
    aucs = []
    with ExitStack() as stack:
        stack.callback(cached.unpersist)
        for k, model in enumerate(columns):
            scored = stack.enter_context(tabulated(table, model, what=scoreCols[k]))
            aucs.append(scored.ranking(options).auc)
            placements = (
                cast(SparkTable, scored.placements()).rows().toDF(f"s{k}", f"p{k}", f"n{k}")
            )
            rows = rows.join(placements, f"s{k}")
        for k, value in enumerate(aucs):
            placement = F.when(F.col("y"), F.col(f"p{k}")).otherwise(F.col(f"n{k}"))
            rows = rows.withColumn(f"v{k}", placement - F.lit(value))
        pairs = list(combinations_with_replacement(range(len(columns)), 2))
        sums = [F.sum(F.expr(f"u * u * v{i} * v{j}")).alias(f"c{i}_{j}") for i, j in pairs]
        count = F.count_if(F.col("u") > 0).alias("rows")
        with translated():
            class_rows = rows.groupBy("y").agg(count, *sums).toArrow().to_pylist()
    class_sums = scored.table.class_sums()
    counts = {row["y"]: row["rows"] for row in class_rows}
    if (counts.get(True, 0), counts.get(False, 0)) != scored.table.rows:
        raise DataError(
            f"found {counts.get(True, 0)} positive and {counts.get(False, 0)} negative rows "
            "when their scores were read again, expected {} and {}; write the scored rows first, "
            "and compare the written rows".format(*scored.table.rows)
        )
    products = np.zeros((2, len(columns), len(columns)))
    for row in class_rows:
        for i, j in pairs:
            products[0 if row["y"] else 1, [i, j], [j, i]] = row[f"c{i}_{j}"]
    paired = PairedAUC.from_sums(np.array(aucs), class_sums, products)
    intervals = tuple(
        interval_of(value, float(paired.covariance[k, k]), class_sums, level)
        for k, value in enumerate(aucs)
    )
    return Comparison(tuple(scoreCols), paired, intervals, level)
