"""The estimator of OPAUC: one pass by the statistics of each class (Gao et al., 2013)."""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

from spark_auc.core.moments.low_rank_moments import LowRankMoments
from spark_auc.errors import ConfigError
from spark_auc.learners.opauc import OPAUC
from spark_auc.learners.opauc_low_rank import OPAUCr
from spark_auc.pipeline.online_settings import RoundsSettings
from spark_auc.pipeline.pair_moments_fit import check_covariance
from spark_auc.pipeline.prior_settings import PriorSettings
from spark_auc.pipeline.ranker_settings import CovarianceSettings
from spark_auc.pipeline.settings import Range, Setting
from spark_auc.spark.data.prepared import SequentialRows
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.mba import MBAClassifier
from spark_auc.spark.estimators.online import OnlineEstimator
from spark_auc.tables.features import Features
from spark_auc.tables.table import Table

# Default steps in units of 1 / R^2: short, as the last weights are not averaged.
_STEP = 1.0 / 16.0


class OPAUCSettings(RoundsSettings, CovarianceSettings, PriorSettings, total=False):
    """Settings of `OPAUCClassifier`."""

    parallelism: Annotated[
        Literal["sequential", "distributed"],
        Setting(
            "'distributed': the statistics are merged exactly and their objective is minimised in "
            "closed form, without steps, as MBAClassifier does for the same ridge, with a "
            "certificate. 'sequential': one task takes all rows in order, a gradient step for "
            "each, as the algorithm is published.",
            "distributed",
        ),
    ]
    regParam: Annotated[float, Setting("Ridge factor.", 1e-3, Range(ge=0))]
    stepSize: Annotated[
        float | None,
        Setting(
            "Length eta of a step in sequence. By default 1 / (16 R^2) with R^2 of "
            "learners.steps.Lengths, which takes one more pass.",
            None,
            Range(gt=0),
        ),
    ]


class OPAUCClassifier(
    OnlineEstimator,
    settings=OPAUCSettings,
    absent={"weightCol": "OPAUC is not defined with row weights; use MBAClassifier"},
):
    """Trains a linear ranker for AUC by the class statistics of OPAUC.

    ``spark_auc.learners.opauc.OPAUC`` is the learner of the sequential form, and with
    covariance="lowRank" ``spark_auc.learners.opauc_low_rank.OPAUCr``; orderCol, rounds and stepSize
    are of that form alone.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve, or has no effect.
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

    def __init__(self, **params: Unpack[OPAUCSettings]) -> None:
        super().__init__(**params)

    def check(self) -> None:
        """See `Configured.check`."""
        super().check()
        check_covariance(self)
        kind = self.values()["covariance"]
        if not self.alone:
            drawing = () if kind == "lowRank" else ("seed",)
            self.refuse("parallelism 'distributed'", "rounds", "stepSize", *drawing)
        elif kind == "head":
            raise ConfigError(
                "found covariance 'head' with parallelism 'sequential', expected 'full' or "
                "'lowRank' (OPAUCr): no gradient steps are known for a head; set it so, or "
                "parallelism to 'distributed'"
            )

    def learner(self, rows: SequentialRows) -> OPAUC | OPAUCr:
        """See `OnlineEstimator.learner`; `ResourceError` if its state does not fit in memory."""
        values: OPAUCSettings = self.values()
        dimension, rank = rows.rows.dimension, values["covarianceRank"]
        low_rank = values["covariance"] == "lowRank"
        size = LowRankMoments.nbytes(dimension, rank) if low_rank else 2 * 8 * dimension**2
        rows.rows.memory.check(size, f"OPAUC's covariances of {dimension} features")
        step = self.step_or(lambda: rows.lengths.step(_STEP))
        if low_rank:
            return OPAUCr(dimension, step, values["regParam"], rank, values["seed"])
        return OPAUC(dimension, step, values["regParam"])

    def fitted(self, table: Table, features: Features | None = None) -> LinearRankerModel:
        """See `RankerEstimator.fitted`."""
        if self.alone:
            return super().fitted(table, features)
        self.check()
        exact: MBAClassifier = self._copyValues(MBAClassifier())
        model: LinearRankerModel = exact.fitted(table, features)
        return model
