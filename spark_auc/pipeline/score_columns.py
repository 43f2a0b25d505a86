"""Columns of scored rows, and their batches as score tables."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_auc.core.batch import usable_weights
from spark_auc.core.evaluation.overview import Faults
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.labels import Label, LabelCounts, rest_of
from spark_auc.errors import ConfigError, DataError
from spark_auc.tables.columns import check_weights
from spark_auc.tables.decoders import as_doubles, decode
from spark_auc.tables.labels import is_positive, label_values, positive_label
from spark_auc.tables.table import Table, field_of
from spark_auc.tables.types import is_number, is_vector, shown_type

_log = logging.getLogger(__name__)

# Most label values in an error message.
_MAX_LABELS = 10


@dataclass(frozen=True)
class ScoreColumns:
    """Names of the columns of scored rows.

    Parameters
    ----------
    score, label
        Names of the score and label columns. A score is a number, or the second element of a
        vector of Spark ML's classifiers.
    positive
        The positive label; None for 0/1 or -1/+1.
    weight
        Name of the weight column; None for weight 1. A weight is 0 or within `WEIGHTS`; a row of
        weight 0 is ignored.
    negative
        The negative label of the training; None if it is not known.
    """

    score: str = "rawPrediction"
    label: str = "label"
    positive: Label | bool | None = None
    weight: str | None = None
    negative: Label | None = None

    @property
    def names(self) -> list[str]:
        """The names."""
        return [self.score, self.label, *([self.weight] if self.weight else [])]

    def checked(self, table: Table) -> Label | None:
        """The positive label; `ConfigError` if a column is unknown or of an unsupported type."""
        check_score(table, self.score)
        if self.weight:
            check_weights(table, self.weight)
        return positive_label(table, self.label, self.positive)

    def classes(self, labels: LabelCounts, positive: Label | None) -> tuple[Label, Label]:
        """The positive and the negative label; the log warns of labels that may be new.

        Parameters
        ----------
        labels
            Number of rows of each label.
        positive
            The positive label, of the type of the values; see `checked`.

        Raises
        ------
        DataError
            There are not two classes, or labels that the training did not have.
        """
        classes = labels.classes(positive)
        known = {classes[0], self.negative}
        # Of labels 0/1 and -1/+1 the negative ones are one class.
        known |= {0.0, -1.0} if {0.0, -1.0} & known else set()
        others = [label for label in labels.rows if label not in known]
        if self.negative is None or not others:
            return classes
        found = ", ".join(f"{label!r} ({labels.rows[label]} rows)" for label in others)
        if self.negative == rest_of(classes[0]):
            # A model of one of several numbers against the rest has the same negative label.
            if not isinstance(self.negative, str):
                words = "found the labels %s beside %r and %r: they count as negative"
                _log.warning(words, found, classes[0], self.negative)
            return classes
        raise DataError(
            f"found the labels {found}, expected {classes[0]!r} (positive) or {self.negative!r} as "
            "in the training; correct the rows, or leave them out"
        )


def check_score(table: Table, name: str) -> None:
    """`ConfigError` if a score column is unknown, or neither of numbers nor of vectors."""
    score = field_of(table, name)
    if not is_number(score.type) and not is_vector(score.type):
        raise ConfigError(
            f"found score column {name!r} of type {shown_type(score)}; expected numbers or "
            "vectors of two; set the score's column"
        )


def score_values(array: pa.Array) -> pa.Array:
    """Scores as doubles; `DataError` for a vector whose size is not 2."""
    if not is_vector(array.type):
        return as_doubles(array)
    present = array.drop_null()
    try:
        X = decode("vector", [present], ["score"], 2, missing=True)
    except DataError as error:
        raise DataError(
            f"found vectors of another size as scores ({error}), expected two numbers a row; set "
            "the score's column"
        ) from None
    second = X[:, 1] if isinstance(X, np.ndarray) else X[:, [1]].toarray()[:, 0]
    places = np.cumsum(array.is_valid().to_numpy(zero_copy_only=False)) - 1
    missing = array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(second).take(pa.array(places, mask=missing))


def read(
    batches: list[pa.RecordBatch], positive: Label | None
) -> tuple[ScoreTable, Faults, LabelCounts]:
    """Decode batches of `ScoreColumns.of`.

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
    columns = [column.combine_chunks() for column in pa.Table.from_batches(batches).columns]
    labels = label_values(columns[1])
    no_label = np.asarray(labels.is_null(nan_is_null=True).to_numpy(zero_copy_only=False), bool)
    counts: Counter[Label] = Counter()
    for item in labels.filter(pa.array(~no_label)).value_counts():
        counts[item["values"].as_py()] += item["counts"].as_py()
    scores = score_values(columns[0])
    score, no_score = _numbers(scores), scores.is_null().to_numpy(zero_copy_only=False)
    weight, no_weight = None, np.zeros(len(score), bool)
    if len(columns) > 2:
        weight = _numbers(as_doubles(columns[2]))
        no_weight = ~((weight == 0) | usable_weights(weight))
    infinite = ~np.isfinite(score) & ~no_score
    sums = (int(invalid.sum()) for invalid in (no_score, infinite, no_label, no_weight))
    faults = Faults(len(score), *sums)
    y = is_positive(labels, positive)
    valid = ~(no_score | infinite | no_label | no_weight)
    if not valid.all():
        score, y, weight = score[valid], y[valid], weight if weight is None else weight[valid]
    label_counts = dict(sorted(counts.items(), key=lambda item: str(item[0]))[:_MAX_LABELS])
    return ScoreTable.of(score, y, weight), faults, LabelCounts(label_counts)


def _numbers(column: pa.Array) -> NDArray[np.float64]:
    """The values, with NaN for null."""
    return np.asarray(column.fill_null(np.nan).to_numpy(zero_copy_only=False), float)
