"""The estimator of AdaDSG: random pairs of doubling subsets of the rows (Gu et al., 2019)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Unpack, cast

import numpy as np

from spark_auc.core.batch import Batch, hashed_shares
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.moments.pair_products import VectorSum
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import State, batchwise, rows_where
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, DataError
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.held_out import Doubling
from spark_auc.learners.learner import LinearLearner
from spark_auc.learners.losses import CURVATURES, sampled_loss
from spark_auc.learners.stages import subset
from spark_auc.pipeline.online_settings import AdaDSGSettings
from spark_auc.spark.data.prepared import SequentialRows
from spark_auc.spark.estimators.online import OnlineEstimator, Pass, learned
from spark_auc.tables.features import Features
from spark_auc.tables.rows import TableRows
from spark_auc.tables.table import Table

_log = logging.getLogger(__name__)

# Default steps in units of 1 / (h P R^2), the inverse of the curvature of the mean loss.
_STEP = 0.25
# Rows of each class, on average, whose pairs estimate an objective that has no moments.
_SAMPLE = 2_000
# Separates these random numbers from other uses of the same seed.
_SAMPLED = 0x0B


class AdaDSGClassifier(
    OnlineEstimator,
    settings=AdaDSGSettings,
    absent={
        "rounds": "a stage takes its rows once; set firstStage and stages",
        "weightCol": "DSGD is not defined with row weights; use MBAClassifier",
    },
):
    """Trains a linear ranker for AUC by `spark_auc.learners.dsgd.DSGD` in doubling stages.

    A stage takes the rows whose key hashes below a threshold, without a list of rows; each stage
    contains the one before and is twice as large. It begins with the weights of the stage before
    and makes as many steps as it has rows. Distributed, pairs are of rows of one task.

    The algorithm as published is pairs="uniform" with a schedule of "theory", or of "published" and
    a stepSize, standardization=False, penalty=1 and one task.

    On the rows that only the last stage adds, the learner of the stage before is compared with
    ridge regression. A lower AUC is logged as a warning; ``held_out`` has the figures.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve, or has no effect.
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

    def __init__(self, **params: Unpack[AdaDSGSettings]) -> None:
        super().__init__(**params)

    def repeated(self) -> bool:
        """See `OnlineEstimator.repeated`."""
        return True

    def key(self) -> str | None:
        """See `OnlineEstimator.key`."""
        values: AdaDSGSettings = self.values()
        return values["keyCol"]

    def prepared(self, table: Table, features: Features | None = None) -> SequentialRows:
        """See `OnlineEstimator.prepared`; a row's key says of which stages it is."""
        # Keys of the user's own keep rows of one key in one stage.
        return replace(super().prepared(table, features), keyed=self.key() is None)

    def check(self) -> None:
        """See `Configured.check`."""
        super().check()
        values: AdaDSGSettings = self.values()
        if values["schedule"] == "theory":
            self.refuse("schedule 'theory'", "stepSize")
            if values["penalty"] == 0:
                raise ConfigError(
                    "found penalty 0 with schedule 'theory', expected a penalty > 0, of which its "
                    "steps are the inverse; set penalty, or another schedule"
                )

    def learner(self, rows: SequentialRows) -> DSGD:
        """See `OnlineEstimator.learner`."""
        values: AdaDSGSettings = self.values()
        dimension, penalty = rows.rows.dimension, values["penalty"]
        if penalty is None:
            penalty = rows.squared_length / dimension
        schedule = values["schedule"]
        if schedule is None:
            schedule = "averaged" if values["stepSize"] is None else "published"
        n, loss, theory = rows.surveyed.rows, values["loss"], schedule == "theory"
        share = 2.0 * float(n.prod() / n.sum() ** 2) if values["pairs"] == "mixed" else 1.0
        curvature = CURVATURES[loss] * share
        gamma = 1.0 if theory else self.step_or(lambda: rows.lengths.step(_STEP) / curvature)
        return DSGD(
            dimension,
            gamma,
            float(penalty),
            values["seed"],
            schedule == "averaged",
            loss,
            values["pairs"],
            theory,
        )

    def kept(self, rows: SequentialRows) -> AbstractContextManager[SequentialRows]:
        """See `OnlineEstimator.kept`; stages take rows in one order, and draw pairs of them."""
        return rows.kept(anew=False)

    def passes(
        self,
        rows: SequentialRows,
        learner: LinearLearner,
        first: int = 0,
        done: Pass | None = None,
    ) -> Iterator[Pass]:
        """The learner after each stage from number ``first`` on; `DataError` without any pair.

        ``done`` is the stage before it. Default: none, and ``learner`` begins.
        """
        sizes, block = self._counted(rows), self.values()["blockSize"]
        shares = self._shares(rows)
        done = done or Pass(learner, None)
        for number in range(first, len(sizes)):
            learner = cast(DSGD, done.learner)
            if sizes[number]:
                learner.stage(int(sizes[number]))
                watch, early, late = None, done.before, learner.w
                # A stage that all rows have joined before has none that are new.
                if early is not None and shares[number - 1] < shares[number] == shares[-1]:
                    last = float(shares[number - 1])
                    watch = Doubling(early, late, last, self.getSeed(), number > 1)
                part = self._stage(rows.ordered(), shares[number])
                after = learned(part, learner, block, watch)
                done = Pass(after.learner, after.held_out or done.held_out, late)
            _log.info("stage %d of %d, of %d rows", number + 1, len(sizes), sizes[number])
            yield done
        if not cast(DSGD, done.learner).drawn:
            raise DataError(
                "found no block of rows with both classes, expected pairs; shuffle the rows "
                "(repartition) or raise blockSize"
            )

    def objective(
        self, rows: SequentialRows, learner: DSGD, number: int
    ) -> tuple[float, float | None]:
        """The regularised loss of a stage at the learner's weights (Gu et al., Eq. 1-3).

        The squared loss follows from moments of the scores. Others are estimated from the pairs of
        some rows of each class, with a standard error.
        """
        w, share = learner.w, float(self._shares(rows)[number])
        part = self._stage(rows.ordered(), share)
        scored = batchwise(
            lambda batch: batch._replace(
                X=settled_scores(batch.X, w)[:, None], key=batch.keys(), weight=None
            )
        )
        scores = column_moments(part.changed(scored, 1))
        n, m = scores.rows, float(scores.rows.sum())
        mixed = 2.0 * n[0] * n[1] / (m * (m - 1.0))
        error: float | None = None
        if learner.loss == "squared":
            missing = 1.0 - float(scores.delta[0])
            loss = float(scores.variance.sum()) + missing * missing
        else:
            shares, seed = _SAMPLE / n, self.getSeed()
            sampled = rows_where(
                lambda batch: (
                    hashed_shares(batch.keys(), seed, _SAMPLED) < np.where(batch.y, *shares)
                )
            )
            sample = part.changed(scored, 1).changed(sampled).gathered().joined()
            z = np.asarray(sample.X)[:, 0]
            loss, error = sampled_loss(learner.loss, z[sample.y], z[~sample.y])
            error *= mixed
        return float(mixed * loss + learner.c / (2.0 * np.sqrt(m)) * (w @ w)), error

    def _shares(self, rows: SequentialRows) -> Float:
        """The share of all rows in each stage."""
        values: AdaDSGSettings = self.values()
        share = values["firstStage"] / float(rows.surveyed.rows.sum())
        needed = max(int(np.ceil(-np.log2(share))) + 1, 1) if share < 1 else 1
        doubled = 2.0 ** np.arange(values["stages"] or needed, dtype=float)
        return np.minimum(share * doubled, 1.0)

    def _stage(self, rows: TableRows, share: float) -> TableRows:
        seed = self.getSeed()
        part = batchwise(lambda batch: subset(batch, share, seed))
        return rows.changed(part)

    def _counted(self, rows: SequentialRows) -> Float:
        shares, seed = self._shares(rows), self.getSeed()

        def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            counts = np.zeros(shares.size)
            for batch in batches:
                light = Batch(np.empty((batch.y.size, 0)), batch.y, None, batch.keys())
                counts += [subset(light, share, seed).y.size for share in shares]
            yield "sizes", VectorSum(counts)

        found = rows.ordered().fold(fold, (VectorSum,), state_bytes=1024, what="sizes of stages")
        return cast(VectorSum, found["sizes"]).total
