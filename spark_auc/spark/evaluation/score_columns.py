"""Columns of scored rows, and what a batch of them holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from spark_auc.core.batch import usable_weights
from spark_auc.core.evaluation.overview import Faults
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.labels import Label, LabelCounts
from spark_auc.errors import ConfigError
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.columns import label_column, weight_column
from spark_auc.spark.data.features import known_column, quoted

_MOST_LABELS = 10


def score_column(df: DataFrame, name: str) -> Column:
    """The score as double: a number, or the last of a vector of two as Spark ML's classifiers give.

    Raises
    ------
    ConfigError
        The column is unknown or of another type. A vector of another size fails the action.
    """
    found, column = known_column(df, name).dataType, F.col(quoted(name))
    if isinstance(found, NumericType):
        return column.cast("double")
    if not isinstance(found, VectorUDT):
        raise ConfigError(
            f"found score column {name!r} of type {found.simpleString()}; expected numbers or "
            "vectors of two; set the score's column"
        )
    elements = F.when(column.isNotNull(), vector_to_array(column))
    size = F.array_size(elements)
    text = "found %d scores a row, expected two; set the score's column"
    return checked(F.get(elements, F.lit(1)), F.when(size != 2, F.format_string(text, size)))


@dataclass(frozen=True)
class ScoreColumns:
    """Names of the columns of scored rows.

    Parameters
    ----------
    score, label
        The score, and the label.
    positive
        The positive label; None for 0/1 or -1/+1.
    weight
        The row weight, if any, 0 or as of `Batch`; a row of weight 0 counts as absent.
    """

    score: str = "rawPrediction"
    label: str = "label"
    positive: Label | bool | None = None
    weight: str | None = None

    def select(self, df: DataFrame, **others: Column) -> DataFrame:
        """Score, label and weight, and others; `ConfigError` where a column cannot serve."""
        label, _ = label_column(df, self.label, self.positive)
        chosen = {"score": self.score_column(df), "label": label} | others
        if self.weight:
            chosen["weight"] = weight_column(df, self.weight)
        return df.select(*(column.alias(name) for name, column in chosen.items()))

    def score_column(self, df: DataFrame) -> Column:
        """The score; see `score_column`."""
        return score_column(df, self.score)

    def is_positive(self, df: DataFrame) -> Column:
        """Whether a row is positive."""
        label, positive = label_column(df, self.label, self.positive)
        return label > 0 if positive is None else label == positive


def read(
    batches: list[pa.RecordBatch], positive: Label | None
) -> tuple[ScoreTable, Faults, LabelCounts]:
    """The table of the rows that can be measured, and what the others lack."""
    rows = pa.Table.from_batches(batches)
    labels = rows["label"].to_numpy()
    unknown = _unknown(rows["label"])
    counts: Counter[Label] = Counter()
    for item in _values(rows["label"].filter(pa.array(~unknown))):
        counts[item["values"].as_py()] += item["counts"].as_py()
    score, no_score = _numbers(rows["score"])
    weight, no_weight = None, np.zeros(len(score), bool)
    if "weight" in rows.column_names:
        weight, _ = _numbers(rows["weight"])
        no_weight = ~((weight == 0) | usable_weights(weight))
    infinite = ~np.isfinite(score) & ~no_score
    sums = (int(bad.sum()) for bad in (no_score, infinite, unknown, no_weight))
    faults = Faults(len(score), *sums)
    y = np.asarray(labels > 0 if positive is None else labels == positive, bool)
    good = ~(no_score | infinite | unknown | no_weight)
    if not good.all():
        score, y, weight = score[good], y[good], weight if weight is None else weight[good]
    kept = dict(sorted(counts.items(), key=lambda item: str(item[0]))[:_MOST_LABELS])
    return ScoreTable.of(score, y, weight), faults, LabelCounts(kept)


def _unknown(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Which labels are null or NaN."""
    return np.asarray(column.is_null(nan_is_null=True).to_numpy(), bool)


def _values(column: pa.ChunkedArray) -> list[dict[str, pa.Scalar]]:
    return list(column.combine_chunks().value_counts())


def _numbers(column: pa.ChunkedArray) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers, NaN where null, and where they are null."""
    return column.to_numpy().astype(float), column.is_null().to_numpy()
