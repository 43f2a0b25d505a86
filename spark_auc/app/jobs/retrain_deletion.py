"""Delete rows of persons from the store of moments, and train the champion without them."""

from __future__ import annotations

import json
import logging
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.directory import Directory
from spark_auc.app.jobs.champion import (
    Champion,
    published_record,
    read_champion,
    write_champion,
)
from spark_auc.app.jobs.deletion_record import DeletionRecord
from spark_auc.app.jobs.period_rows import training_columns
from spark_auc.app.jobs.published_model import KIND
from spark_auc.app.jobs.raw_rows import features_by
from spark_auc.app.jobs.retrain_history import History
from spark_auc.app.jobs.window_segments import settings_of, with_segments
from spark_auc.app.manifest import VERSIONS
from spark_auc.app.publish import publication
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError, ConflictError, DataError
from spark_auc.features.recipe_json import from_json
from spark_auc.solvers.candidates import Candidate
from spark_auc.spark.features.recipe import FeatureRecipeModel
from spark_auc.spark.retraining import fold_moments, retrained
from spark_auc.store.deletion import remaining
from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.rows import Segments, Source, digest
from spark_auc.store.sources import ROWS, superseded
from spark_auc.store.streams import StoredStream, streams
from spark_auc.store.windows import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

_CHAMPION = "champion.json"
_CHOSEN = {"regParams", "elasticNetParams", "selectionRule"}


def delete_rows(spark: SparkSession, config: Retrain) -> dict[str, Any]:
    """Delete the rows of a request from all periods, or end what an earlier run began.

    Each period's moments are subtracted by fold and checked against the stored ones. The record of
    the request has a digest of the moments before and after, so that a run after a failure
    subtracts nothing twice. Periods of earlier schema ids are dropped: no job trains on them. The
    superseded files are deleted. If the champion's window has one of the periods, the champion is
    trained again on the same window with its penalty, and published.

    Returns
    -------
    dict
        The rows that were deleted by period, and the published models that still contain them.

    Raises
    ------
    ConfigError
        There is no store.
    DataError
        Rows were never added, or a period was stored again since the deletion began.
    ConflictError
        Another job changed a period or published a champion at the same time.
    """
    assert config.delete is not None
    history, record = History(config.history), DeletionRecord(config)
    if record.values["completed"]:
        return _result(config, record)
    store = _store(config, history)
    periods = sorted(period.isoformat() for period in config.delete.periods)
    if not record.exists:
        record.write(
            periods={period: {} for period in periods},
            containing=_containing(config.output.path, periods),
        )
    for period in periods:
        if not record.is_done(period):
            _delete_period(spark, config, history, store, record, period)
    _drop_others(config, store, record, periods)
    store.vacuum()
    if record.values["champion"] is None:
        record.write(champion=_retrained(config, history, store, periods))
    record.write(completed=True)
    return _result(config, record)


def _store(config: Retrain, history: History) -> MomentStore:
    """The store, under the schema id of the last record."""
    stored = MomentStore.stored_facts(config.store_location())
    known = [r for r in history.records.values() if r.get("schemaId") in stored]
    if not known:
        raise ConfigError(
            f"found no stored periods at {config.store!r} with records in {config.history!r}, "
            "expected those of earlier runs; check retrain.store and retrain.history"
        )
    return MomentStore(config.store_location(), stored[known[-1]["schemaId"]])


def _delete_period(
    spark: SparkSession,
    config: Retrain,
    history: History,
    store: MomentStore,
    record: DeletionRecord,
    period: str,
) -> None:
    """Subtract the rows of a period, unless an earlier run did."""
    store.refresh()
    if period not in store.periods():
        _log.warning("the period %s is not stored: no rows are subtracted", period)
        record.note(period, stored=False, rows=[0, 0], done=True)
        return
    source = _source(store, period)
    removed = _moments(spark, config, history, store, period)
    total = reduce(PairMoments.merge, chain.from_iterable(removed.values()))
    place = Source(store.schema_id, period, source)
    stored = store.segments(period, source)
    current, begun = digest(place, stored, store.facts), record.period(period)
    if begun.get("after") != current:
        if begun and begun["before"] != current:
            raise DataError(
                f"found other moments of the period {period} than before and after the deletion "
                f"{record.values['request']!r}, which a run began and did not complete, expected "
                "no job in between; make sure that its source has no such rows, store the period "
                "again by retrain.lookback, and repeat the deletion under another name if needed"
            )
        try:
            after = remaining(stored, removed)
        except DataError as error:
            raise DataError(f"period {period}: {error}") from None
        record.note(
            period,
            stored=True,
            source=source,
            rows=[total.positive.rows, total.negative.rows],
            before=current,
            after=digest(place, after, store.facts),
        )
        store.delete_rows(period, source, removed)
    record.note(period, done=True)


def _source(store: MomentStore, period: str) -> str:
    """The one source with the rows of a period, after micro-batches are merged."""
    store.remove(period, superseded(store.sources(period)))
    for name in streams(store.sources(period)):
        StoredStream(store, name).merge(period)
    sources = store.sources(period)
    if len(sources) > 1:
        raise ConfigError(
            f"found the sources {list(sources)} of the period {period}, expected one, such as "
            f"{ROWS!r}, to subtract rows from; store the period again by retrain.lookback, from "
            "all of its rows without those to delete"
        )
    return sources[0]


