"""One period of a retraining: read, judge, decide, publish, store."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from datetime import date
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.challenger import Challenger, challenger
from spark_auc.app.jobs.champion import Champion, published_record, write_champion
from spark_auc.app.jobs.gate_rows import (
    ANCHOR,
    CHALLENGER,
    CHAMPION,
    GateRows,
    pooled_periods,
    readable_rows,
)
from spark_auc.app.jobs.published_model import KIND
from spark_auc.app.jobs.raw_rows import features_by
from spark_auc.app.jobs.retrain_history import History
from spark_auc.app.publish import publication
from spark_auc.core.labels import Label
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConflictError, DataError
from spark_auc.retraining.drift import Drift, Limits, drift
from spark_auc.retraining.gate import Decision, Gate, Outcome
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.rows import Segments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_auc.spark.data.columns import TrainingColumns
    from spark_auc.spark.features.recipe import FeatureRecipeModel
    from spark_auc.spark.pipeline import RankerPipelineModel

_log = logging.getLogger(__name__)

SOURCE = "rows"


class PeriodRun:
    """What a run does with each of its periods.

    Parameters
    ----------
    spark
        The session.
    config
        The section.
    recipe
        The fitted recipe; None for prepared features.
    store
        The store.
    history
        The records.
    settings
        What decides the recipe and the columns, for the records.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: Retrain,
        recipe: FeatureRecipeModel | None,
        store: MomentStore,
        history: History,
        settings: dict[str, Any],
    ) -> None:
        self.settings = settings
        self.spark, self.config, self.recipe = spark, config, recipe
        self.store, self.history = store, history
        self._features = features_by(recipe, config.columns)

    def _moments(
        self, rows: DataFrame
    ) -> tuple[Segments, tuple[Label, Label] | None, TrainingColumns]:
        """The moments of a period's folds, its two labels (None for fewer), and its columns."""
        from spark_auc.spark.data.columns import TrainingColumns
        from spark_auc.spark.retraining import fold_moments

        names, facts = self.config.columns, self.store.facts
        features = self._features(rows, facts.dimension)
        columns = TrainingColumns.resolve(
            rows, features, names.label, names.positiveLabel, names.weight, names.key
        )
        folds = Folds(self.config.folds, self.config.seed)
        segments = facts.segment_column, facts.segments
        moments, labels = fold_moments(rows, columns, folds, *segments)
        if not labels.rows:
            raise DataError(
                "found no rows of the period, expected some; check retrain.data, or set "
                "retrain.exclude to its date"
            )
        classes = labels.classes(columns.positive) if len(labels.rows) > 1 else None
        return moments, classes, columns

    def complete(self, period: str, champion: Champion | None) -> dict[str, Any]:
        """Decide about a period and store it, or end what an earlier run began.

        Returns
        -------
        dict
            The record of the period.
        """
        record = self.history.records.get(period)
        for earlier in self._looked_back(period):
            self._store(earlier)
        here = {"schemaId": self.store.schema_id, "settings": self.settings}
        if record is not None and not record["completed"]:
            # The run that decided was killed. If it had stored the period, the rows may be deleted;
            # the store may have another schema since then.
            if period not in self.store.periods() or any(self._readable(period)):
                self._store(period)
            record = record | here
        elif any(later > period for later in self.store.periods()):
            self._store(period)
            record = (record or {"period": period}) | here
            record |= {
                "outcome": "stored",
                "reason": "later periods are stored, so that no challenger is judged on it",
            }
        else:
            record, moments = self._decided(period, champion)
            if self.config.dryRun or record["completed"]:
                return record
            self.store.put(period, SOURCE, moments)
        record = record | {"completed": True}
        if not self.config.dryRun:
            self.history.write(record)
        return record

    def _store(self, period: str) -> None:
        """Read the rows of a period, and store their moments."""
        source = self.config.rows_of(period)
        source.check()
        with source.read(self.spark) as rows:
            moments, _, _ = self._moments(rows)
        if not self.config.dryRun:
            self.store.put(period, SOURCE, moments)

    def _looked_back(self, period: str) -> list[str]:
        """The stored periods before this one whose rows are to be read again."""
        count = self.config.lookback
        left_out = self.history.excluded()
        earlier = [p for p in self.store.periods() if p < period and p not in left_out]
        return [p for p in earlier[-count:] if any(self._readable(p))] if count else []

    def _decided(self, period: str, champion: Champion | None) -> tuple[dict[str, Any], Segments]:
        """The record of a period, after its challenger is published or not, and its moments."""
        start = time.perf_counter()
        config = self.config
        with ExitStack() as stack:
            rows = stack.enter_context(config.rows_of(period).read(self.spark))
            moments, labels, columns = self._moments(rows)
            total = reduce(PairMoments.merge, chain.from_iterable(moments.values()))
            counts = total.positive.rows, total.negative.rows
            pooled, pooled_counts = self._pooled(period, counts, champion)
            before = [p for p in self.store.periods() if p < pooled[0]]
            trained = None
            if labels is not None:
                excluded = self.history.excluded()
                trained = challenger(
                    self.store, before, excluded, config, self.recipe, labels, columns
                )
            sources = [stack.enter_context(config.rows_of(p).read(self.spark)) for p in pooled[:-1]]
            models = _models(None if trained is None else trained.model, champion)
            gate = stack.enter_context(
                GateRows.of([*sources, rows], models, config.columns, pooled_counts)
            )
            found = self._drift(total, trained, champion, gate if labels else None)
            record: dict[str, Any] = {
                "period": period,
                "schemaId": self.store.schema_id,
                "settings": self.settings,
                "rows": list(counts),
                "champion": None if champion is None else champion.period,
                "challenger": None if trained is None else trained.as_dict(),
                "drift": found.as_dict(),
            }
            accepted = date.fromisoformat(period) in config.accept
            quarantined = bool(found.stops) and not accepted
            if quarantined:
                record |= {"outcome": "quarantined", "reason": "; ".join(found.stops)}
            else:
                decision = self._decision(gate, champion, trained, period, found)
                if labels and models and min(gate.rows) >= config.gate.least:
                    record["gate"] = gate.as_dict()
                record |= decision.as_dict()
            seconds = round(time.perf_counter() - start, 3)
            record |= {"completed": quarantined, "seconds": seconds}
            _log.info("period %s: %s, %s", period, record["outcome"], record["reason"])
            if not config.dryRun:
                self.history.check_unchanged(period)
                if record["outcome"] == "promoted" and trained is not None:
                    self._publish(gate, champion, trained, record)
                self.history.write(record)
        return record, moments

    def _drift(
        self,
        total: PairMoments,
        trained: Challenger | None,
        champion: Champion | None,
        gate: GateRows | None,
    ) -> Drift:
        scores = None
        if champion is not None and gate is not None:
            scores = champion.scores, gate.histogram(CHAMPION)
        before = total if trained is None else trained.moments
        found = drift(before, total, scores, Limits(**self.config.drift.model_dump()))
        for sentence in (*found.warnings, *found.stops):
            _log.warning("drift: %s", sentence)
        return found

    def _pooled(
        self, period: str, counts: tuple[int, int], champion: Champion | None
    ) -> tuple[list[str], tuple[int, int]]:
        """The gate's periods, ascending, and their rows; see `pooled_periods`."""
        # Rows that the champion was trained on would favour it.
        trained_to = "" if champion is None else champion.record["challenger"]["to"]
        left_out = self.history.excluded()
        earlier = [p for p in self.store.periods() if trained_to < p < period and p not in left_out]
        return pooled_periods(period, counts, earlier, self.config.gate, self._readable)

    def _readable(self, period: str) -> tuple[int, int]:
        return readable_rows(self.spark, self.config, period)

    def _decision(
        self,
        gate: GateRows,
        champion: Champion | None,
        trained: Challenger | None,
        period: str,
        found: Drift,
    ) -> Decision:
        rule = self.config.gate
        judge = Gate(rule.strict, rule.level, rule.oldest, rule.least)
        outcome: Outcome = "stored" if champion is None else "kept"
        if trained is None:
            return Decision(outcome, "no earlier periods with rows of both classes are stored")
        if not judge.enough(gate.rows):
            return Decision(outcome, judge.few(gate.rows))
        if champion is None:
            return judge.first(gate.interval(CHALLENGER), gate.rows)
        age = (date.fromisoformat(period) - date.fromisoformat(champion.period)).days
        warned = bool(found.warnings or found.stops or self.history.warned() & {*trained.periods})
        return judge.decide(gate.paired(), gate.rows, age, warned)

    def _publish(
        self,
        gate: GateRows,
        champion: Champion | None,
        trained: Challenger,
        record: dict[str, Any],
    ) -> None:
        anchor = None
        if champion is not None and not record["won"]:
            anchor = champion.anchor or champion.model
        made = Champion(trained.model, record, gate.histogram(CHALLENGER), anchor)
        output = self.config.output
        with publication(output.path, True, KIND, keep=self.config.keep) as version:
            # The publication replaces the version from its start: that may be of another job.
            if published_record(output.path) != (None if champion is None else champion.record):
                raise ConflictError(
                    f"found another champion at {output.path!r} than at the start of this job, "
                    "expected one job at a time; the other champion remains: run this job again"
                )
            write_champion(version, made, self.config)

    def state(self) -> dict[str, Any]:
        """Facts about the store, for the result of the job."""
        stored = MomentStore.stored_facts(self.store.location)
        others = sorted(set(stored) - {self.store.schema_id})
        return {
            "schemaId": self.store.schema_id,
            "stored": len(self.store.periods()),
            "storeBytes": sum(self.store.sizes().values()),
            "lacking": {other: list(self.store.lacking(other)) for other in others},
        }


def _models(
    challenger: RankerPipelineModel | None, champion: Champion | None
) -> dict[str, RankerPipelineModel]:
    """The models that the gate's rows are scored by, in the order of their comparison."""
    models = {} if challenger is None else {CHALLENGER: challenger}
    if champion is not None:
        models[CHAMPION] = champion.model
        if champion.anchor is not None:
            models[ANCHOR] = champion.anchor
    return models
