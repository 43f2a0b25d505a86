"""The estimator of OAM, a comparator: rows against reservoirs of rows (Zhao et al., 2011)."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters

from experiments.comparators.oam import OAM
from spark_auc.spark.data.prepared import SequentialRows
from spark_auc.spark.estimators.online import OnlineEstimator
from spark_auc.spark.params import one_of


class OAMClassifier(OnlineEstimator):
    """Trains a linear ranker for AUC by `experiments.comparators.oam.OAM`, in sequence.

    It is here to be compared with; behind a Nystroem embedding it is NOAM of Khalid et al.

    Parameters
    ----------
    featuresCol, labelCol, positiveLabel, numFeatures
        As for `MBAClassifier`.
    penalty
        ``C > 0``; a row moves the weights by ``C / 2`` differences at most for each row that it
        meets. By default ``1 / (2 n s)`` for ``n`` rows, with ``s`` the mean squared length of the
        rows that are learnt: what a row of the whole moves the scores by is then about the same
        for any data.
    bufferSize
        Rows kept of each class. Default 100.
    update
        "sequential" (default), OAMseq, or "gradient", OAMgra.
    standardization
        Whether columns are learnt in units of their standard deviation. Default True.
    orderCol
        Column by which rows are taken. By default they are taken in an order drawn by
        seed, whatever the order in which they are stored: a function of seed and rows alone.
    rounds
        How often all rows are taken, each time in another order unless orderCol is given.
        Default 1. Only a single round can tell by rows not yet learnt whether it falls short of
        ridge: if so, a warning says it, and the summary's ``held_out`` has the figures.
    seed
        Of the order and of the reservoirs. Default 0.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or there are not two classes.
    ConvergenceError
        By ``fit``: the steps were too long for the rows.
    """

    penalty: Param[float] = Param(
        Params._dummy(),
        "penalty",
        "bound of a row's step along its difference to another, > 0.",
        typeConverter=TypeConverters.toFloat,
    )
    bufferSize: Param[int] = Param(
        Params._dummy(),
        "bufferSize",
        "rows kept of each class.",
        typeConverter=TypeConverters.toInt,
    )
    update: Param[str] = Param(
        Params._dummy(),
        "update",
        "'sequential', OAMseq, or 'gradient', OAMgra.",
        typeConverter=one_of("update", "sequential", "gradient"),
    )

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
        orderCol: str | None = None,
        rounds: int = 1,
        penalty: float | None = None,
        bufferSize: int = 100,
        update: str = "sequential",
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(bufferSize=100, update="sequential")
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def learner(self, given: SequentialRows) -> OAM:
        """See `OnlineEstimator.learner`."""
        penalty = self.optional(self.penalty)
        if penalty is None:
            penalty = 0.5 / (given.count * (given.squared_length or 1.0))
        return OAM(
            given.rows.dimension,
            penalty,
            self.getOrDefault(self.bufferSize),
            self.getOrDefault(self.update) == "sequential",
            self.getSeed(),
        )
