"""The periods that a run of a retraining processes, and whether its full refresh is to begin."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.retrain_history import History


def newest_period(config: Retrain) -> date:
    """The newest period: the one of the section, or the last with complete labels."""
    if config.period is not None:
        return config.period
    return datetime.now(UTC).date() - timedelta(days=1 + config.labelDelay)


def due_periods(config: Retrain, history: History) -> list[str]:
    """The periods to process, ascending.

    Those not completed, those after the last one up to the newest, and those without a record from
    ``first`` on.
    """
    accepted = text(config.accept)
    due = {p for p, record in history.records.items() if not record["completed"]}
    due |= {p for p in accepted if history.outcome(p) in ("quarantined", "excluded")}
    newest = newest_period(config)
    last = max(map(date.fromisoformat, history.decided()), default=None)
    day = config.first or (newest if last is None else last + timedelta(days=1))
    while day <= newest:
        if day.isoformat() not in history.records:
            due.add(day.isoformat())
        day += timedelta(days=1)
    excluded = (history.excluded() - {*accepted}) | {*text(config.exclude)}
    return sorted(due - excluded)


def lacking_periods(config: Retrain, history: History, due: list[str]) -> list[str]:
    """The periods from ``first`` on that are stored under earlier schema ids only, ascending.

    A full refresh begins with a period that is due.
    """
    # The package deltalake is optional: other jobs run without it.
    from spark_auc.store.moment_store import MomentStore

    if config.first is None:
        return []
    stored = MomentStore.stored_facts(config.store_location())
    newest, refresh = history.newest(stored), refresh_is_due(config, history, stored)
    if newest is None or (refresh and not due):
        return []
    schema_id = None if refresh else newest["schemaId"]
    excluded = history.excluded() | {*text(config.exclude)}
    return [
        period
        for period, record in history.records.items()
        if config.first <= date.fromisoformat(period) <= newest_period(config)
        and record["completed"]
        and period not in excluded
        and record.get("schemaId") != schema_id
    ]


def text(periods: list[date]) -> list[str]:
    """The periods as ISO dates."""
    return [period.isoformat() for period in periods]


def refresh_is_due(config: Retrain, history: History, stored: Collection[str]) -> bool:
    """Whether the full refresh that is requested has not begun."""
    return config.fullRefresh is not None and all(
        record["settings"].get("fullRefresh") != config.fullRefresh
        for record in history.records.values()
        if record.get("schemaId") in stored
    )
