"""The estimator of NSAUC: random pairs on the hinge loss, averaged (Khalid et al., 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Unpack, cast

from spark_auc.errors import DataError
from spark_auc.learners.held_out import Thirds
from spark_auc.learners.learner import LinearLearner
from spark_auc.learners.nsauc import NSAUC
from spark_auc.pipeline.online_settings import ParallelSettings, RoundsSettings
from spark_auc.pipeline.settings import Range, Setting
from spark_auc.spark.data.prepared import SequentialRows
from spark_auc.spark.estimators.online import OnlineEstimator, Pass, Watch

# Default steps in units of 1 / R^2.
_STEP = 0.5


class NSAUCSettings(RoundsSettings, ParallelSettings, total=False):
    """Settings of `NSAUCClassifier`."""

    regParam: Annotated[
        float,
        Setting(
            "Ridge factor lambda. With averaging, smaller values made no difference on reference "
            "data.",
            1e-6,
            Range(ge=0),
        ),
    ]
    loss: Annotated[
        Literal["hinge", "squared_hinge"],
        Setting(
            "The hinge, or half its square, whose steps diverge if stepSize is too long for the "
            "longest rows.",
            "hinge",
        ),
    ]
    averaging: Annotated[
        bool,
        Setting("Whether weights are averaged over the steps; the last ones rank worse.", True),
    ]
    stepSize: Annotated[
        float | None,
        Setting(
            "Length gamma of the first steps. By default 1 / (2 R^2) with R^2 of "
            "learners.steps.Lengths, which takes one more pass.",
            None,
            Range(gt=0),
        ),
    ]
    rskip: Annotated[
        int, Setting("Number of steps between two shrinkings of the weights.", 16, Range(ge=1))
    ]
    askip: Annotated[
        int, Setting("Number of steps between two iterates of the average.", 16, Range(ge=1))
    ]
    blockSize: Annotated[
        int,
        Setting(
            "Rows of a block in memory; pairs are of rows of one block. The default ranked as "
            "well as all rows in one block.",
            8192,
            Range(ge=2),
        ),
    ]


class NSAUCClassifier(
    OnlineEstimator,
    settings=NSAUCSettings,
    absent={"weightCol": "NSAUC is not defined with row weights; use MBAClassifier"},
):
    """Trains a ranker for AUC by `spark_auc.learners.nsauc.NSAUC`, as many steps as rows a round.

    It is linear in its columns: on rows that a kernel embeds it is the nonlinear ranker of the
    paper; set standardization to False there, stepSize to about 1 and rounds to about 10. If
    orderCol is set, classes must be mixed in its order. Distributed, pairs are of rows of one task.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve, or has no effect.
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

    def __init__(self, **params: Unpack[NSAUCSettings]) -> None:
        super().__init__(**params)

    def check(self) -> None:
        """See `Configured.check`."""
        super().check()
        if not self.values()["averaging"]:
            self.refuse("averaging False", "askip")

    def learner(self, rows: SequentialRows) -> NSAUC:
        """See `OnlineEstimator.learner`."""
        values: NSAUCSettings = self.values()
        return NSAUC(
            rows.rows.dimension,
            self.step_or(lambda: rows.lengths.step(_STEP)),
            values["regParam"],
            values["loss"],
            values["averaging"],
            values["rskip"],
            values["askip"],
            values["seed"],
        )

    def block(self) -> int:
        """See `OnlineEstimator.block`."""
        values: NSAUCSettings = self.values()
        return values["blockSize"]

    def watch(self, rows: SequentialRows) -> Watch | None:
        """See `OnlineEstimator.watch`; pairs are of blocks, which the watch must not cut."""
        thirds = super().watch(rows)
        return None if thirds is None else Thirds(rows.count // rows.order.tasks, apart=True)

    def passes(self, rows: SequentialRows, learner: LinearLearner) -> Iterator[Pass]:
        """The learner after each pass over the rows; `DataError` without any pair."""
        for done in super().passes(rows, learner):
            if not cast(NSAUC, done.learner).steps:
                raise DataError(
                    "found no block of rows with both classes, expected pairs; shuffle the rows "
                    "(repartition) or raise blockSize"
                )
            yield done
