"""What the estimators share: from Params and a DataFrame to a model."""

from __future__ import annotations

import logging
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark.ml import Estimator
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import DataFrame

from spark_auc.core.gaussian import class_ratio_threshold, estimated_auc
from spark_auc.errors import ConfigError
from spark_auc.spark.columns import TrainingColumns
from spark_auc.spark.features import Features
from spark_auc.spark.fitted import Fitted
from spark_auc.spark.fitting import Fitting
from spark_auc.spark.model import LinearScorer, MBAModel
from spark_auc.spark.params import TrainingParams
from spark_auc.spark.persistence import Reader, Writer
from spark_auc.spark.rows import DistributedRows
from spark_auc.spark.summary import TrainingSummary, largest_weights
from spark_auc.spark.training import Estimation, Sampling, fits_in_tiles

_log = logging.getLogger(__name__)
T = TypeVar("T", bound="Trainer")


class Trainer(Estimator[MBAModel], TrainingParams, MLWritable, MLReadable[Any]):
    """An estimator of `MBAModel`."""

    def penalties(self) -> tuple[tuple[float, ...] | None, tuple[float, ...]]:
        """Values of regParam, None for a grid of the data's own, and of elasticNetParam."""
        raise NotImplementedError

    def setParams(self: T, **params: Any) -> T:
        """Set any Params by name; None leaves one as it is."""
        self._set(**{name: value for name, value in params.items() if value is not None})
        return self

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
            folds=self.getOrDefault(self.numFolds),
            one_standard_error=self.getOrDefault(self.selectionRule) == "oneStandardError",
            standardize=self.getOrDefault(self.standardization),
            tol=self.getTol(),
            max_iter=self.getMaxIter(),
            on_failure=self.onFailure(),
        )

    def _fit(self, dataset: DataFrame) -> MBAModel:
        fitting = self._fitting()
        features = Features.resolve(
            dataset, self.getOrDefault(self.featuresCol), self.optional(self.numFeatures)
        )
        columns = TrainingColumns.resolve(
            dataset,
            features,
            self.getLabelCol(),
            self.optional(self.positiveLabel),
            self.optional(self.weightCol),
            self.optional(self.keyCol),
        )
        rows = DistributedRows.of(dataset, columns)
        keep = self.getOrDefault(self.keepMoments)
        if keep and not fits_in_tiles(rows):
            raise ConfigError(
                f"found keepMoments for {rows.dimension} features, expected as many as moments can "
                "be formed of; set keepMoments to False"
            )
        fitted = fitting.fit(rows)
        summary = _summary(fitted, rows, features.names)
        _log.info(
            "trained %d features on %s rows in %s: %s",
            fitted.w.size,
            rows.labels.rows,
            ", ".join(f"{s:.1f} s ({phase})" for phase, s in fitted.seconds.items()),
            fitted.solution.certificate,
        )
        positive, negative = rows.labels.classes(columns.positive)
        scorer = LinearScorer(
            fitted.w, class_ratio_threshold(fitted.scores), positive, negative, features.names
        )
        model = self._copyValues(
            MBAModel(scorer, summary, fitted.problem.moments if keep else None)
        )
        chosen = fitted.candidate
        model._set(regParam=chosen.regParam, elasticNetParam=chosen.elasticNetParam)
        return model

    def write(self) -> Writer:
        """A writer; ``write().overwrite().save(path)`` replaces."""
        return Writer(self)

    @classmethod
    def read(cls) -> Reader[Any]:
        """A reader."""
        return Reader(cls)

    def _saved(self) -> tuple[pa.Table | None, dict[str, Any]]:
        return None, {}


def _summary(
    fitted: Fitted, rows: DistributedRows, names: tuple[str, ...] | None
) -> TrainingSummary:
    given, w = fitted.problem, fitted.w
    weight = given.columns.weight
    selection = fitted.selection
    return TrainingSummary(
        rows={str(value): count for value, count in rows.labels.rows.items()},
        positive_weight=float(weight[0]),
        negative_weight=float(weight[1]),
        certificate=dict(fitted.solution.certificate.as_dict()),
        seconds=fitted.seconds,
        largest_weights=largest_weights(w, fitted.deviation, names),
        nonzeros=int((w != 0).sum()),
        estimated_auc=estimated_auc(fitted.scores),
        estimator=fitted.sampling.estimator,
        pairs=fitted.sampling.pairs or None,
        sampling_suboptimality=fitted.suboptimality,
        sufficient_pairs=fitted.sufficient_pairs,
        form=given.form,
        reg_param=fitted.candidate.regParam,
        elastic_net_param=fitted.candidate.elasticNetParam,
        selection=None if selection is None else selection.as_dict(),
    )
