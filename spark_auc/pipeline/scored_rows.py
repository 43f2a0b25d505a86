"""Scores, predictions, probabilities and contributions as further columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_auc.core.labels import Label
from spark_auc.core.products import settled_scores
from spark_auc.core.types import Float
from spark_auc.pipeline.contributions import LISTED, listed, parts_of
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.serving.score_curves import Curve
from spark_auc.tables.encoders import VECTOR, encode_vectors
from spark_auc.tables.features import Features
from spark_auc.tables.segments import SegmentColumn
from spark_auc.tables.table import Batches, Table, fields_named

# Makes a column of rows from their Arrow columns and scores.
_Make = Callable[[Sequence[pa.Array], Float], pa.Array]


def scored_rows(
    table: Table,
    scorer: LinearScorer,
    features: Features,
    values: Mapping[str, Any],
    *,
    threshold: float,
    calibration: tuple[str, Curve] | None = None,
    contributions: tuple[str, int] | None = None,
    only: Sequence[str] | None = None,
) -> Table:
    """The rows with columns of scores and of what follows from them.

    Parameters
    ----------
    table
        The rows.
    scorer, features
        The ranker, and the features of the rows.
    values
        Values of the settings rawPredictionCol, predictionCol, vectorOutput and handleInvalid. A
        column without a name is not made.
    threshold
        Scores at or above it are predicted positive.
    calibration
        Name of the column of probabilities, and the map from scores to them.
    contributions
        Name of the column of a row's largest contributions, and their largest number.
    only
        Names of the columns of the rows to keep, which come first. Default: all.

    Returns
    -------
    Table
        The rows; without those that cannot be scored if handleInvalid is "skip". If it is "keep",
        these have null.

    Raises
    ------
    ConfigError
        A column is missing or of another type.
    """
    vectors, keep = values["vectorOutput"], values["handleInvalid"] == "keep"
    if values["handleInvalid"] == "skip":
        table = table.where(features.columns, features.usable)
    names = [*features.columns]
    scores = scores_of(table, scorer, features)
    if scorer.segments is not None:
        names.append(scorer.segments.column)
    number = VECTOR if vectors else pa.float64()
    made = dict[str, tuple[pa.DataType, _Make]]()

    def add(name: str | None, kind: pa.DataType, make: _Make) -> None:
        if name:
            made[name] = kind, make

    def shown(negative: Float, positive: Float) -> pa.Array:
        return encode_vectors(np.c_[negative, positive]) if vectors else pa.array(positive)

    labels, kind = _labels(scorer.negative, scorer.positive)
    add(values["rawPredictionCol"], number, lambda _, s: shown(-s, s))
    add(
        values["predictionCol"],
        kind,
        lambda _, s: labels.take(pa.array((s >= threshold).astype(np.int8))),
    )
    if calibration is not None:
        curve = calibration[1]

        def probability(_: Sequence[pa.Array], s: Float) -> pa.Array:
            p = curve.at(s)
            return shown(1 - p, p)

        add(calibration[0], number, probability)
    if contributions is not None:
        parts, count = parts_of(scorer, features, table), contributions[1]
        add(contributions[0], LISTED, lambda arrays, _: listed(*parts.explain(arrays), count))

    def columns(arrays: Sequence[pa.Array]) -> list[pa.Array]:
        made_of = scores(arrays)
        return [make(arrays, made_of) for _, make in made.values()]

    fields = [pa.field(name, kind) for name, (kind, _) in made.items()]
    function = of_usable(features, columns) if keep else columns
    if only is None:
        return table.extended(names, function, fields)
    kept = fields_named(table, only)
    schema = pa.schema([*kept, *fields])

    def rows(batches: Batches) -> Batches:
        for batch in batches:
            own, others = batch.columns[len(names) :], batch.columns[: len(names)]
            yield pa.RecordBatch.from_arrays([*own, *function(others)], schema=schema)

    return table.select([*names, *only]).map(rows, schema)


def of_usable(
    features: Features, function: Callable[[Sequence[pa.Array]], Sequence[pa.Array]]
) -> Callable[[Sequence[pa.Array]], Sequence[pa.Array]]:
    """The function on rows that can be scored; its columns are null for others.

    Parameters
    ----------
    features
        The features of the rows.
    function
        Takes the arrays of their columns, and of others after them.
    """
    width = len(features.columns)

    def columns(arrays: Sequence[pa.Array]) -> Sequence[pa.Array]:
        usable = features.usable(arrays[:width])
        if usable.all():
            return function(arrays)
        found = function([array.filter(pa.array(usable)) for array in arrays])
        places = pa.array(np.cumsum(usable) - 1, mask=~usable)
        return [column.take(places) for column in found]

    return columns


def with_scores(table: Table, rankers: Mapping[str, tuple[LinearScorer, Features]]) -> Table:
    """The rows with the scores of several rankers, a column of each by its name.

    Parameters
    ----------
    table
        The rows.
    rankers
        Each ranker, and the features of the rows.

    Raises
    ------
    ConfigError
        A segment column is missing or of another type.
    """
    for name, (scorer, features) in rankers.items():
        names = [*features.columns]
        if scorer.segments is not None:
            names.append(scorer.segments.column)
        made = _column(scores_of(table, scorer, features))
        table = table.extended(names, made, [pa.field(name, pa.float64())])
    return table


def _column(
    scores: Callable[[Sequence[pa.Array]], Float],
) -> Callable[[Sequence[pa.Array]], list[pa.Array]]:
    return lambda arrays: [pa.array(scores(arrays))]


def scores_of(
    table: Table, scorer: LinearScorer, features: Features
) -> Callable[[Sequence[pa.Array]], Float]:
    """Scores ``(n,)`` of Arrow columns: those of the features, and then that of the segments."""
    if scorer.segments is None:
        return lambda arrays: settled_scores(features.decode(arrays), scorer.w)
    name, weights = scorer.segments
    segment = SegmentColumn(name, weights.values)
    segment.check(table)

    def scores(arrays: Sequence[pa.Array]) -> Float:
        found: Float = weights.scores(features.decode(arrays[:-1]), segment.numbers(arrays[-1]))
        return found

    return scores


def _labels(negative: Label, positive: Label) -> tuple[pa.Array, pa.DataType]:
    """Both labels, and the type of predictions: that of the label if it is boolean or text."""
    kind = pa.float64()
    if isinstance(positive, bool):
        kind = pa.bool_()
    elif isinstance(positive, str):
        kind = pa.string()
    return pa.array([negative, positive], kind), kind
