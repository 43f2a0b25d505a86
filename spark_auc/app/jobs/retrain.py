"""Retrain on a store of moments by period: judge a challenger on the new rows, and publish it.

Section ``retrain`` of the configuration: data (rows of one period; ``{period}`` in path, table or
where is its date), columns, features, store (a directory of moments on Delta Lake), history (a
directory of decisions), windows and halfLives to choose from, training (penalties), gate and drift
(rules), output. Rows of stored periods are read again for lookback and after fullRefresh only.

Each period that is due is processed in order. The challenger is trained on stored moments of
earlier periods; window and penalty are chosen on their folds. Challenger and champion score the new
rows. The challenger is published if it is significantly better, or not significantly worse and the
champion is old; then the moments of the period are stored. A period whose rows differ too much from
those before is quarantined: exit code 5. Two jobs at once: one ends with exit code 75, and can run
again.

With --delete, rows of persons are subtracted from the stored periods instead, and the champion is
trained again without them.

A run that stopped at any moment is completed by the next one. The result has the decision of each
period.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.champion import (
    Champion,
    check_pin,
    kept_champions,
    pinned_champion,
    read_champion,
)
from spark_auc.app.jobs.deletion_record import check_deletion
from spark_auc.app.jobs.due_periods import (
    due_periods,
    lacking_periods,
    newest_period,
    refresh_is_due,
    text,
)
from spark_auc.app.jobs.engines import Engine, Needs
from spark_auc.app.jobs.raw_rows import features_by, fitted_recipe
from spark_auc.app.jobs.retrain_history import History
from spark_auc.app.report.pictures import check_packages
from spark_auc.errors import ConfigError, DriftError
from spark_auc.publication.directory import Directory
from spark_auc.publication.publish import check_free

if TYPE_CHECKING:
    from spark_auc.app.jobs.period_again import PeriodsAgain

_log = logging.getLogger(__name__)

# Settings that have to be those of the stored periods.
_DECIDING = ("features", "columns", "segmentCol")


def check(config: Retrain) -> None:
    """Check the configuration before Spark starts.

    Raises
    ------
    ConfigError
        A setting, a path or an output location is invalid.
    MissingPackageError
        The packages of the extras ``store`` and ``report`` are not installed.
    """
    import spark_auc.store  # noqa: F401

    check_packages()
    check_free(config.output.path, True)
    places = {"store": config.store, "history": config.history, "output.path": config.output.path}
    paths = {name: f"{Directory.of(place).path}/" for name, place in places.items()}
    for name, path in paths.items():
        if inside := [other for other, p in paths.items() if other != name and path.startswith(p)]:
            raise ConfigError(
                f"found retrain.{name} inside retrain.{inside[0]}, expected directories of their "
                "own; set another path"
            )
    check_pin(config)
    history = History(config.history)
    if config.delete is not None:
        check_deletion(config)
        return
    for period in due_periods(config, history):
        if not history.records.get(period, {}).get("completed", True):
            # The period was decided; its rows are not needed if it was stored.
            continue
        try:
            config.rows_of(period).check()
        except ConfigError as error:
            raise ConfigError(
                f"{error}; if there are no rows of {period}, set retrain.exclude to it"
            ) from None


def needs(config: Retrain) -> Needs:
    """The sources of the job: all periods have the same form."""
    period = newest_period(config).isoformat()
    of_deletion = [] if config.delete is None else [config.delete.rows_of(period)]
    return Needs([config.rows_of(period), *of_deletion])


def run(engine: Engine, config: Retrain) -> dict[str, Any]:
    """Run the job, and return its result for standard output.

    Raises
    ------
    DriftError
        A period was quarantined; the other periods are processed.
    StoreConflict
        Another job stored the same period at the same time.
    SparkAUCError
        The job failed.
    """
    if config.delete is not None:
        # The package deltalake is optional: other jobs run without it.
        from spark_auc.app.jobs.retrain_deletion import delete_rows

        return delete_rows(engine, config)
    history = History(config.history)
    champion = read_champion(config.output.path)
    if champion is not None:
        _restore(history, champion, config.dryRun)
    if not config.dryRun:
        history.complete()
    for period in text(config.exclude):
        history.exclude(period, config.dryRun)
    for period in text(config.accept):
        history.include(period, config.dryRun)
    if config.pinned is not None:
        newest = max(history.decided(), default=str(config.pinned))
        champion = pinned_champion(config, champion, newest)
        _restore(history, champion, config.dryRun)
    done: list[dict[str, Any]] = []
    due = due_periods(config, history)
    lacking = lacking_periods(config, history, due)
    again: PeriodsAgain | None = None
    if due or lacking:
        again = _opened(engine, config, history, (due or lacking)[0])
        again.read(lacking, champion)
    for number, period in enumerate(due, 1):
        assert again is not None
        _log.info("period %s, %d of %d", period, number, len(due))
        again.read(again.looked_back(period), champion)
        done.append(again.run.complete(period, champion))
        again.leave_out(period)
        if stored := done[-1].get("store"):
            _log.info("stored: %d periods in %.1f MB", stored["periods"], stored["bytes"] / 1e6)
        champion = champion if config.dryRun else read_champion(config.output.path)
    result = _result(config, history, again, champion, done)
    found = []
    if stopped := [record for record in done if record["outcome"] == "quarantined"]:
        found.append(
            f"found rows too different from those before in {_reasons(stopped)}, expected similar "
            "rows; check them: set retrain.accept to the period if the change is real and lasts, "
            "as later periods are then compared with it, too; else set retrain.exclude to it"
        )
    if kept := [] if again is None else again.stopped():
        found.append(
            f"found rows of stored periods that replace nothing in {_reasons(kept)}, expected "
            "rows like those before; the stored moments remain: restore the rows, or set "
            "retrain.accept to the period, to replace its moments all the same"
        )
    if found:
        raise DriftError(". Also ".join(found), result)
    return result


def _reasons(stopped: list[dict[str, Any]]) -> str:
    return ", ".join(f"{record['period']} ({record['reason']})" for record in stopped)


def _restore(history: History, champion: Champion, is_dry: bool) -> None:
    """Write what a run published and did not record: the champion's gate, or a rollback to it."""
    if rollback := champion.record.get("rollback"):
        history.roll_back(rollback, is_dry)
        return
    outcome = history.outcome(champion.period)
    is_newest = all(period < champion.period for period in history.decided())
    is_missing = outcome is None and is_newest
    is_left_out = history.records.get(champion.period, {}).get("excluded", False)
    is_accepted = outcome in ("quarantined", "excluded") and not is_left_out
    if not (is_missing or is_accepted):
        return
    history.records[champion.period] = champion.record
    if not is_dry:
        history.write(champion.record)


