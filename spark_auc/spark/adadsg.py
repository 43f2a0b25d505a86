"""The estimator of AdaDSG: random pairs of doubling subsets of the rows (Gu et al., 2019)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters

from spark_auc.core.batch import Batch
from spark_auc.core.operator import VectorSum, column_moments
from spark_auc.core.products import settled_scores
from spark_auc.core.repeats import told_apart
from spark_auc.core.rows import State, each
from spark_auc.errors import ConfigError, DataError
from spark_auc.online.dsgd import DSGD, subset
from spark_auc.online.learner import Float, LinearLearner
from spark_auc.spark.online import OnlineRanker, Prepared, learned
from spark_auc.spark.rows import DistributedRows

_log = logging.getLogger(__name__)

# Default length of a step, in the units that stepSize's description gives.
_STEP = 1.0


class AdaDSGClassifier(OnlineRanker):
    """Trains a linear ranker for AUC by `spark_auc.online.dsgd.DSGD` in doubling stages.

    A stage takes the rows whose key hashes below a threshold, so that it reads no list of rows and
    moves none, and each is twice as large as the one before and contains it. It begins with the
    weights of the last one and makes as many steps as it has rows.

    Parameters
    ----------
    featuresCol, labelCol, positiveLabel, numFeatures
        As for `MBAClassifier`.
    keyCol
        Column by whose hash rows belong to stages; by default a hash of label and features.
    stepSize
        Length ``gamma`` of a stage's first step. By default ``1 / s`` with ``s`` the mean squared
        length of the rows that are learnt, which was near the best on reference data.
    penalty
        The objective has ``penalty / (2 sqrt(m)) |w|^2`` for ``m`` rows. Default 1.
    firstStage
        Rows of the first stage, on average. Default 256.
    stages
        How many; the last ones take all rows. By default as many as it takes to reach all rows.
    blockSize
        Pairs are of the rows of one block of so many, in memory. Default 65,536.
    standardization
        Whether columns are learnt in units of their standard deviation. Default True.
    parallelism
        "sequential" (default): one task takes the rows of a stage in order. "distributed": every
        task slot takes its own rows and the weights are averaged by pairs after each stage, which
        is an approximation: pairs are of rows of one task.
    orderCol
        Column by which rows are ordered in sequence; by default partition after partition.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or no block has rows of both classes.
    """

    keyCol: Param[str] = Param(
        Params._dummy(),
        "keyCol",
        "column by whose hash rows belong to stages; by default a hash of label and features.",
        typeConverter=TypeConverters.toString,
    )
    penalty: Param[float] = Param(
        Params._dummy(),
        "penalty",
        "the objective has penalty / (2 sqrt(m)) |w|^2 for m rows.",
        typeConverter=TypeConverters.toFloat,
    )
    firstStage: Param[int] = Param(
        Params._dummy(),
        "firstStage",
        "rows of the first stage, on average.",
        typeConverter=TypeConverters.toInt,
    )
    stages: Param[int] = Param(
        Params._dummy(),
        "stages",
        "number of stages; by default as many as it takes to reach all rows.",
        typeConverter=TypeConverters.toInt,
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
        keyCol: str | None = None,
        stepSize: float | None = None,
        penalty: float = 1.0,
        firstStage: int = 256,
        stages: int | None = None,
        blockSize: int = 65_536,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(penalty=1.0, firstStage=256, blockSize=65_536)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def check_ranges(self) -> None:
        """See `OnlineRanker.check_ranges`."""
        super().check_ranges()
        counts = {p: self.optional(getattr(self, p)) for p in ("firstStage", "stages", "blockSize")}
        if any(count is not None and count < 1 for count in counts.values()):
            raise ConfigError(f"found {counts}, expected 1 or more of each; set them so")

    def repeated(self) -> bool:
        """See `OnlineRanker.repeated`."""
        return True

    def learner(self, given: Prepared) -> DSGD:
        """See `OnlineRanker.learner`."""
        step = self.step(_STEP / given.squared_length)
        dimension, penalty = given.rows.dimension, self.getOrDefault(self.penalty)
        return DSGD(dimension, step, penalty, self.getSeed())

    def passes(self, given: Prepared, learner: LinearLearner, first: int = 0) -> Iterator[DSGD]:
        """The learner after each stage from number ``first`` on; `DataError` without any pair."""
        sizes, block = self._counted(given), self.getOrDefault(self.blockSize)
        shares = self._shares(given)
        learner = cast(DSGD, learner)
        for number in range(first, len(sizes)):
            if sizes[number]:
                learner.stage(int(sizes[number]))
                learner = learned(self._stage(given.ordered, shares[number]), learner, block)
            _log.info("stage %d of %d, of %d rows", number + 1, len(sizes), sizes[number])
            yield learner
        if not learner.drawn:
            raise DataError(
                "found no block of rows with both classes, expected pairs; shuffle the rows "
                "(repartition) or raise blockSize"
            )

    def objective(self, given: Prepared, learner: DSGD, number: int) -> float:
        """The regularised loss of a stage at the learner's weights (Gu et al., Eq. 1-3)."""
        w, share = learner.w, float(self._shares(given)[number])
        scored = each(lambda batch: batch._replace(X=settled_scores(batch.X, w)[:, None]))
        scores = column_moments(self._stage(given.rows_scaled, share).changed(scored, 1))
        n, m = scores.rows, float(scores.rows.sum())
        mixed = 2.0 * n[0] * n[1] / (m * (m - 1.0))
        margin = float(scores.delta[0])
        loss = float(scores.variance.sum()) + (1.0 - margin) ** 2
        return float(mixed * loss + learner.c / (2.0 * np.sqrt(m)) * (w @ w))

    def _shares(self, given: Prepared) -> Float:
        """The share of all rows in each stage."""
        share = self.getOrDefault(self.firstStage) / float(given.surveyed.rows.sum())
        needed = max(int(np.ceil(-np.log2(share))) + 1, 1) if share < 1 else 1
        return np.minimum(share * 2.0 ** np.arange(self.optional(self.stages) or needed), 1.0)

    def _stage(self, rows: DistributedRows, share: float) -> DistributedRows:
        seed = self.getSeed()
        part = each(lambda batch: subset(batch, share, seed))
        return rows.changed(told_apart()).changed(part)

    def _counted(self, given: Prepared) -> Float:
        shares, seed = self._shares(given), self.getSeed()

        def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            counts = np.zeros(shares.size)
            for batch in batches:
                light = Batch(np.empty((batch.y.size, 0)), batch.y, None, batch.keys())
                counts += [subset(light, share, seed).y.size for share in shares]
            yield "sizes", VectorSum(counts)

        # Keys hash what is learnt: columns as they were scaled.
        rows = given.rows_scaled.changed(told_apart())
        found = rows.fold(fold, (VectorSum,), state_bytes=1024, what="sizes of stages")
        return cast(VectorSum, found["sizes"]).total
