"""The estimator: exact all-pairs AUC training in one pass (Gultekin et al., MBA)."""

from __future__ import annotations

import logging
import time
from typing import Any

import pyarrow as pa
from pyspark import keyword_only
from pyspark.ml import Estimator
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import DataFrame

from spark_auc.core.gaussian import class_ratio_threshold
from spark_auc.solvers.path import solve
from spark_auc.spark.columns import TrainingColumns
from spark_auc.spark.features import Features
from spark_auc.spark.model import LinearScorer, MBAModel, TrainingSummary, largest_weights
from spark_auc.spark.params import MBAParams
from spark_auc.spark.persistence import Reader, Writer
from spark_auc.spark.training import pair_moments

_log = logging.getLogger(__name__)


class MBAClassifier(Estimator[MBAModel], MBAParams, MLWritable, MLReadable["MBAClassifier"]):
    """Trains a linear ranker for AUC on all pairs of a positive and a negative row.

    Minimises the squared loss over every pair, ``1/2 E[(1 - w'(x+ - x-))^2]``, with an elastic
    net (MBA, Eq. 8-14), exactly: one pass over the data makes pair moments, and the solver's
    result carries a certificate of optimality.

    Parameters
    ----------
    featuresCol
        Vector or array column, or list of columns (two arrays: indices and values; else
        numbers). Default "features".
    labelCol, weightCol
        Label (0/1, -1/+1, or any two values with positiveLabel) and row weight > 0.
    positiveLabel
        The positive label, where it is not 1.
    regParam, elasticNetParam
        l1 factor ``regParam * elasticNetParam``, l2 factor ``regParam * (1 - elasticNetParam)``.
        Default 0.1 and 0, which suits standardised columns.
    standardization
        Whether the penalty applies to columns of unit variance. Default True. The weights are
        those of the raw columns in either case.
    tol
        KKT residual to reach, relative to the largest possible l1 factor. Default 1e-6.
    maxIter
        Most solver iterations. Default 1000.
    whenNotConverged
        "raise" (default) or "warn".
    numFeatures
        Dimension, where the columns do not tell it.
    seed
        Has no effect on exact training, which draws nothing.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or there are not two classes.
    ResourceError
        By ``fit``: the moments of so many features do not fit in memory.
    ConvergenceError
        By ``fit``: tol was not reached and whenNotConverged is "raise".
    """

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol: str | list[str] = "features",
        labelCol: str = "label",
        positiveLabel: float | str | bool | None = None,
        weightCol: str | None = None,
        rawPredictionCol: str = "rawPrediction",
        predictionCol: str = "prediction",
        regParam: float = 0.1,
        elasticNetParam: float = 0.0,
        standardization: bool = True,
        tol: float = 1e-6,
        maxIter: int = 1000,
        whenNotConverged: str = "raise",
        numFeatures: int | None = None,
        seed: int | None = None,
        keepMoments: bool = False,
    ) -> None:
        super().__init__()
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def setParams(self, **params: Any) -> MBAClassifier:
        """Set any Params by name; None leaves one as it is."""
        self._set(**{name: value for name, value in params.items() if value is not None})
        return self

    def _fit(self, dataset: DataFrame) -> MBAModel:
        penalty = self.penalty()
        self.check_stopping()
        features = Features.resolve(
            dataset, self.getOrDefault(self.featuresCol), self.optional(self.numFeatures)
        )
        columns = TrainingColumns.resolve(
            dataset,
            features,
            self.getLabelCol(),
            self.optional(self.positiveLabel),
            self.optional(self.weightCol),
        )
        start = time.perf_counter()
        moments, labels = pair_moments(dataset, columns)
        middle = time.perf_counter()
        deviation = moments.standard_deviation()
        scale = deviation if self.getOrDefault(self.standardization) else None
        quadratic = moments.quadratic(scale)
        solution = solve(quadratic, penalty, tol=self.getTol(), max_iter=self.getMaxIter())
        solution.checked(self.onFailure())
        w = solution.w if scale is None else solution.w / scale
        positive, negative = labels.classes(columns.positive)
        scorer = LinearScorer(
            w, class_ratio_threshold(moments, w), positive, negative, features.names
        )
        summary = TrainingSummary(
            rows={str(value): rows for value, rows in labels.rows.items()},
            positive_weight=moments.positive.weight,
            negative_weight=moments.negative.weight,
            certificate=dict(solution.certificate.as_dict()),
            seconds={"moments": middle - start, "solve": time.perf_counter() - middle},
            largest_weights=largest_weights(w, deviation, features.names),
            nonzeros=int((w != 0).sum()),
        )
        _log.info(
            "trained %d features on %s rows in %.1f s (moments) and %.1f s (solve): %s",
            w.size,
            labels.rows,
            summary.seconds["moments"],
            summary.seconds["solve"],
            solution.certificate,
        )
        kept = moments if self.getOrDefault(self.keepMoments) else None
        model = MBAModel(scorer, summary, kept)
        return self._copyValues(model)

    def write(self) -> Writer:
        """A writer; ``write().overwrite().save(path)`` replaces."""
        return Writer(self)

    @classmethod
    def read(cls) -> Reader[MBAClassifier]:
        """A reader."""
        return Reader(cls)

    def _saved(self) -> tuple[pa.Table | None, dict[str, Any]]:
        return None, {}
