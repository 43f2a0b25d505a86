"""Stored periods whose rows are read again: late rows, and rows under the schema of a refresh.

The rows pass the rules that stop a new period. Rows that are stopped replace nothing: the period
keeps its stored moments.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import date
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_auc.app.jobs.challenger import window_of
from spark_auc.app.jobs.champion import Champion, unscorable
from spark_auc.app.jobs.gate_rows import CHAMPION, GateRows
from spark_auc.app.jobs.period_drift import PeriodDrift, measured
from spark_auc.app.jobs.retrain_period import PeriodRun
from spark_auc.core.labels import Label
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError, DataError
from spark_auc.store.rows import Segments, Source
from spark_auc.store.sources import ROWS
from spark_auc.store.windows import Window

if TYPE_CHECKING:
    from spark_auc.tables.columns import TrainingColumns
    from spark_auc.tables.table import Table

_log = logging.getLogger(__name__)

_KEY = "readAgain"


class _Before(NamedTuple):
    """The periods before one, and their moments."""

    periods: tuple[str, ...]
    moments: PairMoments
    parts: tuple[tuple[float, int, int], ...] = ()


class PeriodsAgain:
    """Reads rows of stored periods again, each period once in a run.

    Parameters
    ----------
    run
        What the run does with its periods.
    """

    def __init__(self, run: PeriodRun) -> None:
        self.run, self._read = run, set[str]()
        self._results: list[dict[str, Any]] = []

    def leave_out(self, period: str) -> None:
        """Leave out a period from now on, since its rows were read in this run."""
        self._read.add(period)

    def looked_back(self, period: str) -> list[str]:
        """The stored periods before one that ``lookback`` names."""
        count = self.run.config.lookback
        earlier = _earlier(self.run, period)
        return earlier[-count:] if count else []

    def results(self) -> list[dict[str, Any]]:
        """The periods whose rows are not those stored: whether these were replaced, and why."""
        return self._results

    def stopped(self) -> list[dict[str, Any]]:
        """The results of stored periods that keep their moments."""
        stored = self.run.store.periods()
        return [r for r in self._results if not r["replaced"] and r["period"] in stored]

    def read(self, periods: Iterable[str], champion: Champion | None) -> None:
        """Read the rows of periods, and replace moments of other rows.

        Raises
        ------
        DataError
            A value cannot be used, or a label is not that of the other periods.
        StoreConflict
            Another job changed a period.
        """
        for period in periods:
            if period not in self._read:
                self.leave_out(period)
                self._read_period(period, champion)

    def _read_period(self, period: str, champion: Champion | None) -> None:
        run = self.run
        if not _has_rows(run, period):
            return
        with run.engine.read(run.config.rows_of(period)) as rows:
            try:
                columns = run.columns(rows)
            except (ConfigError, DataError) as error:
                self._keep(period, f"other columns: {error}")
                return
            moments, labels = run.moments(rows, columns)
            if _is_stored(run, period, moments):
                return
            total = reduce(PairMoments.merge, chain.from_iterable(moments.values()))
            record = run.history.records.get(period) or _without_record(period)
            if record.get("scoredBy") != (champion and champion.period):
                # Scores of another champion are no reference of this one's.
                champion = None
            drift = self._drift(record, rows, total, columns, champion if labels else None)
            is_accepted = date.fromisoformat(period) in run.config.accept
            if drift.found.stops and not is_accepted:
                self._keep(period, "; ".join(drift.found.stops))
            else:
                self._replace(record, moments, total, labels, drift)

    def _drift(
        self,
        record: dict[str, Any],
        rows: Table,
        total: PairMoments,
        columns: TrainingColumns,
        champion: Champion | None,
    ) -> PeriodDrift:
        """The drift of the rows from the stored periods before theirs."""
        run = self.run
        if champion is not None and unscorable(champion.model, rows):
            champion = None
        models = {} if champion is None else {CHAMPION: champion.model}
        counts = total.positive.rows, total.negative.rows
        with GateRows.of([rows], models, run.config.columns, counts) as gate:
            return measured(
                run.config,
                run.history,
                run.recipe,
                rows,
                total,
                _before(run, record),
                champion,
                gate,
                columns.features.labels(),
                without=record["period"],
            )

    def _replace(
        self,
        record: dict[str, Any],
        moments: Segments,
        total: PairMoments,
        labels: tuple[Label, Label] | None,
        drift: PeriodDrift,
    ) -> None:
        run, period = self.run, record["period"]
        is_stored = period in run.store.periods()
        stored = "replace the stored ones" if is_stored else "are stored under another schema"
        reason = f"the rows were read again, and their moments {stored}"
        dropped = {"labels", "scoredBy"} if drift.scores is None else {"labels"}
        changed = {name: value for name, value in record.items() if name not in dropped} | {
            "schemaId": run.store.schema_id,
            "settings": run.settings,
            "rows": [total.positive.rows, total.negative.rows],
            **({} if labels is None else {"labels": list(labels)}),
            **drift.as_dict(),
            _KEY: {"replaced": True, "reason": reason},
        }
        _log.info("period %s: %s", period, reason)
        self._results.append({"period": period, **changed[_KEY]})
        if run.config.dryRun:
            return
        run.history.check_unchanged(period)
        if drift.scores is not None:
            run.history.write_scores(period, drift.scores)
        # A run that is killed before it stores the moments is completed by the next one.
        run.history.write(changed | {"completed": False})
        run.put(period, moments, labels)
        run.history.write(changed | {"completed": True})

    def _keep(self, period: str, reason: str) -> None:
        """Leave the stored moments as they are, and note why in the record of the period."""
        run = self.run
        note = {"replaced": False, "reason": reason}
        _log.warning("period %s: the rows were read again and replace nothing: %s", period, reason)
        self._results.append({"period": period, **note})
        record = run.history.records.get(period) or _without_record(period)
        if record.get(_KEY) != note and not run.config.dryRun:
            run.history.check_unchanged(period)
            run.history.write(record | {_KEY: note})


def _without_record(period: str) -> dict[str, Any]:
    """The record of a period that streams alone stored."""
    return {
        "period": period,
        "outcome": "stored",
        "reason": "streams stored it, so that no challenger is judged on it",
        "completed": True,
    }


def _earlier(run: PeriodRun, period: str) -> list[str]:
    left_out = run.history.excluded()
    return [p for p in run.store.periods() if p < period and p not in left_out]


def _has_rows(run: PeriodRun, period: str) -> bool:
    """Whether there are rows of a period, and they can be read: they may be deleted."""
    source = run.config.rows_of(period)
    try:
        source.check()
        with run.engine.read(source) as rows:
            return bool(rows.head(rows.schema.names[:1], 1).num_rows)
    except run.engine.failures as error:
        _log.info("the rows of period %s cannot be read: %s", period, error)
        return False


def _is_stored(run: PeriodRun, period: str, moments: Segments) -> bool:
    """Whether the moments of a period's rows are the stored ones."""
    place = Source(run.store.schema_id, period, ROWS)
    return any(file.equals(moments) for file in run.store.files() if file.source == place)


def _before(run: PeriodRun, record: dict[str, Any]) -> _Before | None:
    """The stored periods before one, in the window of its challenger; None without both classes."""
    if not (earlier := _earlier(run, record["period"])):
        return None
    name = (record.get("challenger") or {}).get("window")
    periods = run.config.windows[0] if name is None else window_of(name).periods
    window = Window(None if periods is None else int(periods))
    left_out = sorted(run.history.excluded() & {*run.store.periods()})
    (merged,) = run.store.windows([window], newest=earlier[-1], excluded=left_out)
    total = merged.total()
    merged.close()
    has_both = min(total.positive.rows, total.negative.rows) > 0
    return _Before(merged.periods, total) if has_both else None
