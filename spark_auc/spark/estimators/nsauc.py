"""The estimator of NSAUC: random pairs on the hinge loss, averaged (Khalid et al., 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasRegParam

from spark_auc.errors import ConfigError, DataError
from spark_auc.learners.held_out import Thirds
from spark_auc.learners.learner import LinearLearner
from spark_auc.learners.nsauc import NSAUC
from spark_auc.spark.data.prepared import SequentialRows
from spark_auc.spark.estimators.online import OnlineEstimator, Pass, Watch
from spark_auc.spark.params import one_of

# Default steps in units of 1 / R^2.
_STEP = 0.5


class NSAUCClassifier(OnlineEstimator, HasRegParam):
    """Trains a ranker for AUC by `spark_auc.learners.nsauc.NSAUC`, as many steps as rows a round.

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
        Length ``gamma`` of the first steps. By default ``1 / (2 R^2)`` with ``R^2`` of
        `spark_auc.learners.steps.Lengths`, which one more pass finds.
    blockSize
        Pairs are of the rows of one block of so many, in memory. Default 8,192, which ranked as
        well as all rows in one block.
    standardization
        Whether columns are learnt in units of their standard deviation. Default True.
    parallelism
        "sequential" (default): one task takes all rows in order. "distributed": every task slot
        takes a sample of the rows, drawn by seed, and the weights are averaged by steps after each
        round, which is an approximation: pairs are of rows of one task.
    orderCol
        Column by which rows are taken in sequence. By default they are taken in an order drawn by
        seed, whatever the order in which they are stored: a function of seed and rows alone.
        Classes must be mixed in the order of the column.
    rounds
        How often all rows are taken, each time in another order unless orderCol is given.
        Default 1. Only a single round can tell by rows not yet learnt whether it falls short of
        ridge: if so, a warning says it, and the summary's ``held_out`` has the figures.
    seed
        Of the order and of the pairs. Default 0.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or no block has rows of both classes.
    ConvergenceError
        By ``fit``: the steps were too long for the rows.

    Examples
    --------
    >>> from spark_auc import NSAUCClassifier
    >>> ranker = NSAUCClassifier(featuresCol=["position", "age"], rounds=2)
    >>> model = ranker.fit(rows)
    >>> model.summary.estimator
    'NSAUC'
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
        """See `OnlineEstimator.check_ranges`."""
        super().check_ranges()
        if self.getOrDefault(self.blockSize) < 2:
            raise ConfigError(
                f"found blockSize {self.getOrDefault(self.blockSize)}, expected 2 rows or more, "
                "which make a pair; set it so"
            )

    def learner(self, given: SequentialRows) -> NSAUC:
        """See `OnlineEstimator.learner`."""
        return NSAUC(
            given.rows.dimension,
            self.step_or(lambda: given.lengths.step(_STEP)),
            self.getRegParam(),
            self.getOrDefault(self.loss),
            self.getOrDefault(self.averaging),
            seed=self.getSeed(),
        )

    def block(self) -> int:
        """See `OnlineEstimator.block`."""
        return int(self.getOrDefault(self.blockSize))

    def watch(self, given: SequentialRows) -> Watch | None:
        """See `OnlineEstimator.watch`; pairs are of blocks, which the watch must not cut."""
        thirds = super().watch(given)
        return None if thirds is None else Thirds(given.count // given.order.tasks, apart=True)

    def passes(self, given: SequentialRows, learner: LinearLearner) -> Iterator[Pass]:
        """The learner after each pass over the rows; `DataError` without any pair."""
        for done in super().passes(given, learner):
            if not cast(NSAUC, done.learner).steps:
                raise DataError(
                    "found no block of rows with both classes, expected pairs; shuffle the rows "
                    "(repartition) or raise blockSize"
                )
            yield done
