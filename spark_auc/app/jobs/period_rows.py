"""The rows of a period in a retraining: their columns, and the moments of their folds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.raw_rows import FeaturesOf
from spark_auc.app.jobs.retrain_history import History
from spark_auc.core.labels import Label
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_auc.spark.data.columns import TrainingColumns


def training_columns(
    rows: DataFrame, config: Retrain, features: FeaturesOf, dimension: int
) -> TrainingColumns:
    """The columns of the rows, checked against their schema.

    Raises
    ------
    ConfigError
        A column is missing.
    DataError
        A column has another type.
    """
    from spark_auc.spark.data.columns import TrainingColumns

    names = config.columns
    return TrainingColumns.resolve(
        rows, features(rows, dimension), names.label, names.positiveLabel, names.weight, names.key
    )


def period_moments(
    rows: DataFrame, config: Retrain, columns: TrainingColumns, history: History, schema_id: str
) -> tuple[list[PairMoments], tuple[Label, Label] | None]:
    """The moments of a period's folds, and its two labels; None for fewer.

    Raises
    ------
    DataError
        There are no rows, a value cannot be used, or a label is not that of earlier periods.
    """
    from spark_auc.spark.retraining import fold_moments

    moments, labels = fold_moments(rows, columns, Folds(config.folds, config.seed))
    history.check_labels(schema_id, labels)
    if not labels.rows:
        raise DataError(
            "found no rows of the period, expected some; check retrain.data, or set "
            "retrain.exclude to its date"
        )
    return moments, labels.classes(columns.positive) if len(labels.rows) > 1 else None