def _opened(engine: Engine, config: Retrain, history: History, period: str) -> PeriodsAgain:
    """The run of a configuration, with the stored recipe or one fitted to a period's rows.

    Raises
    ------
    ConfigError
        The configuration differs from that of the stored periods.
    """
    # The package deltalake is optional: other jobs run without it.
    from spark_auc.app.jobs.period_again import PeriodsAgain
    from spark_auc.app.jobs.retrain_period import PeriodRun
    from spark_auc.app.jobs.store_facts import facts_of, recipe_of
    from spark_auc.store.moment_store import MomentStore
    from spark_auc.tables.segments import SegmentColumn

    names, segment = config.columns, config.training.segmentCol
    stored = MomentStore.stored_facts(config.store_location())
    last, refresh = history.newest(stored), refresh_is_due(config, history, stored)
    settings = _settings(config)
    if refreshes := history.refreshes(stored) + refresh:
        settings["refreshes"] = refreshes
    if not refresh and last is not None:
        if any(last["settings"].get(name) != settings.get(name) for name in _DECIDING):
            raise ConfigError(
                f"found retrain.features, columns or training.segmentCol that differ from those of "
                f"period {last['period']}: {last['settings']}, expected the same; restore them, or "
                "set retrain.fullRefresh to a new name"
            )
        facts = stored[last["schemaId"]]
        recipe = recipe_of(facts)
        dimension = facts.dimension
        segments = None if segment is None else SegmentColumn(segment, facts.segments)
    else:
        with engine.read(config.rows_of(period)) as table:
            recipe = fitted_recipe(config.features, table, names)
            features = features_by(recipe, names)(table, names.numFeatures)
            dimension, segments = features.dimension, None
            if segment is not None:
                segments = SegmentColumn.of(table, segment)
    facts = facts_of(dimension, config.folds, config.seed, names, recipe, segments)
    store = MomentStore(config.store_location(), facts, full_refresh=refresh)
    return PeriodsAgain(PeriodRun(engine, config, recipe, store, history, settings))


def _settings(config: Retrain) -> dict[str, Any]:
    """What decides the recipe and the rows' columns, and the request of a refresh."""
    features, segment = config.features, config.training.segmentCol
    dumped = None if features is None else features.model_dump(mode="json", exclude_defaults=True)
    columns = config.columns.model_dump(mode="json")
    settings = {"features": dumped, "columns": columns, "fullRefresh": config.fullRefresh}
    return settings | ({} if segment is None else {"segmentCol": segment})


def _result(
    config: Retrain,
    history: History,
    again: PeriodsAgain | None,
    champion: Champion | None,
    done: list[dict[str, Any]],
) -> dict[str, Any]:
    last = done[-1] if done else history.records.get(newest_period(config).isoformat(), {})
    return {
        "decision": last.get("outcome"),
        "reason": last.get("reason"),
        "periods": [{k: r[k] for k in ("period", "outcome", "reason")} for r in done],
        "champion": None if champion is None else champion.period,
        "keptChampions": kept_champions(config),
        "model": config.output.path if champion else None,
        "history": config.history,
        **({} if again is None else {"readAgain": again.results()} | again.run.state()),
    }
