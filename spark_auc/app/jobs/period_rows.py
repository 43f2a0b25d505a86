"""Rows for the store of moments: their columns, and the moments of a period's folds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.config.sections import Columns
from spark_auc.app.jobs.raw_rows import FeaturesOf
from spark_auc.app.jobs.retrain_history import History
from spark_auc.core.labels import Label
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import DataError

if TYPE_CHECKING:
    from spark_auc.store.facts import Facts
    from spark_auc.store.rows import Segments
    from spark_auc.tables.columns import TrainingColumns
    from spark_auc.tables.table import Table


def training_columns(
    rows: Table, names: Columns, features: FeaturesOf, facts: Facts
) -> TrainingColumns:
    """The columns of the rows, with that of their segments, checked against their schema.

    Raises
    ------
    ConfigError
        A column is missing.
    DataError
        A column has another type.
    """
    from spark_auc.tables.columns import TrainingColumns
    from spark_auc.tables.segments import SegmentColumn

    made = features(rows, facts.dimension)
    columns = TrainingColumns.resolve(
        rows, made, names.label, names.positiveLabel, names.weight, names.key
    )
    if facts.segment_column is None:
        return columns
    segments = SegmentColumn(facts.segment_column, facts.segments)
    segments.check(rows)
    return replace(columns, segments=segments)


def period_moments(
    rows: Table, config: Retrain, columns: TrainingColumns, history: History, schema_id: str
) -> tuple[Segments, tuple[Label, Label] | None]:
    """The moments of a period's segments and folds, and its two labels; None for fewer.

    Raises
    ------
    DataError
        There are no rows, a value cannot be used, or a label is not that of earlier periods.
    """
    from spark_auc.pipeline.retraining import fold_moments

    moments, labels = fold_moments(rows, columns, Folds(config.folds, config.seed))
    history.check_labels(schema_id, labels)
    if not labels.rows:
        raise DataError(
            "found no rows of the period, expected some; check retrain.data, or set "
            "retrain.exclude to its date"
        )
    return moments, labels.classes(columns.positive) if len(labels.rows) > 1 else None
