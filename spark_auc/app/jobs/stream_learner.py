"""Learning batch after batch: score, add to the statistics, commit, solve, publish."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from pyspark.sql import DataFrame

from spark_auc.app.config.jobs import Opauc
from spark_auc.app.config.stream import HalfLife
from spark_auc.app.jobs.stream_state import Checkpoint, Progress, StreamState, settings
from spark_auc.core.labels import LabelCounts
from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.columns import TrainingColumns
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.features import Features
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.mba import MBAClassifier
from spark_auc.spark.estimators.one_pass import model_of, rows_of_any_class, statistics
from spark_auc.spark.streaming.stream import ArrivedFile, MicroBatch, Stream
from spark_auc.training.stream_statistics import StreamStatistics, check_labels

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _Learned:
    """What a batch brought, of which files, and why not of the others."""

    statistics: StreamStatistics | None
    files: Sequence[ArrivedFile]
    refused: dict[str, str]


class StreamLearner:
    """Learns a stream; everything that it knows it can read again from its checkpoint.

    Parameters
    ----------
    stream
        Where rows come from.
    config
        The job's settings.
    checkpoint, state
        Where states are committed, and the last one.
    estimator
        What models are to be like.
    publish
        Publishes a model of a state.
    """

    def __init__(
        self,
        stream: Stream,
        config: Opauc,
        checkpoint: Checkpoint,
        state: StreamState,
        estimator: MBAClassifier,
        publish: Callable[[LinearRankerModel, StreamState], None],
    ) -> None:
        assert config.stream is not None
        self.state = state
        self.model: LinearRankerModel | None = None
        self._stream, self._settings, self._names = stream, config.stream, config.columns
        self._checkpoint, self._estimator, self._publish = checkpoint, estimator, publish
        self._fixed = {"settings": settings(config)}
        self._columns = self._known_columns()
        self._solve()

    def learn(self, number: int, opened: Callable[[], MicroBatch]) -> None:
        """Learn a batch, unless it was learned already.

        Parameters
        ----------
        number
            Of the batch.
        opened
            Opens it.
        """
        done = self.state.progress.batch
        self._checkpoint.account.check(self.state.progress.account)
        if number <= done:
            _log.info("batch %d was learned already", number)
            self._checkpoint.move_refused(self.state)
            return
        if number != done + 1:
            raise ConfigError(
                f"found batch {number} after batch {done}, expected {done + 1}; restore the whole "
                "directory opauc.stream.checkpoint, or set another to begin again"
            )
        start = time.perf_counter()
        found = self._learned(opened())
        state = self._next(number, found, start)
        self._checkpoint.commit(state)
        self.state = state
        # What a death from here on leaves undone is done at the next start.
        self._checkpoint.move_refused(state)
        self._checkpoint.note(state)
        _log.info("%s", state.progress.status)
        self._solve()
        if (number + 1) % self._settings.publishEvery == 0:
            self.publish()

    def publish(self) -> None:
        """Publish the model, if there is one."""
        if self.model is None:
            _log.warning("no model yet: %s", self.lacking())
        else:
            self._publish(self.model, self.state)

    def lacking(self) -> str | None:
        """Why there is no model."""
        found = self.state.statistics
        if self.model is not None:
            return None
        if found is None or not found.rows:
            return "no rows"
        p, n = found.moments.positive, found.moments.negative
        return f"one class only: {p.rows} positive and {n.rows} negative rows, expected both"

    def _known_columns(self) -> TrainingColumns | None:
        """The columns, unless their dimension is for the first row to tell."""
        none = self._stream.spark.createDataFrame([], self._stream.schema)
        found = self.state.statistics
        dimension = found.moments.dimension if found else self._names.numFeatures
        # Whatever can be wrong with the schema is told before the first batch.
        columns = self._resolved(none, dimension or 1)
        if dimension:
            return columns
        try:
            return self._resolved(none, None)
        except DataError:
            return None

    def _resolved(self, rows: DataFrame, dimension: int | None) -> TrainingColumns:
        names = self._names
        features = Features.resolve(rows, names.features, dimension)
        return TrainingColumns.resolve(
            rows, features, names.label, names.positiveLabel, names.weight
        )

    def _solve(self) -> None:
        found = self.state.statistics
        self.model = None
        if found is not None and found.has_both_classes:
            assert self._columns is not None
            self.model = model_of(found, self._columns, self._estimator)

    def _learned(self, batch: MicroBatch) -> _Learned:
        files = batch.files
        labels = self.state.statistics.labels if self.state.statistics else LabelCounts()
        try:
            return _Learned(self._statistics(batch.rows(files), labels), files, {})
        except DataError as error:
            if not files:
                # Nothing can be set aside.
                raise
            if len(files) == 1:
                return _Learned(None, [], self._refused(files[0], error))
            _log.warning("%d files are read one by one: %s", len(files), error)
        total: StreamStatistics | None = None
        kept: list[ArrivedFile] = []
        refused: dict[str, str] = {}
        for file in files:
            try:
                found = self._statistics(batch.rows([file]), labels)
            except DataError as error:
                refused |= self._refused(file, error)
                continue
            kept.append(file)
            if found is not None:
                labels = labels.merge(found.labels)
                total = found if total is None else total.merge(found)
        return _Learned(total, kept, refused)

    def _refused(self, file: ArrivedFile, error: DataError) -> dict[str, str]:
        _log.warning("the file %s is rejected: %s", file.path, error)
        return {file.path: str(error)}

    def _statistics(self, rows: DataFrame, before: LabelCounts) -> StreamStatistics | None:
        """Statistics of rows, None of no rows of a dimension not yet known; or `DataError`."""
        with translated():
            columns = self._columns
            if columns is None:
                if rows.isEmpty():
                    return None
                columns = self._resolved(rows, None)
            w = None if self.model is None else self.model.scorer.w
            found = statistics(rows_of_any_class(rows, columns), w)
        check_labels(before.merge(found.labels), columns.positive)
        self._columns = columns
        return found

    def _next(self, number: int, found: _Learned, start: float) -> StreamState:
        """The state with a batch added."""
        done, total, batch = self.state.progress, self.state.statistics, found.statistics
        newest = max((f.modified for f in found.files), default=done.newest)
        if done.newest is not None:
            newest = max(cast(float, newest), done.newest)
        if batch is not None:
            waited = 0.0 if done.newest is None else cast(float, newest) - done.newest
            faded = fading(self._settings.halfLife, batch.rows, waited)
            total = batch if total is None else total.faded(faded).merge(batch)
        rows, seconds = batch.rows if batch else 0, time.perf_counter() - start
        both = total is not None and total.has_both_classes
        bounds = total.auc_bounds() if total else None
        progress = Progress(
            number,
            done.files + len(found.files),
            done.rejected + len(found.refused),
            newest,
            found.refused,
            {
                "batch": number,
                "files": len(found.files),
                "rejected": len(found.refused),
                "rows": rows,
                "seconds": round(seconds, 3),
                "rowsPerSecond": round(rows / seconds, 1),
                "auc": batch.auc() if batch else None,
                "prequentialAUC": total.auc() if total else None,
                "prequentialBounds": list(bounds) if bounds else None,
                "model": "of all rows so far" if both else "none yet: no rows of both classes",
            },
            **self._fixed,
            account=self._checkpoint.account.kept(number),
        )
        return replace(self.state, progress=progress, statistics=total)


def fading(half_life: HalfLife | None, rows: int, hours: float) -> float:
    """By what older rows' weights are multiplied before a batch of rows, so long after the last."""
    if half_life is None:
        return 1.0
    if half_life.rows is not None:
        return float(0.5 ** (rows / half_life.rows))
    return float(0.5 ** (hours / cast(float, half_life.hours)))
