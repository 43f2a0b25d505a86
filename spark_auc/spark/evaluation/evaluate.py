"""Exact AUC of scored rows, and comparison of models on the same rows.

`spark_auc.pipeline.evaluation` computes the measures.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from spark_auc.core.evaluation.report import AUCReport
from spark_auc.core.labels import Label
from spark_auc.pipeline.comparison import Comparison, compared
from spark_auc.pipeline.evaluation import evaluated
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.nested import with_fields
from spark_auc.spark.data.spark_table import SparkTable


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
    return evaluated(
        _selected(df, scoreCol, labelCol, weightCol, groupCol),
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
    table = _selected(df, *scoreCols, labelCol, weightCol)
    return compared(table, scoreCols, labelCol, positiveLabel, weightCol, level)


def _selected(df: DataFrame, *columns: str | None) -> SparkTable:
    """The rows with these columns; Spark computes no others."""
    names = [name for name in columns if name is not None]
    df = with_fields(df, names)
    used = dict.fromkeys(known_column(df, name).name for name in names)
    return SparkTable(df.select(*map(quoted, used)))
