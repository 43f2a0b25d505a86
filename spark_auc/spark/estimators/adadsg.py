"""The estimator of AdaDSG: random pairs of doubling subsets of the rows (Gu et al., 2019)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, cast

import numpy as np
from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.sql import DataFrame

from spark_auc.core.batch import Batch
from spark_auc.core.moments.operator import VectorSum, column_moments
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import State, each
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, DataError
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.held_out import Doubling
from spark_auc.learners.learner import LinearLearner
from spark_auc.learners.stages import subset
from spark_auc.spark.data.prepared import SequentialRows
from spark_auc.spark.data.rows import DistributedRows
from spark_auc.spark.estimators.online import OnlineEstimator, Pass, learned

_log = logging.getLogger(__name__)

# Default steps in units of 1 / (2 P R^2), the inverse of the loss's curvature.
_STEP = 0.25


class AdaDSGClassifier(OnlineEstimator):
    """Trains a linear ranker for AUC by `spark_auc.learners.dsgd.DSGD` in doubling stages.

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
        Length ``gamma`` of a stage's first step, from which on they shrink as published. By
        default all steps are ``1 / (8 P R^2)`` long and each stage averages its iterates
        (``averaging`` of `DSGD`), with ``P`` the share of mixed pairs, ``2 p (1 - p)``, and
        ``R^2`` of `spark_auc.learners.steps.Lengths`, which one more pass finds.
    penalty
        The objective has ``penalty / (2 sqrt(m)) |w|^2`` for ``m`` rows. By default the mean
        square of an entry of the rows that are learnt: 1 where columns are standardised, and as
        strong in any unit.
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
        task slot takes a sample of the rows, drawn by seed, and the weights are averaged by pairs
        after each stage, which is an approximation: pairs are of rows of one task.
    orderCol
        Column by which rows are taken in sequence. By default they are taken in an order drawn by
        seed, whatever the order in which they are stored: a function of seed and rows alone.
    seed
        Of the order, of the stages and of the pairs. Default 0.

    Rows that are new to the last stage tell whether the learner before it falls short of ridge: if
    so, a warning says it, and the summary's ``held_out`` has the figures.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or no block has rows of both classes.

    Examples
    --------
    >>> from spark_auc import AdaDSGClassifier
    >>> ranker = AdaDSGClassifier(featuresCol=["position", "age"], firstStage=100)
    >>> model = ranker.fit(rows)
    >>> model.summary.estimator
    'DSGD'
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
        penalty: float | None = None,
        firstStage: int = 256,
        stages: int | None = None,
        blockSize: int = 65_536,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(firstStage=256, blockSize=65_536)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def check_ranges(self) -> None:
        """See `OnlineEstimator.check_ranges`."""
        super().check_ranges()
        counts = {p: self.optional(getattr(self, p)) for p in ("firstStage", "stages", "blockSize")}
        if any(count is not None and count < 1 for count in counts.values()):
            raise ConfigError(f"found {counts}, expected 1 or more of each; set them so")

    def repeated(self) -> bool:
        """See `OnlineEstimator.repeated`."""
        return True

    def key(self) -> str | None:
        """See `OnlineEstimator.key`."""
        return cast(str | None, self.optional(self.keyCol))

    def prepared(self, dataset: DataFrame) -> SequentialRows:
        """See `OnlineEstimator.prepared`; a row's key says of which stages it is."""
        # Keys of the user's own keep rows of one key in one stage.
        return replace(super().prepared(dataset), keyed=self.key() is None)

    def learner(self, given: SequentialRows) -> DSGD:
        """See `OnlineEstimator.learner`."""
        dimension, penalty = given.rows.dimension, self.optional(self.penalty)
        if penalty is None:
            penalty = given.squared_length / dimension
        n = given.surveyed.rows
        mixed = 2.0 * float(n.prod() / n.sum() ** 2)
        gamma = self.step_or(lambda: given.lengths.step(_STEP) / (2.0 * mixed))
        averaging = self.optional(self.stepSize) is None
        return DSGD(dimension, gamma, float(penalty), self.getSeed(), averaging)

    def kept(self, given: SequentialRows) -> AbstractContextManager[SequentialRows]:
        """See `OnlineEstimator.kept`; stages take rows in one order, and draw pairs of them."""
        return given.kept(anew=False)

    def passes(
        self, given: SequentialRows, learner: LinearLearner, first: int = 0
    ) -> Iterator[Pass]:
        """The learner after each stage from number ``first`` on; `DataError` without any pair."""
        sizes, block = self._counted(given), self.getOrDefault(self.blockSize)
        shares = self._shares(given)
        done = Pass(learner, None)
        early = late = learner.w
        for number in range(first, len(sizes)):
            learner = cast(DSGD, done.learner)
            if sizes[number]:
                learner.stage(int(sizes[number]))
                watch = None
                # A stage that all rows have joined before has none that are new.
                if number > first and shares[number - 1] < shares[number] == shares[-1]:
                    last = float(shares[number - 1])
                    watch = Doubling(early, late, last, self.getSeed(), number - first > 1)
                rows = self._stage(given.ordered(), shares[number])
                found = learned(rows, learner, block, watch)
                done = Pass(found.learner, found.held_out or done.held_out)
                early, late = late, done.learner.w
            _log.info("stage %d of %d, of %d rows", number + 1, len(sizes), sizes[number])
            yield done
        if not cast(DSGD, done.learner).drawn:
            raise DataError(
                "found no block of rows with both classes, expected pairs; shuffle the rows "
                "(repartition) or raise blockSize"
            )

    def objective(self, given: SequentialRows, learner: DSGD, number: int) -> float:
        """The regularised loss of a stage at the learner's weights (Gu et al., Eq. 1-3)."""
        w, share = learner.w, float(self._shares(given)[number])
        scored = each(lambda batch: batch._replace(X=settled_scores(batch.X, w)[:, None]))
        scores = column_moments(self._stage(given.rows_scaled, share).changed(scored, 1))
        n, m = scores.rows, float(scores.rows.sum())
        mixed = 2.0 * n[0] * n[1] / (m * (m - 1.0))
        margin = float(scores.delta[0])
        loss = float(scores.variance.sum()) + (1.0 - margin) ** 2
        return float(mixed * loss + learner.c / (2.0 * np.sqrt(m)) * (w @ w))

    def _shares(self, given: SequentialRows) -> Float:
        """The share of all rows in each stage."""
        share = self.getOrDefault(self.firstStage) / float(given.surveyed.rows.sum())
        needed = max(int(np.ceil(-np.log2(share))) + 1, 1) if share < 1 else 1
        return np.minimum(share * 2.0 ** np.arange(self.optional(self.stages) or needed), 1.0)

    def _stage(self, rows: DistributedRows, share: float) -> DistributedRows:
        seed = self.getSeed()
        part = each(lambda batch: subset(batch, share, seed))
        return rows.changed(part)

    def _counted(self, given: SequentialRows) -> Float:
        shares, seed = self._shares(given), self.getSeed()

        def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            counts = np.zeros(shares.size)
            for batch in batches:
                light = Batch(np.empty((batch.y.size, 0)), batch.y, None, batch.keys())
                counts += [subset(light, share, seed).y.size for share in shares]
            yield "sizes", VectorSum(counts)

        found = given.ordered().fold(fold, (VectorSum,), state_bytes=1024, what="sizes of stages")
        return cast(VectorSum, found["sizes"]).total
