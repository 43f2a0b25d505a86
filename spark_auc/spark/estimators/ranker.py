"""The estimators of a linear ranker as stages of Spark ML."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.ml import Estimator

from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError
from spark_auc.pipeline.pair_moments_fit import PairMomentsFit
from spark_auc.pipeline.prior_settings import FittedRanker
from spark_auc.pipeline.ranker_fit import FoldsFit, RankerFit
from spark_auc.pipeline.ranker_settings import OUTPUTS
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.persistence import EstimatorStage
from spark_auc.tables.columns import TrainingColumns
from spark_auc.training.result import TrainingResult
from spark_auc.training.summary import TrainingSummary


class RankerEstimator(
    RankerFit,
    EstimatorStage,
    Estimator[LinearRankerModel],
):
    """An estimator of `LinearRankerModel`; its settings extend `RankerSettings`."""

    OUTPUTS = OUTPUTS

    def ranker_model(
        self, scorer: LinearScorer, summary: TrainingSummary, moments: PairMoments | None
    ) -> LinearRankerModel:
        """See `RankerFit.ranker_model`."""
        return self._copyValues(LinearRankerModel(scorer, summary, moments))

    def made(self, result: TrainingResult, columns: TrainingColumns) -> LinearRankerModel:
        """See `RankerFit.made`."""
        model: LinearRankerModel = super().made(result, columns)
        return model

    def loaded_prior(self, path: str) -> FittedRanker:
        """See `RankerFit.loaded_prior`."""
        model: LinearRankerModel = LinearRankerModel.load(path)
        return model

    def _saved(self) -> tuple[pa.Table | None, dict[str, Any]]:
        if self.has_prior and not isinstance(self.values()["prior"], str):
            raise ConfigError(
                "found a model as the prior of an estimator to save, expected the path of a saved "
                "LinearRankerModel; save the model and set prior to its path"
            )
        return super()._saved()


class FoldsEstimator(FoldsFit, RankerEstimator):
    """See `FoldsFit`."""


class PairMomentsEstimator(PairMomentsFit, FoldsEstimator):
    """Trains on pair moments; its settings extend `PairMomentsSettings`."""
