"""Learn a stream batch by batch: score, add to the statistics, commit, solve, publish."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame

from spark_auc.app.config.jobs import Opauc
from spark_auc.app.jobs.drift import log_unknown
from spark_auc.app.jobs.raw_rows import FeaturesOf
from spark_auc.app.jobs.stream_state import Checkpoint, Progress, StreamState
from spark_auc.core.labels import LabelCounts
from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.streaming.learning import Learning, Part
from spark_auc.spark.streaming.stream import ArrivedFile, MicroBatch, Stream
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.table import Table
from spark_auc.training.stream_statistics import StreamStatistics, check_labels

if TYPE_CHECKING:
    from spark_auc.app.jobs.stream_store import StreamStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _LearnedBatch:
    """Statistics of a batch, its valid files, and the reasons for rejecting the others."""

    statistics: StreamStatistics | None
    files: Sequence[ArrivedFile]
    refused: dict[str, str]


class StreamLearner:
    """Learns a stream; its complete state is in the checkpoint.

    Parameters
    ----------
    stream
        The source.
    config, settings
        The job's configuration, and the settings that its states store.
    checkpoint, state
        The checkpoint, and the last state committed to it.
    features
        Makes the features of rows.
    learning
        How rows are learned.
    publish
        Publishes the model of a state.
    drift
        Counts the drift of rows for the status; see `spark_auc.app.jobs.drift`. None: it is not
        counted.
    store
        The store of moments to which batches are added.
    """

    def __init__(
        self,
        stream: Stream,
        config: Opauc,
        settings: dict[str, Any],
        checkpoint: Checkpoint,
        state: StreamState,
        features: FeaturesOf,
        learning: Learning,
        publish: Callable[[LinearRankerModel, StreamState], None],
        drift: Callable[[Table], dict[str, Any]] | None = None,
        store: StreamStore | None = None,
    ) -> None:
        assert config.stream is not None
        self.state = state
        self.model: LinearRankerModel | None = None
        self._stream, self._settings, self._names = stream, config.stream, config.columns
        self._checkpoint, self._learning, self._publish = checkpoint, learning, publish
        self._drift, self._said, self._store = drift, False, store
        self._features, self._stored_settings = features, settings
        if state.statistics is not None:
            learning.check(state.statistics)
        self._columns = self._known_columns()
        self._solve()

    def learn(self, number: int, opened: Callable[[], MicroBatch]) -> None:
        """Learn a batch, unless the state already contains it.

        Parameters
        ----------
        number
            Number of the batch.
        opened
            Returns the rows of the batch.

        Raises
        ------
        ConfigError
            A batch is missing, or Spark's checkpoint belongs to another stream.
        DataError
            A row of a source without files is invalid.
        """
        last = self.state.progress.batch
        self._checkpoint.account.check(self.state.progress.account)
        if number <= last:
            _log.info("skipped batch %d: the stored state already contains it", number)
            self._checkpoint.move_refused(self.state)
            return
        if number != last + 1:
            raise ConfigError(
                f"found batch {number} after batch {last}, expected {last + 1}; restore the "
                "complete directory opauc.stream.checkpoint, or set another to start again"
            )
        start = time.perf_counter()
        batch = opened()
        learned = self._learned(number, batch)
        told = self._drifted(batch, learned) | self._stored(number, batch, learned)
        state = self._next(number, learned, start, told)
        self._checkpoint.commit(state)
        self.state = state
        # If the process dies here, the next start repeats these two steps.
        self._checkpoint.move_refused(state)
        self._checkpoint.note(state)
        _log_status(state.progress.status)
        self._solve()
        if (number + 1) % self._settings.publishEvery == 0:
            self.publish()

    def publish(self) -> None:
        """Publish the model, once the stream has rows of both classes."""
        if self.model is None:
            _log.warning("published no model, because the stream has %s", self.lacking())
        else:
            self._publish(self.model, self.state)

    def lacking(self) -> str | None:
        """The reason why there is no model; None if there is one."""
        statistics = self.state.statistics
        if self.model is not None:
            return None
        if statistics is None or not statistics.rows:
            return "no rows"
        positive, negative = statistics.class_rows
        return f"one class only: {positive} positive and {negative} negative rows, expected both"

    def _known_columns(self) -> TrainingColumns | None:
        """The training columns; None if only the first row shows their dimension."""
        no_rows = self._stream.spark.createDataFrame([], self._stream.schema)
        state = self.state.statistics
        dimension = state.moments.dimension if state else self._names.numFeatures
        # Reports errors in the schema before the first batch.
        columns = self._resolved(SparkTable(no_rows), dimension or 1)
        if dimension:
            return columns
        try:
            return self._resolved(SparkTable(no_rows), None)
        except DataError:
            return None

    def _resolved(self, rows: Table, dimension: int | None) -> TrainingColumns:
        names = self._names
        return TrainingColumns.resolve(
            rows,
            self._features(rows, dimension),
            names.label,
            names.positiveLabel,
            names.weight,
            names.key if self._learning.keyed else None,
            placed=self._learning.keyed,
        )

    def _solve(self) -> None:
        state = self.state.statistics
        self.model = None
        if state is not None and state.has_both_classes:
            assert self._columns is not None
            self.model = self._learning.model(state, self._columns)

    def _learned(self, number: int, batch: MicroBatch) -> _LearnedBatch:
        files, before = batch.files, self.state.statistics
        labels = before.labels if before else LabelCounts()
        try:
            found = self._statistics(batch, files, labels, before, (number, 0))
            return _LearnedBatch(found, files, {})
        except DataError as error:
            if not files:
                raise
            if len(files) == 1:
                return _LearnedBatch(None, [], self._refused(files[0], error))
            _log.warning("reading %d files one by one, because %s", len(files), error)
        total: StreamStatistics | None = None
        valid: list[ArrivedFile] = []
        refused: dict[str, str] = {}
        for k, file in enumerate(files):
            try:
                part = self._statistics(batch, [file], labels, total or before, (number, k))
            except DataError as error:
                refused |= self._refused(file, error)
                continue
            valid.append(file)
            if part is not None:
                labels = labels.merge(part.labels)
                total = part if total is None else total.merge(part)
        return _LearnedBatch(total, valid, refused)

    def _refused(self, file: ArrivedFile, error: DataError) -> dict[str, str]:
        _log.warning("rejected the file %s: %s", file.path, error)
        return {file.path: str(error)}

    def _statistics(
        self,
        batch: MicroBatch,
        files: Sequence[ArrivedFile],
        labels: LabelCounts,
        before: StreamStatistics | None,
        place: tuple[int, int],
    ) -> StreamStatistics | None:
        """Statistics of rows; None if there are no rows and none before."""
        rows = batch.rows(files)
        if self._learning.in_order and len(files) > 1:
            rows = reduce(DataFrame.unionAll, (batch.rows([file]) for file in files))
        with translated():
            if before is None and rows.isEmpty():
                return None
            # Tasks that read files themselves list the whole directory of a file first.
            table = SparkTable(rows, files=False)
            columns = self._columns or self._resolved(table, None)
            w = None if self.model is None else self.model.scorer.w
            part = self._learning.learned(Part(table, columns, before, w, *place))
        check_labels(labels.merge(part.labels), columns.positive)
        if self._store is not None:
            self._store.check(rows)
        self._columns = columns
        return part

    def _drifted(self, batch: MicroBatch, learned: _LearnedBatch) -> dict[str, Any]:
        """The drift of the rows that were learned."""
        if self._drift is None or (batch.files and not learned.files):
            return {}
        with translated():
            drift = self._drift(SparkTable(batch.rows(learned.files), files=False))
        if not self._said:
            log_unknown(drift)
        self._said = True
        return drift

    def _stored(self, number: int, batch: MicroBatch, learned: _LearnedBatch) -> dict[str, Any]:
        """Add the batch to the store of moments, before the checkpoint has it."""
        if self._store is None or learned.statistics is None or not learned.statistics.rows:
            return {}
        with translated():
            return self._store.append(number, batch.rows(learned.files))

    def _next(
        self, number: int, learned: _LearnedBatch, start: float, told: Mapping[str, Any]
    ) -> StreamState:
        """The state after adding a batch."""
        before, total, batch = self.state.progress, self.state.statistics, learned.statistics
        newest = max((f.modified for f in learned.files), default=before.newest)
        if before.newest is not None:
            newest = max(cast(float, newest), before.newest)
        if batch is not None:
            hours = 0.0 if before.newest is None else cast(float, newest) - before.newest
            half_life = self._settings.halfLife
            factor = 1.0 if half_life is None else half_life.factor(batch.rows, hours)
            total = batch if total is None else total.faded(factor).merge(batch)
        rows, seconds = batch.rows if batch else 0, time.perf_counter() - start
        both = total is not None and total.has_both_classes
        bounds = total.auc_bounds() if total else None
        progress = Progress(
            number,
            before.files + len(learned.files),
            before.rejected + len(learned.refused),
            newest,
            learned.refused,
            {
                "batch": number,
                "files": len(learned.files),
                "rejected": len(learned.refused),
                "rows": rows,
                "seconds": round(seconds, 3),
                "rowsPerSecond": round(rows / seconds, 1),
                "auc": batch.auc() if batch else None,
                "prequentialAUC": total.auc() if total else None,
                "prequentialBounds": list(bounds) if bounds else None,
                "model": "of all rows so far" if both else "none yet: no rows of both classes",
                **told,
            },
            settings=self._stored_settings,
            account=self._checkpoint.account.kept(number),
        )
        return replace(self.state, progress=progress, statistics=total)


def _log_status(status: Mapping[str, Any]) -> None:
    auc = status["prequentialAUC"]
    _log.info(
        "batch %d: %d rows, %d files, %d rejected, %.1f s, prequential AUC %s",
        *(status[name] for name in ("batch", "rows", "files", "rejected", "seconds")),
        "unknown" if auc is None else f"{auc:.6f}",
    )
