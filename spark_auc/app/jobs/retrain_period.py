"""One period of a retraining: read, judge, decide, publish, store."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import date
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.challenger import Challenger, challenger
from spark_auc.app.jobs.champion import (
    Champion,
    check_champion,
    compared_models,
    publish_champion,
    scorable,
)
from spark_auc.app.jobs.decision import decided
from spark_auc.app.jobs.gate_rows import (
    CHALLENGER,
    GateRows,
    pooled_periods,
    readable_rows,
)
from spark_auc.app.jobs.period_drift import measured
from spark_auc.app.jobs.period_rows import period_moments, training_columns
from spark_auc.app.jobs.raw_rows import features_by
from spark_auc.app.jobs.retrain_history import History
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import Label
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError, DataError
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.rows import Segments
from spark_auc.store.sources import ROWS
from spark_auc.store.stored_labels import has_negative_label, store_negative_label
from spark_auc.training.timer import PhaseTimer

if TYPE_CHECKING:
    from spark_auc.app.jobs.engines import Engine
    from spark_auc.pipeline.models import FittedRecipe
    from spark_auc.tables.columns import TrainingColumns
    from spark_auc.tables.table import Table

_log = logging.getLogger(__name__)


class PeriodRun:
    """What a run does with each of its periods.

    Parameters
    ----------
    engine
        What reads the rows.
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
        engine: Engine,
        config: Retrain,
        recipe: FittedRecipe | None,
        store: MomentStore,
        history: History,
        settings: dict[str, Any],
    ) -> None:
        self.settings = settings
        self.engine, self.config, self.recipe = engine, config, recipe
        self.store, self.history = store, history
        self._features, self._has_label = features_by(recipe, config.columns), False

    def columns(self, rows: Table) -> TrainingColumns:
        """The columns of a period's rows; `ConfigError` or `DataError` for another schema."""
        return training_columns(rows, self.config.columns, self._features, self.store.facts)

    def moments(
        self, rows: Table, columns: TrainingColumns
    ) -> tuple[Segments, tuple[Label, Label] | None]:
        """The moments of a period's rows, and their two labels; errors of `period_moments`."""
        made = period_moments(rows, self.config, columns, self.history, self.store.schema_id)
        if (labels := made[1]) is not None:
            # Before a decision: streams may have stored rows of another negative label.
            self._has_label = has_negative_label(self.store.location, self.store.facts, labels[1])
        return made

    def put(self, period: str, moments: Segments, labels: Sequence[Label] | None) -> None:
        """Store the moments of a period's rows, and the negative label if it is not stored."""
        if labels is not None and not self._has_label:
            store_negative_label(self.store.location, self.store.facts, labels[1])
        self.store.put(period, ROWS, moments)

    def complete(self, period: str, champion: Champion | None) -> dict[str, Any]:
        """Decide about a period and store it, or end what an earlier run began.

        Returns
        -------
        dict
            The record of the period.
        """
        record = self.history.records.get(period)
        here = {"schemaId": self.store.schema_id, "settings": self.settings}
        if record is not None and not record["completed"]:
            # The run that decided was killed. If it had stored the period, the rows may be deleted;
            # the store may have another schema since then.
            if period not in self.store.periods(ROWS) or any(self._readable(period)):
                self._store(period)
            record = record | here
        elif any(later > period for later in self.store.periods(ROWS)):
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
            timer = PhaseTimer(record["phases"])
            self.put(period, moments, record.get("labels"))
            timer.end("store")
            record = record | timer.as_dict()
        sizes = self.store.sizes()
        record = record | {
            "completed": True,
            "store": {"periods": len(self.store.periods()), "bytes": sum(sizes.values())},
        }
        if not self.config.dryRun:
            self.history.write(record)
        return record

    def _store(self, period: str) -> None:
        """Read the rows of a period, and store their moments."""
        source = self.config.rows_of(period)
        source.check()
        with self.engine.read(source) as rows:
            moments, labels = self.moments(rows, self.columns(rows))
        if not self.config.dryRun:
            self.put(period, moments, labels)

    def _decided(self, period: str, champion: Champion | None) -> tuple[dict[str, Any], Segments]:
        """The record of a period, after its challenger is published or not, and its moments."""
        timer, config = PhaseTimer(), self.config
        with ExitStack() as stack:
            rows = stack.enter_context(self.engine.read(config.rows_of(period)))
            try:
                columns = self.columns(rows)
            except (ConfigError, DataError) as error:
                if not self.store.periods():
                    raise
                # The same settings served the stored periods: the rows have another schema.
                return self._other_schema(period, champion, error), {}
            judged = scorable(champion, rows, config)
            moments, labels = self.moments(rows, columns)
            timer.end("moments")
            total = reduce(PairMoments.merge, chain.from_iterable(moments.values()))
            counts = total.positive.rows, total.negative.rows
            pooled, pooled_counts = self._pooled(period, counts, champion)
            before = [p for p in self.store.periods() if p < pooled[0]]
            trained = None
            if labels is not None:
                trained = challenger(
                    self.store, before, self.history, config, self.recipe, labels, columns, champion
                )
            timer.end("training")
            sources = [
                stack.enter_context(self.engine.read(config.rows_of(p))) for p in pooled[:-1]
            ]
            models = compared_models(None if trained is None else trained.model, judged)
            gate = stack.enter_context(
                GateRows.of([*sources, rows], models, config.columns, pooled_counts)
            )
            drift = measured(
                config,
                self.history,
                self.recipe,
                rows,
                total,
                trained,
                judged,
                gate if labels else None,
                columns.features.labels(),
            )
            found = drift.found
            timer.end("drift")
            record: dict[str, Any] = {
                "period": period,
                "schemaId": self.store.schema_id,
                "settings": self.settings,
                "rows": list(counts),
                **({} if labels is None else {"labels": list(labels)}),
                "champion": None if champion is None else champion.period,
                "challenger": None if trained is None else trained.as_dict(),
                **drift.as_dict(),
            }
            if drift.scores is not None and champion is not None:
                record["scoredBy"] = champion.period
            accepted = date.fromisoformat(period) in config.accept
            quarantined = bool(found.stops) and not accepted
            if quarantined:
                record |= {"outcome": "quarantined", "reason": "; ".join(found.stops)}
            else:
                decision = decided(
                    config, self.history, gate, champion, judged, trained, pooled, found
                )
                if labels and models and min(gate.rows) >= config.gate.least:
                    record["gate"] = gate.as_dict()
                record |= decision.as_dict()
            timer.end("decision")
            record |= {"completed": quarantined} | timer.as_dict()
            _log.info("period %s: %s, %s", period, record["outcome"], record["reason"])
            if not config.dryRun:
                record = self._recorded(record, gate, champion, trained, drift.scores, timer)
        return record, moments

    def _other_schema(
        self, period: str, champion: Champion | None, error: Exception
    ) -> dict[str, Any]:
        """The record of a period whose rows have other columns than those of the stored ones."""
        record = {
            "period": period,
            "schemaId": self.store.schema_id,
            "settings": self.settings,
            "champion": None if champion is None else champion.period,
            "outcome": "quarantined",
            "reason": f"other columns: {error}",
            "completed": True,
        }
        _log.warning("period %s: %s", period, record["reason"])
        if not self.config.dryRun:
            self.history.check_unchanged(period)
            self.history.write(record)
        return record

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
        return readable_rows(self.engine, self.config, period)

    def _recorded(
        self,
        record: dict[str, Any],
        gate: GateRows,
        champion: Champion | None,
        trained: Challenger | None,
        scores: ScoreHistogram | None,
        timer: PhaseTimer,
    ) -> dict[str, Any]:
        """Publish a promoted challenger, and write the record."""
        self.history.check_unchanged(record["period"])
        if scores is not None:
            self.history.write_scores(record["period"], scores)
        if record["outcome"] == "promoted" and trained is not None:
            anchor = None
            if champion is not None and not record["won"]:
                anchor = champion.anchor or champion.model
            made = Champion(trained.model, record, gate.histogram(CHALLENGER), anchor)
            publish_champion(self.config, made, champion)
        else:
            check_champion(self.config.output.path, champion)
        timer.end("publication")
        record = record | timer.as_dict()
        self.history.write(record)
        return record

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
