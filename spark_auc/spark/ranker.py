"""What the estimators share: from Params and a DataFrame to columns, from weights to a model."""

from __future__ import annotations

from typing import Any

from pyspark.ml import Estimator
from pyspark.sql import DataFrame

from spark_auc.core.column_moments import ColumnMoments
from spark_auc.core.gaussian import class_ratio_threshold, estimated_auc
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments import PairMoments
from spark_auc.online.learner import Float
from spark_auc.spark.columns import FoldColumn, TrainingColumns
from spark_auc.spark.features import Features
from spark_auc.spark.model import LinearScorer, MBAModel
from spark_auc.spark.params import RankerParams
from spark_auc.spark.persistence import Stage
from spark_auc.spark.summary import TrainingSummary, largest_weights


class Ranker(Estimator[MBAModel], RankerParams, Stage):
    """An estimator of `MBAModel`."""

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

    def made(
        self,
        w: Float,
        scores: ColumnMoments,
        labels: LabelCounts,
        columns: TrainingColumns,
        surveyed: ColumnMoments,
        moments: PairMoments | None = None,
        **facts: Any,
    ) -> MBAModel:
        """The model of weights ``(d,)`` of raw columns.

        Parameters
        ----------
        w
            The weights.
        scores
            Moments of the training rows' scores, as one column.
        labels, columns
            The training rows' label values, and their columns.
        surveyed
            Their column moments.
        moments
            Their pair moments, where the model is to hold them.
        facts
            What else the summary tells.
        """
        names = columns.features.names
        summary = TrainingSummary(
            rows={str(value): count for value, count in labels.rows.items()},
            positive_weight=float(surveyed.weight[0]),
            negative_weight=float(surveyed.weight[1]),
            largest_weights=largest_weights(w, surveyed.standard_deviation(), names),
            nonzeros=int((w != 0).sum()),
            estimated_auc=estimated_auc(scores),
            **facts,
        )
        positive, negative = labels.classes(columns.positive)
        scorer = LinearScorer(w, class_ratio_threshold(scores), positive, negative, names)
        return self._copyValues(MBAModel(scorer, summary, moments))
