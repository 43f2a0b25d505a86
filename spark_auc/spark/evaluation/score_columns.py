"""Columns of scored rows, and their batches as score tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.ml.functions import array_to_vector, vector_to_array
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
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.row_columns import label_column, weight_column

# Most label values in an error message.
_MAX_LABELS = 10


def score_column(df: DataFrame, name: str) -> Column:
    """The score as double: a number, or the second element of a vector of Spark ML's classifiers.

    Parameters
    ----------
    df
        Scored rows.
    name
        Name of the score column.

    Raises
    ------
    ConfigError
        The column is unknown, or neither numeric nor a vector column.
    DataError
        An action reads a vector whose size is not 2.
    """
    kind, column = known_column(df, name).dataType, F.col(quoted(name))
    if isinstance(kind, NumericType):
        return column.cast("double")
    if not isinstance(kind, VectorUDT):
        raise ConfigError(
            f"found score column {name!r} of type {kind.simpleString()}; expected numbers or "
            "vectors of two; set the score's column"
        )
    elements = F.when(column.isNotNull(), vector_to_array(column))
    size = F.array_size(elements)
    text = "found %d scores a row, expected two; set the score's column"
    return checked(F.get(elements, F.lit(1)), F.when(size != 2, F.format_string(text, size)))


def vector_of_two(negative: Column, positive: Column) -> Column:
    """A vector column of the numbers of both classes, as Spark ML's; null where they are null."""
    vector: Column = F.when(positive.isNotNull(), array_to_vector(F.array(negative, positive)))
    return vector


@dataclass(frozen=True)
class ScoreColumns:
    """Names of the columns of scored rows.

    Parameters
    ----------
    score, label
        Names of the score and label columns.
    positive
        The positive label; None for 0/1 or -1/+1.
    weight
        Name of the weight column; None for weight 1. A weight is 0 or within `WEIGHTS`; a row of
        weight 0 is ignored.
    """

    score: str = "rawPrediction"
    label: str = "label"
    positive: Label | bool | None = None
    weight: str | None = None

    def select(self, df: DataFrame, **others: Column) -> DataFrame:
        """Select ``score``, ``label``, ``weight`` if there is one, and other columns by name.

        Raises
        ------
        ConfigError
            A column is unknown or of an unsupported type.
        """
        label, _ = label_column(df, self.label, self.positive)
        columns = {"score": self.score_column(df), "label": label} | others
        if self.weight:
            columns["weight"] = weight_column(df, self.weight)
        return df.select(*(column.alias(name) for name, column in columns.items()))

    def score_column(self, df: DataFrame) -> Column:
        """The score as double; see `score_column`."""
        return score_column(df, self.score)

    def is_positive(self, df: DataFrame) -> Column:
        """Boolean column: whether a row is positive."""
        label, positive = label_column(df, self.label, self.positive)
        return label > 0 if positive is None else label == positive


def read(
    batches: list[pa.RecordBatch], positive: Label | None
) -> tuple[ScoreTable, Faults, LabelCounts]:
    """Decode batches of `ScoreColumns.select`.

    Parameters
    ----------
    batches
        One batch or more.
    positive
        The positive label; None for 0/1 or -1/+1.

    Returns
    -------
    ScoreTable
        Score table of the valid rows.
    Faults
        Number of rows, and of invalid scores, labels and weights.
    LabelCounts
        Number of rows of each label; of at most 10 labels.
    """
    rows = pa.Table.from_batches(batches)
    labels = rows["label"].to_numpy()
    no_label = _is_missing(rows["label"])
    counts: Counter[Label] = Counter()
    for item in _value_counts(rows["label"].filter(pa.array(~no_label))):
        counts[item["values"].as_py()] += item["counts"].as_py()
    score, no_score = _numbers(rows["score"])
    weight, no_weight = None, np.zeros(len(score), bool)
    if "weight" in rows.column_names:
        weight, _ = _numbers(rows["weight"])
        no_weight = ~((weight == 0) | usable_weights(weight))
    infinite = ~np.isfinite(score) & ~no_score
    sums = (int(invalid.sum()) for invalid in (no_score, infinite, no_label, no_weight))
    faults = Faults(len(score), *sums)
    y = np.asarray(labels > 0 if positive is None else labels == positive, bool)
    valid = ~(no_score | infinite | no_label | no_weight)
    if not valid.all():
        score, y, weight = score[valid], y[valid], weight if weight is None else weight[valid]
    label_counts = dict(sorted(counts.items(), key=lambda item: str(item[0]))[:_MAX_LABELS])
    return ScoreTable.of(score, y, weight), faults, LabelCounts(label_counts)


def _is_missing(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Whether each value is null or NaN."""
    return np.asarray(column.is_null(nan_is_null=True).to_numpy(), bool)


def _value_counts(column: pa.ChunkedArray) -> list[dict[str, pa.Scalar]]:
    return list(column.combine_chunks().value_counts())


def _numbers(column: pa.ChunkedArray) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The values, with NaN for null, and whether each value is null."""
    return column.to_numpy().astype(float), column.is_null().to_numpy()
