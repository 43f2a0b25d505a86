"""What a retraining does with the rows of a period: their moments by fold, and rankers' scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import Label, LabelCounts
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import State
from spark_auc.core.sampling.folds import Folds
from spark_auc.features.token_names import FeatureNames
from spark_auc.pipeline.estimators import MBAEstimator
from spark_auc.pipeline.models import FittedRecipe, PipelineModel, Ranker
from spark_auc.pipeline.one_pass import model_of, solved
from spark_auc.pipeline.recipe_ranker import suited
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.pipeline.score_groups import by_group
from spark_auc.pipeline.score_tables import tabulated
from spark_auc.pipeline.scored_rows import scores_of
from spark_auc.tables.columns import TrainingColumns, check_weights
from spark_auc.tables.decoders import as_doubles
from spark_auc.tables.labels import is_positive, label_values, positive_label
from spark_auc.tables.rows import TableRows
from spark_auc.tables.segments import SegmentColumn
from spark_auc.tables.table import Batches, Table, field_of
from spark_auc.tables.types import is_text, of_values
from spark_auc.training.fold_moments import moments_of_folds
from spark_auc.training.prior import Prior
from spark_auc.training.segment_moments import moments_of_segments
from spark_auc.training.segments import REST
from spark_auc.training.stream_statistics import StreamStatistics

T = TypeVar("T", bound=Table)

# Column of the segments of scored rows.
SEGMENT = "segment"


def fold_moments(
    rows: Table, columns: TrainingColumns, folds: Folds
) -> tuple[dict[str, list[PairMoments]], LabelCounts]:
    """The moments of each fold's rows, which may lack a class, and the number of rows by label.

    Parameters
    ----------
    rows, columns
        The rows and their columns. Without a segment column, all rows are of no segment.
    folds
        The fold of each row.

    Returns
    -------
    moments
        By segment, and under `REST` those of rows of no segment.
    labels
        Number of rows of each label.

    Raises
    ------
    DataError
        A value cannot be used.
    ResourceError
        The moments do not fit in memory.
    """
    of_any_class = TableRows.of_any_class(rows, columns)
    if columns.segments is not None:
        return moments_of_segments(of_any_class, folds, columns.segments.values)
    moments, labels, _ = moments_of_folds(of_any_class, folds, range(folds.count))
    return {REST: moments}, labels


def trained(
    moments: PairMoments,
    labels: tuple[Label, Label],
    columns: TrainingColumns,
    params: Mapping[str, Any],
    prior: Prior | None = None,
) -> Ranker:
    """The ranker of moments, with settings of `MBAEstimator` for one penalty.

    Parameters
    ----------
    moments
        Pair moments of the training rows.
    labels
        The positive and the negative label.
    columns
        Columns of rows like those that the moments were made of.
    params
        Penalty, standardization, tolerance and names of columns.
    prior
        Centre of the penalty. Default: 0.

    Raises
    ------
    ConvergenceError
        The solver did not reach its tolerance.
    """
    rows = moments.positive.rows, moments.negative.rows
    counts = LabelCounts(dict(zip(labels, rows, strict=True)))
    statistics = StreamStatistics(moments, counts, ScoreHistogram.zero())
    ranker: Ranker = model_of(statistics, columns, MBAEstimator(**params), prior=prior)
    return ranker


def retrained(
    model: PipelineModel, moments: PairMoments, params: Mapping[str, Any]
) -> PipelineModel:
    """A model of other moments of the same features and labels, without names of tokens.

    Parameters
    ----------
    model
        A model with a recipe or of prepared features. Counts of the rows of the recipe's fit are
        left out.
    moments
        Pair moments of the training rows.
    params
        See `trained`.

    Raises
    ------
    ConvergenceError
        The solver did not reach its tolerance.
    """
    old, recipe = model.ranker.scorer, model.recipe
    rows = moments.positive.rows, moments.negative.rows
    counts = LabelCounts(dict(zip((old.positive, old.negative), rows, strict=True)))
    stage = None if recipe is None else FittedRecipe(recipe)
    estimator = suited(MBAEstimator(**params), stage)
    result = solved(moments, counts, estimator)
    labels = old.names if recipe is None else FeatureNames(recipe)
    ranker = estimator.model_from(result, old.positive, old.names, labels)
    return PipelineModel(ranker, stage)


def scored(
    table: T,
    models: Mapping[str, PipelineModel],
    label: str,
    positive: Label | None,
    weight: str | None,
    segments: SegmentColumn | None = None,
) -> T:
    """The labels and weights of rows, the scores of several models, and segments.

    Returns
    -------
    Table
        ``label`` (text or doubles) and ``weight``, a column of each model by its name and, with
        segments, `SEGMENT`.
    """
    positive_label(table, label, positive)
    if weight is not None:
        check_weights(table, weight)
    names, uses = [label, *([weight] if weight else [])], list[tuple[slice, Any]]()
    fields = [
        pa.field(
            "label",
            pa.string() if is_text(of_values(field_of(table, label).type)) else pa.float64(),
        ),
        pa.field("weight", pa.float64()),
    ]
    for name, model in models.items():
        features, scorer = model.features(table), model.ranker.scorer
        own = [*features.columns, *([scorer.segments.column] if scorer.segments else [])]
        uses.append((slice(len(names), len(names) + len(own)), scores_of(table, scorer, features)))
        names += own
        fields.append(pa.field(name, pa.float64()))
    if segments is not None:
        names.append(segments.column)
        fields.append(pa.field(SEGMENT, pa.string()))
    schema = pa.schema(fields)

    def made(batches: Batches) -> Batches:
        for batch in batches:
            given = batch.columns
            weights = pa.array(np.ones(batch.num_rows)) if weight is None else as_doubles(given[1])
            scores = [pa.array(score(given[place])) for place, score in uses]
            listed = [] if segments is None else [segments.listed(given[-1])]
            arrays = [label_values(given[0]), weights, *scores, *listed]
            yield pa.RecordBatch.from_arrays(
                [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)],
                schema=schema,
            )

    return table.select(names).map(made, schema)


def segment_aucs(
    table: Table, names: Sequence[str], positive: Label | None, count: int
) -> dict[str, Any]:
    """Rows and AUC of each segment by some of the scores of `scored`, as JSON types.

    ``count`` is the number of rows.
    """
    found: dict[str, Any] = {}
    known = table.where([SEGMENT], lambda arrays: arrays[0].is_valid().to_numpy(False))
    for name in names:
        columns = ScoreColumns(name, "label", positive, "weight")
        for group in by_group(known, columns, SEGMENT, 0.95, count).rows:
            entry = {"rows": [group.positive, group.negative], "auc": {}}
            found.setdefault(str(group.value), entry)["auc"][name] = group.auc
    return found


def rows_by_class(
    table: Table, label: str, positive: Label | None, weight: str | None = None
) -> tuple[int, int]:
    """Number of positive and of negative rows; rows without a label, or of weight 0, do not count.

    Parameters
    ----------
    table
        The rows.
    label, positive, weight
        Label column, positive label, and weight column.
    """
    value = positive_label(table, label, positive)

    def fold(batches: Batches) -> Iterator[tuple[str, State]]:
        positives = rows = 0
        for batch in batches:
            labels = label_values(batch.column(0))
            counts = pc.invert(labels.is_null(nan_is_null=True))
            if weight:
                weights = pc.fill_null(as_doubles(batch.column(1)), 0.0)
                counts = pc.and_(counts, pc.not_equal(weights, 0.0))
            known = labels.filter(counts)
            positives += int(is_positive(known, value).sum())
            rows += len(known)
        yield "rows", LabelCounts({1.0: positives, 0.0: rows - positives})

    states = table.select([label, *([weight] if weight else [])]).fold(
        fold, (LabelCounts,), state_bytes=16, what="rows of two classes"
    )
    found = states.get("rows", LabelCounts())
    assert isinstance(found, LabelCounts)
    return found.rows.get(1.0, 0), found.rows.get(0.0, 0)


def score_histogram(table: Table, name: str, positive: Label | None) -> ScoreHistogram:
    """Histogram of one of the scores of `scored`."""
    columns = ScoreColumns(name, "label", positive, "weight")
    with tabulated(table, columns, keep=False) as scores:
        return scores.overview.histogram
