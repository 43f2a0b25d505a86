"""Delete rows of persons from the store of moments, and train the champion without them."""

from __future__ import annotations

import logging
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.champion_deletion import containing_versions, retrained_champion
from spark_auc.app.jobs.deletion_record import DeletionRecord
from spark_auc.app.jobs.period_rows import training_columns
from spark_auc.app.jobs.raw_rows import features_by
from spark_auc.app.jobs.retrain_history import History
from spark_auc.app.jobs.store_facts import recipe_of
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError, DataError
from spark_auc.pipeline.retraining import fold_moments
from spark_auc.publication.directory import Directory
from spark_auc.publication.manifest import VERSIONS
from spark_auc.store.deletion import remaining
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.rows import Segments, Source, digest
from spark_auc.store.sources import ROWS, superseded
from spark_auc.store.streams import StoredStream, streams

if TYPE_CHECKING:
    from spark_auc.app.jobs.engines import Engine

_log = logging.getLogger(__name__)


def delete_rows(engine: Engine, config: Retrain) -> dict[str, Any]:
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
        record.write(periods={period: {} for period in periods})
    # An earlier attempt does not know of champions that were published after it.
    found = containing_versions(config, history, periods)
    record.write(containing=sorted({*record.values["containing"], *found}))
    for period in periods:
        if not record.is_done(period):
            _delete_period(engine, config, history, store, record, period)
    _drop_others(config, store, record, periods)
    store.vacuum()
    if record.values["champion"] is None:
        recipe = recipe_of(store.facts)
        record.write(champion=retrained_champion(config, history, store, recipe, periods))
    record.write(completed=True)
    return _result(config, record)


def _store(config: Retrain, history: History) -> MomentStore:
    """The store, under the schema id that was begun last."""
    stored = MomentStore.stored_facts(config.store_location())
    newest = history.newest(stored)
    if newest is None:
        raise ConfigError(
            f"found no stored periods at {config.store!r} with records in {config.history!r}, "
            "expected those of earlier runs; check retrain.store and retrain.history"
        )
    return MomentStore(config.store_location(), stored[newest["schemaId"]])


def _delete_period(
    engine: Engine,
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
    assert config.delete is not None
    source = _source(store, period)
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
        removed = _moments(engine, config, history, store, period)
        total = reduce(PairMoments.merge, chain.from_iterable(removed.values()))
        try:
            remainder = remaining(stored, removed)
        except DataError as error:
            raise DataError(f"period {period}: {error}") from None
        after = digest(place, remainder, store.facts)
        record.note(
            period,
            stored=True,
            source=source,
            rows=[total.positive.rows, total.negative.rows],
            before=current,
            after=after,
        )
        store.delete_rows(period, source, removed, config.delete.request)
        if digest(place, store.segments(period, source), store.facts) != after:
            raise DataError(
                f"found other moments of the period {period} after the deletion than those "
                "without its rows, expected no other job on the store; store the period again by "
                "retrain.lookback, and repeat the deletion under another name if needed"
            )
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
    engine: Engine, config: Retrain, history: History, store: MomentStore, period: str
) -> Segments:
    """The moments of the rows to delete, by segment and fold, made as the stored ones were."""
    assert config.delete is not None
    facts = store.facts
    recipe, names = recipe_of(facts), config.columns
    source = config.delete.rows_of(period)
    source.check()
    with engine.read(source) as table:
        columns = training_columns(table, names, features_by(recipe, names), facts)
        moments, labels = fold_moments(table, columns, Folds(facts.folds, facts.seed))
    if not labels.rows:
        raise DataError(
            f"found no rows of the period {period} to delete, expected some; check "
            "retrain.delete.data, or leave the period out under another name of the request"
        )
    history.check_labels(store.schema_id, labels)
    return moments


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
