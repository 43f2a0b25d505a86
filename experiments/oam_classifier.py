"""The Spark estimator of the comparator OAM (Zhao et al., 2011)."""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

from experiments.comparators.oam import OAM
from spark_auc.pipeline.online_settings import ParallelSettings, RoundsSettings
from spark_auc.pipeline.settings import Range, Setting
from spark_auc.spark.data.prepared import SequentialRows
from spark_auc.spark.estimators.online import OnlineEstimator


class OAMSettings(RoundsSettings, ParallelSettings, total=False):
    """Settings of `OAMClassifier`; parallelism "distributed" is refused."""

    penalty: Annotated[
        float | None,
        Setting(
            "C > 0; a row moves the weights by C / 2 differences at most for each row that it "
            "meets. By default 1 / (2 n s) for n rows, with s the mean squared length of the rows "
            "that are learnt, so that all rows together move scores about equally for any data.",
            None,
            Range(gt=0),
        ),
    ]
    bufferSize: Annotated[int, Setting("Rows kept of each class.", 100, Range(ge=1))]
    update: Annotated[
        Literal["sequential", "gradient"],
        Setting("'sequential', OAMseq, or 'gradient', OAMgra.", "sequential"),
    ]


class OAMClassifier(OnlineEstimator, settings=OAMSettings):
    """Trains a linear ranker for AUC by `experiments.comparators.oam.OAM`, in sequence.

    A comparator; behind a Nystroem embedding it is NOAM of Khalid et al.

    Raises
    ------
    TypeError
        A Param is unknown or of another type.
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve.
    DataError
        By ``fit``: a value is unusable, or the labels do not have two values.
    ConvergenceError
        By ``fit``: the steps are too long for the rows.
    """

    def __init__(self, **params: Unpack[OAMSettings]) -> None:
        super().__init__(**params)

    def learner(self, rows: SequentialRows) -> OAM:
        """See `OnlineEstimator.learner`."""
        values: OAMSettings = self.values()
        penalty = values["penalty"]
        if penalty is None:
            penalty = 0.5 / (rows.count * (rows.squared_length or 1.0))
        return OAM(
            rows.rows.dimension,
            penalty,
            values["bufferSize"],
            values["update"] == "sequential",
            values["seed"],
        )
