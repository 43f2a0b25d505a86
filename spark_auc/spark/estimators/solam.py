"""The estimator of SOLAM: one row at a time, on a saddle point (Ying et al., 2016)."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters

from spark_auc.learners.solam import SOLAM
from spark_auc.spark.data.prepared import SequentialRows
from spark_auc.spark.estimators.online import OnlineEstimator

# Default steps in units of 1 / R^2, and the radius in units of one over the length of a row.
_STEP, _RADIUS = 0.5, 100.0


class SOLAMClassifier(OnlineEstimator):
    """Trains a linear ranker for AUC by `spark_auc.learners.solam.SOLAM`.

    Parameters
    ----------
    featuresCol, labelCol, positiveLabel, weightCol, numFeatures
        As for `MBAClassifier`. A row's weight multiplies its gradient.
    stepSize
        Length ``zeta`` of the first step, from which on they shrink as published. By default the
        steps of the first round are all ``1 / (2 max(R^2, 1))`` long, with ``R^2`` of
        `spark_auc.learners.steps.Lengths`, which one more pass finds, and shrink in later ones.
    radius
        Bound of the weights' length, in units of the columns that are learnt. By default
        ``100 / sqrt(s)`` with ``s`` the mean squared length of the rows that are learnt.
    standardization
        Whether columns are learnt in units of their standard deviation. Default True.
    parallelism
        "sequential" (default): one task takes all rows in order, as the algorithm is published,
        in the memory of one learner. "distributed": every task slot takes a sample of the rows,
        drawn by seed, and the weights are averaged by rows after each round, which is an
        approximation.
    orderCol
        Column by which rows are taken in sequence. By default they are taken in an order drawn by
        seed, whatever the order in which they are stored: a function of seed and rows alone.
    rounds
        How often all rows are taken, each time in another order unless orderCol is given.
        Default 1. Only a single round can tell by rows not yet learnt whether it falls short of
        ridge: if so, a warning says it, and the summary's ``held_out`` has the figures.
    seed
        Of the order in which rows are taken. Default 0.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or there are not two classes.

    Examples
    --------
    >>> from spark_auc import SOLAMClassifier
    >>> ranker = SOLAMClassifier(featuresCol=["position", "age"], rounds=2)
    >>> model = ranker.fit(rows)
    >>> model.summary.estimator
    'SOLAM'
    """

    radius: Param[float] = Param(
        Params._dummy(),
        "radius",
        "bound of the length of the weights of the columns that are learnt, > 0.",
        typeConverter=TypeConverters.toFloat,
    )

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
        numFeatures: int | None = None,
        standardization: bool = True,
        parallelism: str = "sequential",
        orderCol: str | None = None,
        rounds: int = 1,
        stepSize: float | None = None,
        radius: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def learner(self, given: SequentialRows) -> SOLAM:
        """See `OnlineEstimator.learner`."""
        given_step, lengths = self.optional(self.stepSize), given.lengths
        horizon = 1 if given_step is not None else max(given.count // given.order.tasks, 1)
        # a, b and alpha move as the weight of a feature that is 1 in all rows.
        longest_step = min(lengths.step(_STEP), _STEP)
        zeta = self.step_or(lambda: longest_step * float(np.sqrt(horizon)))
        radius = self.optional(self.radius)
        if radius is None:
            radius = _RADIUS / np.sqrt(given.squared_length or 1.0)
        dimension = given.rows.dimension
        # Rows of which all entries are 0 have no length to bound.
        return SOLAM(dimension, zeta, float(radius), lengths.longest or 1.0, horizon)
