"""The estimator of SOLAM: one row at a time, on a saddle point (Ying et al., 2016)."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters

from spark_auc.core.operator import largest_norm
from spark_auc.online.solam import SOLAM
from spark_auc.spark.online import OnlineRanker, Prepared

# Default length of a step, in the units that stepSize's description gives.
_STEP = 0.05


class SOLAMClassifier(OnlineRanker):
    """Trains a linear ranker for AUC by `spark_auc.online.solam.SOLAM`.

    Parameters
    ----------
    featuresCol, labelCol, positiveLabel, weightCol, numFeatures
        As for `MBAClassifier`. A row's weight multiplies its gradient.
    stepSize
        Length ``zeta`` of the first step. By default ``0.05 / (p (1 - p) s)`` with ``p`` the
        positive share and ``s`` the mean squared length of the rows that are learnt, which was
        near the best on reference data.
    radius
        Bound of the weights' length, in units of the columns that are learnt. Default 10.
    standardization
        Whether columns are learnt in units of their standard deviation. Default True.
    parallelism
        "sequential" (default): one task takes all rows in order, as the algorithm is published,
        in the memory of one learner. "distributed": every task slot takes its own rows and the
        weights are averaged by rows after each round, which is an approximation.
    orderCol
        Column by which rows are ordered in sequence; by default partition after partition.
    rounds
        How often all rows are taken. Default 1.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or there are not two classes.
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
        radius: float = 10.0,
    ) -> None:
        super().__init__()
        self._setDefault(radius=10.0)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def learner(self, given: Prepared) -> SOLAM:
        """See `OnlineRanker.learner`."""
        step = self.step(
            _STEP / (given.positive_share * (1 - given.positive_share) * given.squared_length)
        )
        longest = largest_norm(given.rows_scaled)
        dimension = given.rows.dimension
        return SOLAM(dimension, step, self.getOrDefault(self.radius), longest)
