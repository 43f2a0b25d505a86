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
from spark_auc.spark.data.features import Features, PreparedFeatures
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.scorer import LinearScorer
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

    def fitted(self, dataset: DataFrame, features: Features | None = None) -> LinearRankerModel:
        """Train on the rows of a DataFrame.

        Parameters
        ----------
        dataset
            The rows.
        features
            The features of its rows. Default: the columns that the Params name.
        """
        raise NotImplementedError

    def _fit(self, dataset: DataFrame) -> LinearRankerModel:
        return self.fitted(dataset)

    def resolved(
        self,
        dataset: DataFrame,
        features: Features | None = None,
        key: str | None = None,
        folds: FoldColumn | None = None,
        placed: bool = False,
    ) -> TrainingColumns:
        """The columns of training; `ConfigError` if they cannot serve.

        Parameters
        ----------
        dataset
            The rows.
        features
            See `fitted`.
        key, folds, placed
            See `TrainingColumns`.
        """
        values = self.values()
        if features is None:
            features = PreparedFeatures.resolve(
                dataset, values["featuresCol"], values["numFeatures"]
            )
        return TrainingColumns.resolve(
            dataset,
            features,
            values["labelCol"],
            values["positiveLabel"],
            values.get("weightCol"),
            key,
            folds,
            placed,
        )

    def made(self, result: TrainingResult, columns: TrainingColumns) -> LinearRankerModel:
        """The model of a training run on rows of these columns."""
        features = columns.features
        positive, negative = result.labels.classes(columns.positive)
        scorer = LinearScorer(result.w, result.threshold, positive, negative, features.names)
        summary = result.summary(features.labels())
        return self._copyValues(LinearRankerModel(scorer, summary, result.moments))
