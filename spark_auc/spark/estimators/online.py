"""Learners that take rows one after another, over a DataFrame."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.moments.operator import labelled_column_moments, score_moments
from spark_auc.core.row_source import State
from spark_auc.core.state.schema import Parts, Schema
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, ConvergenceError
from spark_auc.learners.blocks import blocks
from spark_auc.learners.held_out import TOLERATED, Doubling, HeldOut, Thirds
from spark_auc.learners.learner import LinearLearner
from spark_auc.spark.data.prepared import RowOrder, SequentialRows
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.ranker import RankerEstimator
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.features import Features
from spark_auc.tables.rows import TableRows
from spark_auc.tables.table import Table
from spark_auc.training.result import TrainingResult

_log = logging.getLogger(__name__)

# Gives rows to a learner, and measures it on rows before it takes them.
Watch: TypeAlias = Thirds | Doubling
# Rows of a batch for learners whose result does not depend on batches.
_BLOCK = 1 << 13


@dataclass(frozen=True)
class Learned(SchemaState):
    """Bytes of learners, or of their held-out measures, of one or more tasks in order."""

    SCHEMA: ClassVar[Schema] = Schema("Learned", 1, {"parts": Parts(None)})

    parts: tuple[bytes, ...]

    def merge(self, other: Learned) -> Learned:
        """The parts of both."""
        return Learned(self.parts + other.parts)


class Pass(NamedTuple):
    """A learner after a pass over the rows.

    Parameters
    ----------
    learner
        The learner.
    held_out
        How it ranked rows before it took them, if that was measured.
    before : (d,), optional
        Its weights before the pass, where later passes need them.
    """

    learner: LinearLearner
    held_out: HeldOut | None
    before: Float | None = None


def learned(
    rows: TableRows, learner: LinearLearner, block: int = _BLOCK, watch: Watch | None = None
) -> Pass:
    """One pass: every task takes its rows in order, beginning with ``learner``.

    With one task the result is its learner. With several, their learners are averaged by
    ``merge``, in the order of the tasks.

    Parameters
    ----------
    rows
        The rows.
    learner
        The learner that each task begins with; it is not changed.
    block
        Rows that a learner takes at a time.
    watch
        Trains each task's learner on its rows and measures it; None trains without a measure.
    """
    kind, begun = type(learner), learner.to_bytes()

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        mine, held_out = kind.from_bytes(begun), None
        if watch is None:
            for some in blocks(batches, block):
                mine.learn(some.X, some.y, some.weight)
        else:
            held_out = watch.learn(mine, batches, block)
        yield "learner", Learned((mine.to_bytes(),))
        yield "held out", Learned((held_out.to_bytes(),) if held_out else ())

    result = rows.fold(
        fold,
        (Learned,),
        state_bytes=len(begun),
        what=f"{kind.__name__} of {rows.dimension} features",
    )
    parts, measured = (cast(Learned, result[name]).parts for name in ("learner", "held out"))
    learners = [kind.from_bytes(part) for part in parts]
    merged = reduce(lambda a, b: cast(Any, a).merge(b, learner), learners)
    return Pass(merged, HeldOut.mean([HeldOut.from_bytes(part) for part in measured]))


class OnlineEstimator(RankerEstimator):
    """Trains a learner that takes rows one after another.

    A subclass makes it in `learner`; its settings extend `OnlineSettings`, and `RoundsSettings`
    unless it has `passes` of its own.
    """

    def learner(self, rows: SequentialRows) -> LinearLearner:
        """The learner before the first row."""
        raise NotImplementedError

    def step_or(self, default: Callable[[], float]) -> float:
        """The length of the first step: stepSize, or what ``default`` finds."""
        step = self.values()["stepSize"]
        return default() if step is None else float(step)

    def block(self) -> int:
        """Rows that the learner takes at a time."""
        return _BLOCK

    def repeated(self) -> bool:
        """Whether rows are taken more than once, so that caching them pays."""
        return bool(self.values()["rounds"] > 1)

    def watch(self, rows: SequentialRows) -> Watch | None:
        """The measure of the only pass; None for several, since a later pass has no new rows."""
        if self.repeated():
            return None
        return Thirds(rows.count // rows.order.tasks)

    def passes(self, rows: SequentialRows, learner: LinearLearner) -> Iterator[Pass]:
        """The learner after each pass over the rows."""
        rounds = self.values()["rounds"]
        watch = self.watch(rows)
        for number in range(rounds):
            done = learned(rows.ordered(number), learner, self.block(), watch)
            learner = done.learner
            _log.info("pass %d of %d is done", number + 1, rounds)
            yield done

    def key(self) -> str | None:
        """The column whose hash is a row's key, if any."""
        return None

    def check(self) -> None:
        """See `Configured.check`."""
        if not self.alone:
            self.refuse("parallelism 'distributed'", "orderCol")

    @property
    def alone(self) -> bool:
        """Whether one task takes all rows."""
        return bool(self.values().get("parallelism") != "distributed")

    def prepared(self, table: Table, features: Features | None = None) -> SequentialRows:
        """The rows, surveyed in one pass; ``features`` as for `RankerEstimator.fitted`."""
        self.check()
        values = self.values()
        columns = self.resolved(table, features, self.key())
        tasks = 1 if self.alone else table.memory.slots
        order = RowOrder.of(table, columns, values["orderCol"], values["seed"], tasks)
        return self.surveyed(columns, TableRows.of(table, columns), order)

    def surveyed(
        self, columns: TrainingColumns, rows: TableRows, order: RowOrder
    ) -> SequentialRows:
        """The rows with their column moments, by one pass."""
        values = self.values()
        surveyed, labels = labelled_column_moments(rows)
        scale = np.ones(rows.dimension)
        if values["standardization"]:
            scale = surveyed.standard_deviation()
        centering = bool(values.get("centering", True))
        return SequentialRows(columns, rows, order, surveyed, labels, scale, centering)

    def begun(self, rows: SequentialRows) -> LinearLearner:
        """The learner before the first row, with the weights of the prior if there is one."""
        learner = self.learner(rows)
        prior = self.prior_for(rows.columns.features)
        if prior is not None:
            cast(Any, learner).start(prior.w * rows.scale)
        return learner

    def model_of(
        self, rows: SequentialRows, done: Pass, seconds: dict[str, float]
    ) -> LinearRankerModel:
        """The model of a learner's weights; a warning where it is known to fall short."""
        w = finite(done.learner.w / rows.scale)
        scores = score_moments(rows.rows, w)
        held_out = done.held_out
        if held_out is not None and held_out.short:
            _log.warning("%s", short_of(held_out))
        result = TrainingResult(
            w,
            scores,
            rows.surveyed,
            rows.labels,
            type(done.learner).__name__,
            seconds,
            held_out=None if held_out is None else held_out.as_dict(),
            saddle=getattr(done.learner, "averages", None),
        )
        return self.made(result, rows.columns)

    def fitted(self, table: Table, features: Features | None = None) -> LinearRankerModel:
        """See `RankerEstimator.fitted`."""
        start = time.perf_counter()
        rows = self.prepared(table, features)
        learner = self.begun(rows)
        if not self.alone and not hasattr(learner, "merge"):
            raise ConfigError(
                f"found parallelism 'distributed' for {type(learner).__name__}, expected "
                "'sequential', since its learners cannot be averaged; set it so"
            )
        begun = time.perf_counter()
        done = Pass(learner, None)
        with self.kept(rows) as kept:
            for later in self.passes(kept, learner):
                done = later
        seconds = {"survey": begun - start, "learn": time.perf_counter() - begun}
        return self.model_of(rows, done, seconds)

    def kept(self, rows: SequentialRows) -> AbstractContextManager[SequentialRows]:
        """The rows, cached if they are taken more than once."""
        return rows.kept(anew=True) if self.repeated() else nullcontext(rows)


def finite(w: Float) -> Float:
    """The weights; `ConvergenceError` if one is not finite."""
    if not np.isfinite(w).all():
        raise ConvergenceError(
            "found weights that are not finite, expected finite ones: the steps are too long; "
            "set a smaller stepSize, or a larger regParam for a schedule that follows from it"
        )
    return w


def short_of(held_out: HeldOut) -> str:
    """The warning of a learner that falls short."""
    rival = {
        "ridge": "ridge regression on the earlier rows",
        "diagonal": "weighting each feature by mean difference / variance",
    }[held_out.rival]
    return (
        f"found an AUC of {held_out.auc:.4f} on {held_out.rows} rows before training on them "
        f"({held_out.before:.4f} after half as many rows), where {rival} reaches "
        f"{held_out.rival_auc:.4f}: the model's AUC is estimated {held_out.gap:.4f} too low "
        f"(standard error {held_out.error:.4f}), expected {TOLERATED} at most; use MBAClassifier, "
        "which needs no step size, or change rounds, stepSize or standardization"
    )
