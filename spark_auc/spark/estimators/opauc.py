"""The estimator of OPAUC: one pass by the statistics of each class (Gao et al., 2013)."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml.param.shared import HasRegParam
from pyspark.sql import DataFrame

from spark_auc.learners.opauc import OPAUC
from spark_auc.spark.data.prepared import SequentialRows
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.mba import MBAClassifier
from spark_auc.spark.estimators.online import OnlineEstimator

# Default steps in units of 1 / R^2: short, as the last weights are not averaged.
_STEP = 1.0 / 16.0


class OPAUCClassifier(OnlineEstimator, HasRegParam):
    """Trains a linear ranker for AUC by the class statistics of OPAUC.

    Parameters
    ----------
    featuresCol, labelCol, positiveLabel, numFeatures
        As for `MBAClassifier`.
    regParam
        Ridge factor. Default 1e-3.
    stepSize
        Length ``eta`` of a step in sequence. By default ``1 / (16 R^2)`` with ``R^2`` of
        `spark_auc.learners.steps.Lengths`, which one more pass finds.
    standardization
        Whether columns are learnt in units of their standard deviation. Default True.
    parallelism
        "distributed" (default): the statistics are merged exactly and their objective is minimised
        in closed form, without steps: what `MBAClassifier` gives for the same ridge, with its
        certificate. "sequential": one task takes all rows in order, a gradient step for each, as
        the algorithm is published, by `spark_auc.learners.opauc.OPAUC`.
    orderCol
        Column by which rows are taken in sequence. By default they are taken in an order drawn by
        seed, whatever the order in which they are stored: a function of seed and rows alone.
    rounds
        How often all rows are taken in sequence, each time in another order unless orderCol
        is given. Default 1. Only a single round can tell by rows not yet learnt whether it falls
        short of ridge: if so, a warning says it, and the summary's ``held_out`` has the figures.
    seed
        Of the order in which rows are taken. Default 0.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or there are not two classes.
    ResourceError
        By ``fit``: memory does not suffice.

    Examples
    --------
    >>> from spark_auc import OPAUCClassifier
    >>> ranker = OPAUCClassifier(featuresCol=["position", "age"], regParam=0.1)
    >>> model = ranker.fit(rows)
    >>> model.summary.certificate["reason"]
    'converged'
    """

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol: str | list[str] = "features",
        labelCol: str = "label",
        positiveLabel: float | str | bool | None = None,
        rawPredictionCol: str = "rawPrediction",
        predictionCol: str = "prediction",
        numFeatures: int | None = None,
        standardization: bool = True,
        parallelism: str = "distributed",
        orderCol: str | None = None,
        rounds: int = 1,
        regParam: float = 1e-3,
        stepSize: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(parallelism="distributed", regParam=1e-3)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def learner(self, given: SequentialRows) -> OPAUC:
        """See `OnlineEstimator.learner`."""
        step = self.step_or(lambda: given.lengths.step(_STEP))
        return OPAUC(given.rows.dimension, step, self.getRegParam())

    def _fit(self, dataset: DataFrame) -> LinearRankerModel:
        if self.getOrDefault(self.parallelism) == "sequential":
            return super()._fit(dataset)
        return self._copyValues(MBAClassifier()).fit(dataset)
