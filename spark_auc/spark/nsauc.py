"""The estimator of NSAUC: random pairs on the hinge loss, averaged (Khalid et al., 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasRegParam

from spark_auc.errors import ConfigError, DataError
from spark_auc.online.learner import LinearLearner
from spark_auc.online.nsauc import NSAUC
from spark_auc.spark.online import OnlineRanker, Prepared
from spark_auc.spark.params import one_of

# Default length of a step, in the units that stepSize's description gives.
_STEP = 0.1


class NSAUCClassifier(OnlineRanker, HasRegParam):
    """Trains a ranker for AUC by `spark_auc.online.nsauc.NSAUC`, as many steps as rows a round.

    It is linear in the columns that it is given: of rows that a kernel embeds it is the nonlinear
    ranker of the paper. Those are learnt as they are (``standardization=False``), in some ten
    rounds, by steps of about ``1 / s``.

    Parameters
    ----------
    featuresCol, labelCol, positiveLabel, numFeatures
        As for `MBAClassifier`.
    regParam
        Ridge factor ``lambda``. Default 1e-6; where averaged, less changed nothing on reference
        data.
    loss
        "hinge" (default) or "squared_hinge", half its square, whose steps diverge where
        ``stepSize`` is long for the longest rows.
    averaging
        Whether weights are averaged over the steps. Default True; the last ones rank worse.
    stepSize
        Length ``gamma`` of the first steps. By default ``0.1 / s`` with ``s`` the mean squared
        length of the rows that are learnt, which was near the best on standardised reference data.
    blockSize
        Pairs are of the rows of one block of so many, in memory. Default 8,192, which ranked as
        well as all rows in one block.
    standardization
        Whether columns are learnt in units of their standard deviation. Default True.
    parallelism
        "sequential" (default): one task takes all rows in order. "distributed": every task slot
        takes its own rows and the weights are averaged by steps after each round, which is an
        approximation: pairs are of rows of one task.
    orderCol
        Column by which rows are ordered in sequence; by default partition after partition. Classes
        must be mixed in that order.
    rounds
        How often all rows are taken. Default 1.
    seed
        Of the pairs.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or no block has rows of both classes.
    ConvergenceError
        By ``fit``: the steps were too long for the rows.
    """

    loss: Param[str] = Param(
        Params._dummy(),
        "loss",
        "'hinge' or 'squared_hinge', half the square of the hinge.",
        typeConverter=one_of("loss", "hinge", "squared_hinge"),
    )
    averaging: Param[bool] = Param(
        Params._dummy(),
        "averaging",
        "whether weights are averaged over the steps.",
        typeConverter=TypeConverters.toBoolean,
    )
    blockSize: Param[int] = Param(
        Params._dummy(),
        "blockSize",
        "pairs are of the rows of one block of so many, in memory.",
        typeConverter=TypeConverters.toInt,
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
        parallelism: str = "sequential",
        orderCol: str | None = None,
        rounds: int = 1,
        regParam: float = 1e-6,
        loss: str = "hinge",
        averaging: bool = True,
        stepSize: float | None = None,
        blockSize: int = 8192,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(regParam=1e-6, loss="hinge", averaging=True, blockSize=8192)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def check_ranges(self) -> None:
        """See `OnlineRanker.check_ranges`."""
        super().check_ranges()
        if self.getOrDefault(self.blockSize) < 2:
            raise ConfigError(
                f"found blockSize {self.getOrDefault(self.blockSize)}, expected 2 rows or more, "
                "which make a pair; set it so"
            )

    def learner(self, given: Prepared) -> NSAUC:
        """See `OnlineRanker.learner`."""
        return NSAUC(
            given.rows.dimension,
            self.step(_STEP / given.squared_length),
            self.getRegParam(),
            self.getOrDefault(self.loss),
            self.getOrDefault(self.averaging),
            seed=self.getSeed(),
        )

    def block(self) -> int:
        """See `OnlineRanker.block`."""
        return int(self.getOrDefault(self.blockSize))

    def passes(self, given: Prepared, learner: LinearLearner) -> Iterator[LinearLearner]:
        """The learner after each pass over the rows; `DataError` without any pair."""
        for later in super().passes(given, learner):
            if not cast(NSAUC, later).steps:
                raise DataError(
                    "found no block of rows with both classes, expected pairs; shuffle the rows "
                    "(repartition) or raise blockSize"
                )
            yield later
