"""The batches of a stream in a store of moments: by the day of each row, as further sources."""

from __future__ import annotations

import json
import logging
from functools import reduce
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame

from spark_auc.app.config.sections import Columns
from spark_auc.app.config.stream import StoreSection
from spark_auc.app.jobs.period_rows import training_columns
from spark_auc.app.jobs.raw_rows import FeaturesOf
from spark_auc.app.jobs.store_facts import facts_of, with_stored_segments
from spark_auc.app.jobs.stream_state import Checkpoint, StreamState
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError
from spark_auc.pipeline.models import FittedRecipe
from spark_auc.pipeline.retraining import fold_moments
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.streaming.days import days, of_day
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.rows import Segments
from spark_auc.store.stored_labels import store_negative_label
from spark_auc.store.streams import StoredStream
from spark_auc.tables.columns import TrainingColumns

_log = logging.getLogger(__name__)

_MARK = "store.json"


class StreamStore:
    """Appends batches to the store that the configuration names.

    Parameters
    ----------
    section
        The store, and the column of the days.
    names
        The section of the columns.
    features
        Makes the features of rows.
    recipe
        The fitted recipe; None for prepared features.
    checkpoint, state
        The checkpoint, and its last state.

    Raises
    ------
    ConfigError
        The store has moments of other facts, or batches that this checkpoint did not store.
    """

    def __init__(
        self,
        section: StoreSection,
        names: Columns,
        features: FeaturesOf,
        recipe: FittedRecipe | None,
        checkpoint: Checkpoint,
        state: StreamState,
    ) -> None:
        self._section, self._names = section, names
        self._features, self._recipe = features, recipe
        self._checkpoint, self._last = checkpoint.directory, state.progress.batch
        self._store: MomentStore | None = None
        self._has_label = False
        self._mark = section.model_dump(mode="json", exclude_none=True)
        self._known = _MARK in self._checkpoint.names()
        self._check_mark()

    def check(self, rows: DataFrame) -> list[str]:
        """The days of rows, ascending; `DataError` if a row has none."""
        return days(rows, self._section.period)

    def append(self, number: int, rows: DataFrame) -> dict[str, Any]:
        """Store the moments of a batch, and return the rows of each period for its status.

        Raises
        ------
        ConfigError
            See the class.
        DataError
            A value cannot be used.
        StoreConflict
            Another job changed the same source.
        """
        periods = self.check(rows)
        store, columns = self._opened(rows)
        stream = StoredStream(store, self._section.name)
        folds = Folds(self._section.folds, self._section.seed)
        made = {
            period: fold_moments(
                SparkTable(of_day(rows, self._section.period, period), files=False), columns, folds
            )
            for period in periods
        }
        labels = reduce(LabelCounts.merge, (found for _, found in made.values()), LabelCounts())
        if len(labels.rows) > 1 and not self._has_label:
            _, negative = labels.classes(columns.positive)
            store_negative_label(store.location, store.facts, negative)
            self._has_label = True
        left_out = stream.append(number, {period: parts for period, (parts, _) in made.items()})
        for period in made.keys() - left_out:
            # The checkpoint can fall back by one batch, which is then repeated.
            stream.compact(period, number - 2)
        counts = {period: _rows(parts) for period, (parts, _) in made.items()}
        if left_out:
            _log.warning(
                "left out rows of %s: a batch job stored these periods; set retrain.lookback to "
                "read late rows",
                ", ".join(left_out),
            )
        return {
            "stored": {period: n for period, n in counts.items() if period not in left_out},
            "leftOut": {period: counts[period] for period in left_out},
        }

    def _opened(self, rows: DataFrame) -> tuple[MomentStore, TrainingColumns]:
        """The store, with what other jobs stored since the last batch, and the columns of rows."""
        section, store, table = self._section, self._store, SparkTable(rows, files=False)
        if store is None:
            dimension = self._features(table, None).dimension
            facts = facts_of(dimension, section.folds, section.seed, self._names, self._recipe)
            if section.segment is not None:
                stored = MomentStore.stored_facts(section.location())
                facts = with_stored_segments(facts, stored, section.segment, section.schemaId)
            store = MomentStore(section.location(), facts)
        columns = training_columns(table, self._names, self._features, store.facts)
        if self._store is None:
            self._begin(StoredStream(store, section.name).last())
            self._store = store
        store.refresh()
        return store, columns

    def _check_mark(self) -> None:
        """`ConfigError` if the batches of this checkpoint are stored in another way."""
        if self._known and (found := json.loads(self._checkpoint.read(_MARK))) != self._mark:
            raise ConfigError(
                f"found batches of this checkpoint stored as {found}, expected {self._mark}; "
                "restore opauc.stream.store, or set another checkpoint and opauc.stream.store.name"
            )

    def _begin(self, stored: int) -> None:
        """Note in the checkpoint that its batches are stored; refuse batches of another one."""
        section = self._section
        if stored > (self._last + 1 if self._known else -1):
            raise ConfigError(
                f"found batches up to {stored} of the stream {section.name!r} in the store "
                f"{section.path!r}, expected none after batch {self._last} of this checkpoint, "
                "which would count rows twice; set another opauc.stream.store.name if the rows are "
                "others, or restore the checkpoint"
            )
        if not self._known:
            self._checkpoint.replace(_MARK, json.dumps(self._mark).encode())
            self._known = True


def _rows(segments: Segments) -> int:
    total = reduce(PairMoments.merge, chain.from_iterable(segments.values()))
    return total.positive.rows + total.negative.rows
