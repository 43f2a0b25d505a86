"""What all estimators of a linear ranker share."""

from __future__ import annotations

from pyspark.ml import Estimator
from pyspark.ml.param.shared import (
    HasLabelCol,
    HasPredictionCol,
    HasRawPredictionCol,
    HasStandardization,
)
from pyspark.sql import DataFrame

from spark_auc.spark.data.columns import FoldColumn, TrainingColumns
from spark_auc.spark.data.features import Features
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel, LinearScorer
from spark_auc.spark.persistence import Stage
from spark_auc.training.result import TrainingResult


class RankerEstimator(
    Stage,
    Estimator[LinearRankerModel],
    HasLabelCol,
    HasRawPredictionCol,
    HasPredictionCol,
    HasStandardization,
):
    """An estimator of `LinearRankerModel`; its settings extend `RankerSettings`."""

    @property
    def selects(self) -> bool:
        """Whether ``fit`` chooses a penalty on held-out folds."""
        return False

    def resolved(
        self,
        dataset: DataFrame,
        key: str | None = None,
        folds: FoldColumn | None = None,
        placed: bool = False,
    ) -> TrainingColumns:
        """The columns that the Params name; `ConfigError` if they cannot serve."""
        values = self.values()
        return TrainingColumns.resolve(
            dataset,
            Features.resolve(dataset, values["featuresCol"], values["numFeatures"]),
            values["labelCol"],
            values["positiveLabel"],
            values.get("weightCol"),
            key,
            folds,
            placed,
        )

    def made(self, result: TrainingResult, columns: TrainingColumns) -> LinearRankerModel:
        """The model of a training run on rows of these columns."""
        names = columns.features.names
        positive, negative = result.labels.classes(columns.positive)
        scorer = LinearScorer(result.w, result.threshold, positive, negative, names)
        return self._copyValues(LinearRankerModel(scorer, result.summary(names), result.moments))
