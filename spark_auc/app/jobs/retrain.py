"""Retrain on a store of moments by period: judge a challenger on the new rows, and publish it.

Section ``retrain`` of the configuration: data (rows of one period; ``{period}`` in path, table or
where is its date), columns, features, store (a directory of moments on Delta Lake), history (a
directory of decisions), windows and halfLives to choose from, training (penalties), gate and drift
(rules), output. Rows of stored periods are not read again.

Each period that is due is processed in order. The challenger is trained on stored moments of
earlier periods; window and penalty are chosen on their folds. Challenger and champion score the new
rows. The challenger is published if it is significantly better, or not significantly worse and the
champion is old; then the moments of the period are stored. A period whose rows differ too much from
those before is quarantined: exit code 5. Two jobs at once: one ends with exit code 75, and can run
again.

A run that stopped at any moment is completed by the next one. The result has the decision of each
period.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.directory import Directory
from spark_auc.app.jobs.champion import Champion, read_champion
from spark_auc.app.jobs.raw_rows import features_by, fitted_recipe
from spark_auc.app.jobs.retrain_history import History
from spark_auc.app.publish import check_free
from spark_auc.app.report.pictures import check_packages
from spark_auc.errors import ConfigError, DriftError
from spark_auc.features.recipe_json import from_json, to_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_auc.app.jobs.retrain_period import PeriodRun


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
    history = History(config.history)
    for period in _due(config, history):
        if not history.records.get(period, {}).get("completed", True):
            # The period was decided; its rows are not needed if it was stored.
            continue
        try:
            config.rows_of(period).check()
        except ConfigError as error:
            raise ConfigError(
                f"{error}; if there are no rows of {period}, set retrain.exclude to it"
            ) from None


def run(spark: SparkSession, config: Retrain) -> dict[str, Any]:
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
    history = History(config.history)
    champion = read_champion(config.output.path)
    if champion is not None:
        _restore(history, champion, config.dryRun)
    if not config.dryRun:
        history.complete()
    for period in _text(config.exclude):
        history.exclude(period, config.dryRun)
    for period in _text(config.accept):
        history.include(period, config.dryRun)
    made: PeriodRun | None = None
    done: list[dict[str, Any]] = []
    for period in _due(config, history):
        made = made or _opened(spark, config, history, period)
        done.append(made.complete(period, champion))
        champion = read_champion(config.output.path)
    if stopped := [record for record in done if record["outcome"] == "quarantined"]:
        found = ", ".join(f"{record['period']} ({record['reason']})" for record in stopped)
        raise DriftError(
            f"found rows too different from those before in {found}, expected similar rows; "
            "check them, then set retrain.accept or retrain.exclude to the period"
        )
    return _result(config, history, made, champion, done)


def _restore(history: History, champion: Champion, is_dry: bool) -> None:
    """Write the record of a run that ended after it published a champion and before its record."""
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


def _opened(spark: SparkSession, config: Retrain, history: History, period: str) -> PeriodRun:
    """The run of a configuration, with the stored recipe or one fitted to a period's rows.

    Raises
    ------
    ConfigError
        The configuration differs from that of the stored periods.
    """
    # The package deltalake is optional: other jobs run without it.
    from spark_auc.app.jobs.retrain_period import PeriodRun
    from spark_auc.spark.data.segments import SegmentColumn
    from spark_auc.spark.features.recipe import FeatureRecipeModel
    from spark_auc.store.facts import Facts
    from spark_auc.store.moment_store import MomentStore

    names = config.columns
    stored = MomentStore.stored_facts(config.store_location())
    known = [r for r in history.records.values() if r.get("schemaId") in stored]
    last = known[-1] if known else None
    if stored and not config.fullRefresh and last is not None:
        if last["settings"] != _settings(config):
            raise ConfigError(
                f"found retrain.features, columns or training.segmentCol that differ from those of "
                f"period {last['period']}: {last['settings']}, expected the same; restore them, or "
                "set retrain.fullRefresh to begin a new store"
            )
        facts = stored[last["schemaId"]]
        recipe = None if facts.recipe is None else FeatureRecipeModel(from_json(facts.recipe))
        dimension, segments = facts.dimension, facts.segments
    else:
        with config.rows_of(period).read(spark) as rows:
            recipe = fitted_recipe(config.features, rows, names)
            features = features_by(recipe, names)(rows, names.numFeatures)
            dimension, segments = features.dimension, ()
            if config.training.segmentCol is not None:
                segments = SegmentColumn.of(rows, features, config.training.segmentCol).values
    facts = Facts(
        dimension,
        config.folds,
        config.seed,
        1.0 if names.positiveLabel is None else names.positiveLabel,
        names.weight,
        None if recipe is None else to_json(recipe.recipe),
        config.training.segmentCol,
        segments,
    )
    store = MomentStore(config.store_location(), facts, full_refresh=config.fullRefresh)
    return PeriodRun(spark, config, recipe, store, history, _settings(config))


def _settings(config: Retrain) -> dict[str, Any]:
    """What decides the recipe and the rows' columns, as JSON types."""
    features, segment = config.features, config.training.segmentCol
    dumped = None if features is None else features.model_dump(mode="json", exclude_defaults=True)
    settings = {"features": dumped, "columns": config.columns.model_dump(mode="json")}
    return settings | ({} if segment is None else {"segmentCol": segment})


def _newest(config: Retrain) -> date:
    if config.period is not None:
        return config.period
    return datetime.now(UTC).date() - timedelta(days=1 + config.labelDelay)


def _due(config: Retrain, history: History) -> list[str]:
    """The periods to process, ascending: those not completed, and all up to the newest."""
    accepted = _text(config.accept)
    due = {p for p, record in history.records.items() if not record["completed"]}
    due |= {p for p in accepted if history.outcome(p) in ("quarantined", "excluded")}
    newest = _newest(config)
    last = max(map(date.fromisoformat, history.decided()), default=None)
    day = (config.first or newest) if last is None else last + timedelta(days=1)
    while day <= newest:
        due.add(day.isoformat())
        day += timedelta(days=1)
    excluded = (history.excluded() - {*accepted}) | {*_text(config.exclude)}
    return sorted(due - excluded)


def _text(periods: list[date]) -> list[str]:
    return [period.isoformat() for period in periods]


def _result(
    config: Retrain,
    history: History,
    made: PeriodRun | None,
    champion: Champion | None,
    done: list[dict[str, Any]],
) -> dict[str, Any]:
    last = done[-1] if done else history.records.get(_newest(config).isoformat(), {})
    return {
        "decision": last.get("outcome"),
        "reason": last.get("reason"),
        "periods": [{k: r[k] for k in ("period", "outcome", "reason")} for r in done],
        "champion": None if champion is None else champion.period,
        "model": config.output.path if champion else None,
        "history": config.history,
        **({} if made is None else made.state()),
    }
