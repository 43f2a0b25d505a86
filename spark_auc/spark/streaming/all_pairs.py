"""Learn a stream by the moments of all pairs, exact or approximate, solved in closed form."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from spark_auc.core.moments.head_moments import HeadMoments
from spark_auc.core.moments.low_rank_moments import LowRankMoments
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError, ResourceError
from spark_auc.pipeline.one_pass import model_of, statistics
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.mba import MBAClassifier
from spark_auc.spark.streaming.learning import Part, other_learner
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.rows import TableRows
from spark_auc.training.approximation import Approximation
from spark_auc.training.learned_rows import LearnedRows
from spark_auc.training.stream_statistics import Begun, StreamStatistics

_log = logging.getLogger(__name__)

# Rows that choose the columns of a head: fewer choose worse ones.
_LEAST_ROWS = 2_000


@dataclass
class AllPairs:
    """The moments of all pairs; see `spark_auc.spark.streaming.learning.Learning`.

    Parameters
    ----------
    estimator
        Penalty, standardization and approximation of the covariances.
    exact
        Whether the moments must be exact.
    keyed
        Whether rows need their key, or their place: random sketches do.
    """

    estimator: MBAClassifier
    exact: bool
    keyed: bool
    in_order: bool = False
    _begun: Begun | None = None

    @classmethod
    def of(cls, estimator: MBAClassifier, store: bool) -> AllPairs:
        """The way of an estimator; moments that join a store, or are set to be full, are exact."""
        kind = estimator.approximation.kind
        exact = store or (estimator.isSet("covariance") and kind == "full")
        return cls(estimator, exact, kind == "lowRank")

    def check(self, before: StreamStatistics) -> None:
        """See `Learning.check`."""
        moments, asked = before.moments, self.estimator.approximation.kind
        if isinstance(moments, LearnedRows):
            raise ConfigError(other_learner(moments, type(self.estimator).__name__))
        kind = "full" if isinstance(moments, PairMoments) else Approximation.of(moments).kind
        if kind != asked and (self.exact or asked != "full"):
            raise ConfigError(
                f"found opauc.training.covariance {asked!r} with a checkpoint of {kind!r}, "
                f"expected {kind!r}, which does not change; leave it out, or set another "
                "opauc.stream.checkpoint to start again"
            )

    def learned(self, part: Part) -> StreamStatistics:
        """See `Learning.learned`."""
        source = TableRows.of_any_class(part.table, part.columns)
        approximation = self._approximation(source, part)
        if approximation.kind == "full":
            return statistics(source, part.w)
        if self._begun is None:
            if approximation.chooses:
                approximation = self._chosen(source, approximation)
            self._begun = approximation.begun(source.dimension)
        size = approximation.state_bytes(source.dimension)
        keyed = approximation.rows(source, (part.batch, part.file))
        return statistics(keyed, part.w, self._begun, size)

    def _approximation(self, rows: TableRows, part: Part) -> Approximation:
        """The approximation: that of the rows before, or the one that is set.

        A head is the default where exact covariances do not fit in memory: rows of a stream cannot
        be read again.
        """
        approximation = self.estimator.approximation_for(part.columns.features)
        if part.before and isinstance(part.before.moments, HeadMoments | LowRankMoments):
            begun = Approximation.of(part.before.moments)
            if begun.kind == "head" and approximation.head not in (None, begun.head):
                raise ConfigError(
                    "found a recipe that names another head of columns than the checkpoint has, "
                    "expected the same, which does not change; set opauc.features.recipe to the "
                    "model of before, or another opauc.stream.checkpoint to start again"
                )
            return replace(begun, keyed=approximation.keyed)
        if approximation.kind == "full" and part.before is None:
            try:
                what = f"moments of {rows.dimension} features"
                rows.memory.check(PairMoments.nbytes(rows.dimension), what)
            except ResourceError as error:
                if self.exact:
                    raise
                _log.info("covariances are exact for a head of the columns only: %s", error)
                return replace(approximation, kind="head")
        return approximation

    def _chosen(self, rows: TableRows, approximation: Approximation) -> Approximation:
        """The approximation with a head; `ConfigError` if rows are too few to choose it."""
        columns = column_moments(rows)
        count = int(columns.rows.sum())
        if count < _LEAST_ROWS:
            raise ConfigError(
                f"found {count} rows in the first batch, expected {_LEAST_ROWS} at least, by "
                "which the columns of the head are chosen; let the first batch be larger "
                "(opauc.stream.maxFilesPerTrigger, or the limits of the source), or set "
                "opauc.features.recipe to a model that was published with covariance 'head', whose "
                "head then serves a first batch of any size"
            )
        chosen = approximation.chosen(columns)
        _log.info(
            "chose a head of %d among %d columns by %d rows",
            *(chosen.head_size, rows.dimension, count),
        )
        return chosen

    def model(self, statistics: StreamStatistics, columns: TrainingColumns) -> LinearRankerModel:
        """See `Learning.model`."""
        prior = self.estimator.prior_for(columns.features)
        made: LinearRankerModel = model_of(statistics, columns, self.estimator, prior=prior)
        return made
