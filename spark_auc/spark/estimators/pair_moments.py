"""What the estimators on pair moments share."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from pyspark.sql import DataFrame

from spark_auc.core.sampling.folds import Folds
from spark_auc.spark.data.columns import FoldColumn, TrainingColumns
from spark_auc.spark.data.rows import DistributedRows
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.ranker import RankerEstimator
from spark_auc.spark.params import TrainingParams
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Estimation, Sampling
from spark_auc.training.train import train


class PairMomentsEstimator(RankerEstimator, TrainingParams):
    """Trains on pair moments."""

    def penalties(self) -> tuple[tuple[float, ...] | None, tuple[float, ...]]:
        """Values of regParam, None for a grid of the data's own, and of elasticNetParam."""
        raise NotImplementedError

    def _settings(self) -> TrainingSettings:
        self.check_folds()
        regs, mixes = self.penalties()
        pairs = self.getOrDefault(self.numPairs)
        return TrainingSettings(
            sampling=Sampling(
                cast(Estimation, self.getOrDefault(self.estimator)),
                0 if pairs == "auto" else pairs,
                self.getSeed(),
            ),
            pair_tolerance=self.getOrDefault(self.pairTol),
            batch_size=self.getOrDefault(self.batchSize),
            reg_params=regs,
            elastic_net_params=mixes,
            folds=Folds(self.getOrDefault(self.numFolds), self.getSeed()),
            one_standard_error=self.getOrDefault(self.selectionRule) == "oneStandardError",
            standardize=self.getOrDefault(self.standardization),
            tol=self.getTol(),
            max_iter=self.getMaxIter(),
            on_failure=self.onFailure(),
            keep_moments=self.getOrDefault(self.keepMoments),
        )

    def _fit(self, dataset: DataFrame) -> LinearRankerModel:
        settings = self._settings()
        folds, name = None, self.optional(self.foldCol)
        if name and not settings.candidate:
            folds = FoldColumn.found(dataset, name)
            settings = replace(settings, folds=Folds.given(tuple(map(str, folds.values))))
        drawn = settings.sampling.estimator != "exact"
        columns = self.resolved(dataset, self.optional(self.keyCol), folds, placed=drawn)
        return self.made(train(DistributedRows.of(dataset, columns), settings), columns)

    def made(self, result: TrainingResult, columns: TrainingColumns) -> LinearRankerModel:
        """See `RankerEstimator.made`; the model has the penalty of its weights."""
        model = super().made(result, columns)
        assert result.penalty is not None
        chosen = result.penalty
        model._set(regParam=chosen.regParam, elasticNetParam=chosen.elasticNetParam)
        return model
