"""Learners that take rows one after another, over a DataFrame."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasStepSize
from pyspark.sql import DataFrame

from spark_auc.core.batch import Batch, divided
from spark_auc.core.column_moments import ColumnMoments
from spark_auc.core.operator import column_moments
from spark_auc.core.products import settled_scores
from spark_auc.core.rows import State, each
from spark_auc.core.schema import Parts, Schema
from spark_auc.errors import ConfigError, ConvergenceError
from spark_auc.online.blocks import blocks
from spark_auc.online.learner import LinearLearner
from spark_auc.spark.columns import TrainingColumns
from spark_auc.spark.features import known_column
from spark_auc.spark.model import MBAModel
from spark_auc.spark.params import one_of
from spark_auc.spark.ranker import Ranker
from spark_auc.spark.resources import task_slots
from spark_auc.spark.rows import DistributedRows

Float = NDArray[np.float64]

_log = logging.getLogger(__name__)

# Rows that a learner is given at a time, where that does not matter to it.
_BLOCK = 1 << 13


L = TypeVar("L", bound=LinearLearner)


@dataclass(frozen=True)
class Learned:
    """The learners of some tasks, as bytes, in order of the tasks."""

    parts: tuple[bytes, ...]

    def merge(self, other: Learned) -> Learned:
        """Those of both."""
        return Learned(self.parts + other.parts)

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _LEARNED.encode(vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Learned:
        """The learners that `to_bytes` stored; `ModelFormatError` if they are none."""
        return _LEARNED.restore(data, cls)


_LEARNED = Schema("Learned", 1, {"parts": Parts(None)})


def learned(rows: DistributedRows, learner: L, block: int = _BLOCK) -> L:
    """One pass: every task takes its rows in order, beginning with ``learner``.

    Rows of a single partition go through one learner, whose result this is. Of several tasks the
    learners are averaged, in order of the tasks, as their ``merge`` says.

    Parameters
    ----------
    rows
        The rows.
    learner
        What all begin with; it is left as it is.
    block
        Rows that a learner takes at a time.
    """
    kind, begun = type(learner), learner.to_bytes()

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        mine = kind.from_bytes(begun)
        for some in blocks(batches, block):
            mine.learn(some.X, some.y, some.weight)
        yield "learner", Learned((mine.to_bytes(),))

    found = rows.fold(
        fold,
        (Learned,),
        state_bytes=len(begun),
        what=f"{kind.__name__} of {rows.dimension} features",
    )
    parts = [kind.from_bytes(part) for part in cast(Learned, found["learner"]).parts]
    return reduce(lambda a, b: cast(Any, a).merge(b, learner), parts)


def in_order(df: DataFrame, order: str | None) -> DataFrame:
    """The rows in one partition, by ``order`` or else partition after partition."""
    if order is None:
        return df.coalesce(1)
    known_column(df, order)
    return df.repartition(1).sortWithinPartitions(order)


def scaled(rows: DistributedRows, scale: Float) -> DistributedRows:
    """The rows with columns divided by ``scale`` ``(d,)``."""
    return rows.changed(each(lambda batch: batch._replace(X=divided(batch.X, scale))))


@dataclass(frozen=True, eq=False)
class Prepared:
    """Training rows as learners take them.

    Parameters
    ----------
    columns
        Their columns.
    rows
        The rows as they are.
    ordered
        The rows in columns divided by ``scale``, in the order in which they are learnt.
    surveyed
        Column moments of the rows as they are.
    scale : (d,)
        Standard deviations, or 1.
    """

    columns: TrainingColumns
    rows: DistributedRows
    ordered: DistributedRows
    surveyed: ColumnMoments
    scale: Float

    @property
    def positive_share(self) -> float:
        """The positive rows' share of the weight."""
        return float(self.surveyed.weight[0] / self.surveyed.weight.sum())

    @property
    def squared_length(self) -> float:
        """Mean squared length of a row in columns divided by ``scale``."""
        shares = self.surveyed.weight / self.surveyed.weight.sum()
        squares = shares @ (self.surveyed.variance + self.surveyed.mean**2)
        return float((squares / self.scale**2).sum())

    @property
    def rows_scaled(self) -> DistributedRows:
        """The rows in columns divided by ``scale``, in no order."""
        return scaled(self.rows, self.scale)