def _moments(
    spark: SparkSession, config: Retrain, history: History, store: MomentStore, period: str
) -> Segments:
    """The moments of the rows to delete, by segment and fold, made as the stored ones were."""
    assert config.delete is not None
    facts = store.facts
    recipe = _recipe(facts)
    source = config.delete.rows_of(period)
    source.check()
    with source.read(spark) as rows:
        columns = training_columns(rows, config, features_by(recipe, config.columns), facts)
        moments, labels = fold_moments(rows, columns, Folds(facts.folds, facts.seed))
    if not labels.rows:
        raise DataError(
            f"found no rows of the period {period} to delete, expected some; check "
            "retrain.delete.data, or leave the period out under another name of the request"
        )
    history.check_labels(store.schema_id, labels)
    return moments


def _recipe(facts: Facts) -> FeatureRecipeModel | None:
    return None if facts.recipe is None else FeatureRecipeModel(from_json(facts.recipe))


def _drop_others(
    config: Retrain, store: MomentStore, record: DeletionRecord, periods: list[str]
) -> None:
    """Drop the periods under earlier schema ids, on which no job trains."""
    location = config.store_location()
    for schema_id, facts in MomentStore.stored_facts(location).items():
        if schema_id == store.schema_id:
            continue
        other = MomentStore(location, facts)
        for period in sorted({*periods} & {*other.periods()}):
            other.remove(period, other.sources(period))
            dropped = record.values["dropped"]
            record.write(dropped=dropped | {schema_id: [*dropped.get(schema_id, []), period]})
    store.refresh()


def _retrained(
    config: Retrain, history: History, store: MomentStore, periods: list[str]
) -> dict[str, Any]:
    """Train the champion again if its window has one of the periods, and publish it."""
    assert config.delete is not None
    champion = read_champion(config.output.path)
    if champion is None:
        return {"period": None, "trained": False, "reason": "no champion is published"}
    told, made = {"period": champion.period, "trained": False}, champion.record["challenger"]
    requests = champion.record.get("deletions", [])
    if config.delete.request in requests:
        return told | {"trained": True}
    if not any(made["from"] <= period <= made["to"] for period in periods):
        return told | {"reason": "its window has none of the periods"}
    if champion.record["schemaId"] != store.schema_id:
        reason = "its moments have an earlier schema id: a challenger has to replace it"
        return told | {"reason": reason}
    excluded = sorted(history.excluded() & {*store.periods()} - {made["to"]})
    (merged,) = store.windows([_window(made["window"])], newest=made["to"], excluded=excluded)
    moments = merged.total()
    section = config.columns
    params = config.training.model_dump(exclude_unset=True)
    fixed = {k: v for k, v in params.items() if k not in _CHOSEN} | {
        "regParam": made["regParam"],
        "elasticNetParam": made["elasticNetParam"],
        "featuresCol": section.features,
        "labelCol": section.label,
        "positiveLabel": section.positiveLabel,
        "weightCol": section.weight,
    }
    model = retrained(champion.model, moments, fixed)
    candidate = Candidate(made["regParam"], made["elasticNetParam"])
    settings = settings_of(params, _recipe(store.facts))
    ranker = with_segments(model.ranker, store, merged, excluded, candidate, settings)
    merged.close()
    if ranker.summary.segments is not None:
        made = made | {"segments": ranker.summary.segments}
    # Lines of segments change the scale of scores.
    is_rescored = bool(ranker.scorer.segments or champion.model.ranker.scorer.segments)
    rows = [moments.positive.rows, moments.negative.rows]
    new = champion.record | {
        "challenger": made | {"rows": rows, "periods": len(merged.periods)},
        "deletions": [*requests, config.delete.request],
        **({"rescored": max(history.decided())} if is_rescored else {}),
    }
    # The anchor may contain the rows; it cannot be trained again.
    _publish(config, champion, Champion(model.with_ranker(ranker), new, champion.scores))
    return told | {"trained": True, "anchorDropped": champion.anchor is not None}


def _publish(config: Retrain, before: Champion, made: Champion) -> None:
    with publication(config.output.path, True, KIND, keep=config.keep) as version:
        if published_record(config.output.path) != before.record:
            raise ConflictError(
                f"found another champion at {config.output.path!r} than at the start of this job, "
                "expected one job at a time; the other champion remains: run this job again"
            )
        write_champion(version, made, config)


def _window(name: str) -> Window:
    """The window of a name such as "30", "all" or "30, half-life 7"."""
    periods, _, half_life = name.partition(", half-life ")
    return Window(
        None if periods == "all" else int(periods), float(half_life) if half_life else None
    )


def _containing(location: str, periods: list[str]) -> list[str]:
    """The versions of champions on disk whose window has one of the periods."""
    versions = Directory.of(location) / VERSIONS
    found = []
    for name in sorted(versions.names()):
        version = versions / name
        if not name.startswith(".") and _CHAMPION in version.names():
            made = json.loads(version.read(_CHAMPION))["challenger"]
            if any(made["from"] <= period <= made["to"] for period in periods):
                found.append(name)
    return found


def _result(config: Retrain, record: DeletionRecord) -> dict[str, Any]:
    values = record.values
    versions = Directory.of(config.output.path) / VERSIONS
    left = {*versions.names()}
    return {
        "request": values["request"],
        "deleted": {period: facts["rows"] for period, facts in values["periods"].items()},
        "notStored": [p for p, facts in values["periods"].items() if not facts["stored"]],
        "dropped": values["dropped"],
        "champion": values["champion"],
        "containing": [f"{versions.uri}/{name}" for name in values["containing"] if name in left],
    }
