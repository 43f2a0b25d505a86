"""What the estimators on pair moments share."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import cast

from pyspark.sql import DataFrame

from spark_auc.core.folds import Folds
from spark_auc.errors import ConfigError
from spark_auc.spark.columns import FoldColumn
from spark_auc.spark.fitting import Fitting
from spark_auc.spark.model import MBAModel
from spark_auc.spark.params import TrainingParams
from spark_auc.spark.ranker import Ranker
from spark_auc.spark.rows import DistributedRows
from spark_auc.spark.survey import Estimation, Sampling
from spark_auc.spark.training import fits_in_tiles

_log = logging.getLogger(__name__)


class Trainer(Ranker, TrainingParams):
    """Trains on pair moments."""

    def penalties(self) -> tuple[tuple[float, ...] | None, tuple[float, ...]]:
        """Values of regParam, None for a grid of the data's own, and of elasticNetParam."""
        raise NotImplementedError

    def _fitting(self) -> Fitting:
        regs, mixes = self.penalties()
        if not (all(0 <= r < float("inf") for r in regs or ()) and all(0 <= m <= 1 for m in mixes)):
            raise ConfigError(
                f"found regParam {regs} and elasticNetParam {mixes}, expected regParam >= 0 and "
                "elasticNetParam in [0, 1]; set them so"
            )
        self.check_ranges()
        pairs = self.getOrDefault(self.numPairs)
        return Fitting(
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
        )

    def _fit(self, dataset: DataFrame) -> MBAModel:
        fitting = self._fitting()
        folds, name = None, self.optional(self.foldCol)
        if name and not fitting.candidate:
            folds = FoldColumn.found(dataset, name)
            fitting = replace(fitting, folds=Folds.given(tuple(map(str, folds.values))))
        drawn = fitting.sampling.estimator != "exact"
        columns = self.resolved(dataset, self.optional(self.keyCol), folds, placed=drawn)
        rows = DistributedRows.of(dataset, columns)
        keep = self.getOrDefault(self.keepMoments)
        if keep and not fits_in_tiles(rows):
            raise ConfigError(
                f"found keepMoments for {rows.dimension} features, expected as many as moments can "
                "be formed of; set keepMoments to False"
            )
        fitted = fitting.fit(rows)
        _log.info(
            "trained %d features on %s rows in %s: %s",
            fitted.w.size,
            rows.labels.rows,
            ", ".join(f"{s:.1f} s ({phase})" for phase, s in fitted.seconds.items()),
            fitted.solution.certificate,
        )
        given, chosen, selection = fitted.problem, fitted.candidate, fitted.selection
        model = self.made(
            fitted.w,
            fitted.scores,
            rows.labels,
            columns,
            given.columns,
            given.moments if keep else None,
            certificate=dict(fitted.solution.certificate.as_dict()),
            seconds=fitted.seconds,
            estimator=fitted.sampling.estimator,
            pairs=fitted.sampling.pairs or None,
            sampling_suboptimality=fitted.suboptimality,
            sufficient_pairs=fitted.sufficient_pairs,
            form=given.form,
            reg_param=chosen.regParam,
            elastic_net_param=chosen.elasticNetParam,
            selection=None if selection is None else selection.as_dict(),
        )
        model._set(regParam=chosen.regParam, elasticNetParam=chosen.elasticNetParam)
        return model