class OnlineRanker(Ranker, HasStepSize):
    """Trains a learner that takes rows one after another.

    A subclass says which by `learner`, and may give it the rows in several `passes`.
    """

    parallelism: Param[str] = Param(
        Params._dummy(),
        "parallelism",
        "'sequential': one task takes all rows in order, exactly as the algorithm is published; "
        "'distributed': every task slot takes its own rows, which is an approximation.",
        typeConverter=one_of("parallelism", "sequential", "distributed"),
    )
    orderCol: Param[str] = Param(
        Params._dummy(),
        "orderCol",
        "column by which rows are ordered in sequence; else partition after partition.",
        typeConverter=TypeConverters.toString,
    )
    rounds: Param[int] = Param(
        Params._dummy(),
        "rounds",
        "how often all rows are taken; distributed learners are averaged after each time.",
        typeConverter=TypeConverters.toInt,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(parallelism="sequential", rounds=1)

    def learner(self, given: Prepared) -> LinearLearner:
        """The learner before the first row."""
        raise NotImplementedError

    def step(self, default: float) -> float:
        """The length of the first step."""
        given = self.optional(self.stepSize)
        return default if given is None else float(given)

    def block(self) -> int:
        """Rows that the learner is given at a time."""
        return _BLOCK

    def repeated(self) -> bool:
        """Whether rows are taken more than once, and so are worth keeping."""
        return bool(self.getOrDefault(self.rounds) > 1)

    def passes(self, given: Prepared, learner: LinearLearner) -> Iterator[LinearLearner]:
        """The learner after each pass over the rows."""
        rounds = self.getOrDefault(self.rounds)
        for number in range(rounds):
            learner = learned(given.ordered, learner, self.block())
            _log.info("pass %d of %d is done", number + 1, rounds)
            yield learner

    def check_ranges(self) -> None:
        """`ConfigError` where a number is out of range."""
        if self.getOrDefault(self.rounds) < 1:
            raise ConfigError(
                f"found rounds {self.getOrDefault(self.rounds)}, expected 1 or more; set it so"
            )

    def prepared(self, dataset: DataFrame) -> Prepared:
        """The rows, surveyed in one pass."""
        self.check_ranges()
        columns = self.resolved(dataset)
        rows = DistributedRows.of(dataset, columns)
        surveyed = column_moments(rows)
        scale = np.ones(rows.dimension)
        if self.getOrDefault(self.standardization):
            scale = surveyed.standard_deviation()
        ordered = replace(rows, frame=rows.frame.coalesce(task_slots(dataset.sparkSession)))
        if self.getOrDefault(self.parallelism) == "sequential":
            ordered = DistributedRows.of(in_order(dataset, self.optional(self.orderCol)), columns)
        return Prepared(columns, rows, scaled(ordered, scale), surveyed, scale)

    def model_of(
        self, given: Prepared, learner: LinearLearner, seconds: dict[str, float]
    ) -> MBAModel:
        """The model of a learner's weights."""
        w = learner.w / given.scale
        if not np.isfinite(w).all():
            raise ConvergenceError(
                "found weights that are not finite, expected finite ones: the steps are too long; "
                "set a smaller stepSize"
            )
        scored = each(lambda batch: batch._replace(X=settled_scores(batch.X, w)[:, None]))
        scores = column_moments(given.rows.changed(scored, 1))
        name = type(learner).__name__
        return self.made(
            w,
            scores,
            given.rows.labels,
            given.columns,
            given.surveyed,
            seconds=seconds,
            estimator=name,
        )

    def _fit(self, dataset: DataFrame) -> MBAModel:
        start = time.perf_counter()
        given = self.prepared(dataset)
        learner = self.learner(given)
        if self.getOrDefault(self.parallelism) == "distributed" and not hasattr(learner, "merge"):
            raise ConfigError(
                f"found parallelism 'distributed' for {type(learner).__name__}, expected "
                "'sequential': learners of it cannot be averaged; set it so"
            )
        begun = time.perf_counter()
        with given.ordered.kept() if self.repeated() else nullcontext(given.ordered) as ordered:
            for later in self.passes(replace(given, ordered=ordered), learner):
                learner = later
        seconds = {"survey": begun - start, "learn": time.perf_counter() - begun}
        return self.model_of(given, learner, seconds)
