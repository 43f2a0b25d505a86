"""The estimator of SOLAM: one row at a time, on a saddle point (Ying et al., 2016)."""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

import numpy as np

from spark_auc.learners.solam import SOLAM
from spark_auc.pipeline.online_settings import ParallelSettings, RoundsSettings
from spark_auc.pipeline.prior_settings import PriorSettings
from spark_auc.pipeline.settings import Range, Setting, WeightSettings
from spark_auc.spark.data.prepared import SequentialRows
from spark_auc.spark.estimators.online import OnlineEstimator

# Default steps in units of 1 / R^2, and the radius in units of one over the length of a row.
_STEP, _RADIUS = 0.5, 100.0


class SOLAMSettings(RoundsSettings, ParallelSettings, WeightSettings, PriorSettings, total=False):
    """Settings of `SOLAMClassifier`."""

    stepSize: Annotated[
        float | None,
        Setting(
            "Length zeta of the first step. By default 1 / (2 max(R^2, 1)) with R^2 of "
            "learners.steps.Lengths, which takes one more pass.",
            None,
            Range(gt=0),
        ),
    ]
    schedule: Annotated[
        Literal["constant", "published"] | None,
        Setting(
            "Steps t = 1, 2, ..: 'published': stepSize / sqrt(t). 'constant': all of the first "
            "round of length stepSize; later rounds shrink them. By default 'published' with a "
            "stepSize and 'constant' without one."
        ),
    ]
    centering: Annotated[
        bool,
        Setting(
            "Whether columns whose squared mean exceeds their variance are learnt minus their "
            "mean. SOLAM depends on the origin; False takes the columns as they are, as published.",
            True,
        ),
    ]
    radius: Annotated[
        float | None,
        Setting(
            "Bound of the weights' length, in units of the columns that are learnt. By default "
            "100 / sqrt(s) with s the mean squared length of the rows that are learnt.",
            None,
            Range(gt=0),
        ),
    ]


class SOLAMClassifier(OnlineEstimator, settings=SOLAMSettings):
    """Trains a linear ranker for AUC by `spark_auc.learners.solam.SOLAM`.

    A row's weight multiplies its gradient. The algorithm as published is centering=False with
    schedule="published", standardization=False and one round; the columns to learn are then those
    of the rows.
    The summary's ``saddle`` has the averages of a, b and alpha, for the scores of these columns.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve, or has no effect.
    DataError
        By ``fit``: a value cannot be used, or there are not two classes.
    ConvergenceError
        By ``fit``: the weights overflowed.

    Examples
    --------
    >>> from spark_auc import SOLAMClassifier
    >>> ranker = SOLAMClassifier(featuresCol=["position", "age"], rounds=2)
    >>> model = ranker.fit(rows)
    >>> model.summary.estimator
    'SOLAM'
    """

    def __init__(self, **params: Unpack[SOLAMSettings]) -> None:
        super().__init__(**params)

    def learner(self, rows: SequentialRows) -> SOLAM:
        """See `OnlineEstimator.learner`."""
        values: SOLAMSettings = self.values()
        lengths = rows.lengths
        schedule = values["schedule"]
        if schedule is None:
            schedule = "constant" if values["stepSize"] is None else "published"
        horizon = max(rows.count // rows.order.tasks, 1) if schedule == "constant" else 1
        # a, b and alpha move as the weight of a feature that is 1 in all rows.
        first_step = self.step_or(lambda: min(lengths.step(_STEP), _STEP))
        zeta = first_step * float(np.sqrt(horizon))
        radius = values["radius"]
        if radius is None:
            radius = float(_RADIUS / np.sqrt(rows.squared_length or 1.0))
        dimension = rows.rows.dimension
        # Rows of which all entries are 0 have no length to bound.
        return SOLAM(dimension, zeta, radius, lengths.longest or 1.0, horizon)
