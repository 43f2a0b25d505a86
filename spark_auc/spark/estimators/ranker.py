"""What the estimators share: from Params and a DataFrame to columns, from weights to a model."""

from __future__ import annotations

from pyspark.ml import Estimator
from pyspark.sql import DataFrame

from spark_auc.spark.data.columns import FoldColumn, TrainingColumns
from spark_auc.spark.data.features import Features
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel, LinearScorer
from spark_auc.spark.params import RankerParams
from spark_auc.spark.persistence import Stage
from spark_auc.training.result import TrainingResult


class RankerEstimator(Estimator[LinearRankerModel], RankerParams, Stage):
    """An estimator of `LinearRankerModel`."""

    def resolved(
        self,
        dataset: DataFrame,
        key: str | None = None,
        folds: FoldColumn | None = None,
        placed: bool = False,
    ) -> TrainingColumns:
        """The columns that the Params name; `ConfigError` if they cannot serve."""
        features = Features.resolve(
            dataset, self.getOrDefault(self.featuresCol), self.optional(self.numFeatures)
        )
        return TrainingColumns.resolve(
            dataset,
            features,
            self.getLabelCol(),
            self.optional(self.positiveLabel),
            self.optional(self.weightCol),
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
