"""Score tables of a DataFrame: what every measure of a ranking is made from."""

from __future__ import annotations

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_auc.core.labels import Label, LabelCounts
from spark_auc.core.roc import ScoreTable
from spark_auc.errors import DataError
from spark_auc.spark.columns import label_column, weight_column
from spark_auc.spark.failures import translated
from spark_auc.spark.features import known_column, quoted


def score_table(
    df: DataFrame,
    score: str,
    label: str,
    positive: Label | bool | None = None,
    weight: str | None = None,
) -> tuple[ScoreTable, LabelCounts]:
    """Class weights at each distinct score, grouped on the executors.

    Parameters
    ----------
    df
        Rows with a score, a label and maybe a weight.
    score, label, weight
        Names of the columns.
    positive
        The positive label; None for 0/1 or -1/+1.

    Raises
    ------
    ConfigError
        A column is unknown or of a type that cannot serve.
    DataError
        A score, label or weight is null, NaN or infinite, a weight is not positive, or there
        are not exactly two label values.
    """
    known_column(df, score)
    labels, positive_value = label_column(df, label, positive)
    rows = df.select(
        F.col(quoted(score)).cast("double").alias("score"),
        labels.alias("label"),
        (weight_column(df, weight) if weight else F.lit(1.0)).alias("u"),
    )
    usable = (F.col("u") > 0) & (F.col("u") < float("inf"))
    grouped = rows.groupBy("score", "label").agg(
        F.sum("u").alias("weight"),
        F.sum(F.col("u") * F.col("u")).alias("squares"),
        F.count(F.lit(1)).alias("rows"),
        F.count_if(~F.coalesce(usable, F.lit(False))).alias("bad"),
    )
    with translated():
        table = grouped.toArrow()
    counts = table["rows"].to_numpy()
    nulls = [int(counts[table[c].is_null().to_numpy()].sum()) for c in ("score", "label")]
    bad = int(table["bad"].to_numpy().sum())
    if bad or any(nulls):
        raise DataError(
            f"found {nulls[0]} null scores, {nulls[1]} null labels and {bad} weights that are not "
            f"finite and positive among {counts.sum()} rows, expected none; "
            "repair or drop these rows"
        )
    values, group = np.unique(table["label"].to_numpy(), return_inverse=True)
    by_value = np.bincount(group, counts, minlength=values.size).astype(int)
    found = LabelCounts(dict(zip(values.tolist(), by_value.tolist(), strict=True)))
    is_positive = values[group] == found.classes(positive_value)[0]
    sums = np.stack([table[c].to_numpy().astype(float) for c in ("weight", "squares", "rows")])
    by_class = np.where((is_positive, ~is_positive), sums[:, np.newaxis], 0.0)
    return ScoreTable.grouped(table["score"].to_numpy(), by_class), found
