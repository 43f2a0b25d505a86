"""What the estimators on pair moments share."""

from __future__ import annotations

from dataclasses import replace

from pyspark.ml.param.shared import HasMaxIter, HasSeed, HasTol, HasWeightCol
from pyspark.sql import DataFrame

from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError
from spark_auc.spark.data.columns import FoldColumn, TrainingColumns
from spark_auc.spark.data.features import Features
from spark_auc.spark.data.rows import DistributedRows
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.ranker import RankerEstimator
from spark_auc.spark.estimators.segments import segmented
from spark_auc.spark.estimators.settings import PairMomentsSettings
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling
from spark_auc.training.train import train


class PairMomentsEstimator(RankerEstimator, HasWeightCol, HasSeed, HasTol, HasMaxIter):
    """Trains on pair moments; its settings extend `PairMomentsSettings`."""

    def penalties(self) -> tuple[tuple[float, ...] | None, tuple[float, ...]]:
        """Candidates for regParam (None: a grid computed from the data) and elasticNetParam."""
        raise NotImplementedError

    @property
    def selects(self) -> bool:
        """See `RankerEstimator.selects`."""
        regs, mixes = self.penalties()
        return regs is None or len(regs) * len(mixes) != 1

    def check(self) -> None:
        """See `Configured.check`."""
        values: PairMomentsSettings = self.values()
        drawn = values["estimator"] != "exact"
        if not drawn:
            self.refuse("estimator 'exact'", "numPairs", "batchSize", "pairTol")
        else:
            self.refuse(f"estimator {values['estimator']!r}", "segmentCol")
            if values["numPairs"] != "auto":
                self.refuse(f"numPairs {values['numPairs']}", "pairTol")
        if not self.selects:
            self.refuse("a single penalty", "selectionRule")
            if values["segmentCol"] is None:
                self.refuse("a single penalty", "numFolds", "foldCol")
                if not drawn:
                    self.refuse("a single penalty and estimator 'exact'", "keyCol", "seed")
        if values["foldCol"] is not None and self.isSet("numFolds"):
            raise ConfigError(
                f"found foldCol {values['foldCol']!r} and numFolds {values['numFolds']}, expected "
                "one of them; leave out numFolds to use folds of your own"
            )

    def _settings(self) -> TrainingSettings:
        self.check()
        values: PairMomentsSettings = self.values()
        regs, mixes = self.penalties()
        pairs, seed = values["numPairs"], values["seed"]
        return TrainingSettings(
            sampling=Sampling(values["estimator"], 0 if pairs == "auto" else pairs, seed),
            pair_tolerance=values["pairTol"],
            batch_size=values["batchSize"],
            reg_params=regs,
            elastic_net_params=mixes,
            folds=Folds(values["numFolds"], seed),
            one_standard_error=values["selectionRule"] == "oneStandardError",
            standardize=values["standardization"],
            tol=values["tol"],
            max_iter=values["maxIter"],
            on_failure=values["whenNotConverged"],
            keep_moments=values["keepMoments"],
        )

    def fitted(self, dataset: DataFrame, features: Features | None = None) -> LinearRankerModel:
        """See `RankerEstimator.fitted`."""
        settings = self._settings()
        values: PairMomentsSettings = self.values()
        folds, name = None, values["foldCol"]
        if name:
            folds = FoldColumn.of(dataset, name)
            settings = replace(settings, folds=Folds.named(tuple(map(str, folds.values))))
        drawn = settings.sampling.estimator != "exact"
        columns = self.resolved(dataset, features, values["keyCol"], folds, placed=drawn)
        result = train(DistributedRows.of(dataset, columns), settings)
        model, name = self.made(result, columns), values["segmentCol"]
        return segmented(model, dataset, columns, name, result, settings) if name else model

    def made(self, result: TrainingResult, columns: TrainingColumns) -> LinearRankerModel:
        """See `RankerEstimator.made`; the model has the penalty of its weights."""
        model = super().made(result, columns)
        assert result.penalty is not None
        chosen = result.penalty
        model._set(regParam=chosen.regParam, elasticNetParam=chosen.elasticNetParam)
        return model
