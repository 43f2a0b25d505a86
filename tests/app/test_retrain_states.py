"""States of a retraining between runs, without Spark: records, the pool of a gate, and windows."""

import copy
import json
from pathlib import Path

import pytest

from spark_auc.app.config.retraining import GateSection, Retrain
from spark_auc.app.jobs.champion import Champion
from spark_auc.app.jobs.retrain_history import History
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.errors import ConfigError, ConflictError

pytest.importorskip("deltalake")
pytest.importorskip("jinja2")

from spark_auc.app.jobs import retrain, retrain_deletion
from spark_auc.app.jobs.due_periods import due_periods, lacking_periods, refresh_is_due
from spark_auc.app.jobs.gate_rows import pooled_periods
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore

DAYS = [f"2026-03-{k:02}" for k in range(1, 10)]
SECTION = {
    "data": {"path": "clicks/{period}.parquet"},
    "store": "moments",
    "history": "history",
    "output": {"path": "model"},
}


def record(period, outcome="kept", **others):
    return {
        "period": period,
        "outcome": outcome,
        "reason": "",
        "completed": True,
        "rows": [9, 9],
    } | others


@pytest.fixture
def history(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return History("history")


def test_a_pool_ends_at_the_least_and_at_periods_without_rows():
    rows = dict.fromkeys(DAYS, (50, 900)) | {DAYS[2]: (0, 0)}
    assert pooled_periods(DAYS[8], (60, 900), DAYS[:8], GateSection(), rows.get) == (
        DAYS[5:],
        (210, 3600),
    )
    # The rows of a stored period were deleted: its stored counts are no rows of a gate.
    assert pooled_periods(DAYS[5], (10, 900), DAYS[:5], GateSection(), rows.get) == (
        DAYS[3:6],
        (110, 2700),
    )
    few = GateSection(most=2)
    assert pooled_periods(DAYS[8], (60, 900), DAYS[:8], few, rows.get)[0] == DAYS[7:]


def champion(period):
    return Champion(
        None, record(period, "promoted", completed=False, won=True), ScoreHistogram.zero()
    )


def test_a_champion_without_its_record_gets_it_again(history):
    history.write(record(DAYS[0], "stored"))
    retrain._restore(history, champion(DAYS[1]), is_dry=False)
    assert History("history").records[DAYS[1]]["outcome"] == "promoted"
    # The period was quarantined, then accepted, and the run was killed after it published.
    history.write(record(DAYS[2], "quarantined"))
    retrain._restore(history, champion(DAYS[2]), is_dry=False)
    assert History("history").records[DAYS[2]]["outcome"] == "promoted"
    assert not History("history").records[DAYS[2]]["completed"]


def test_a_dry_run_restores_no_record(history):
    history.write(record(DAYS[0], "stored"))
    retrain._restore(history, champion(DAYS[1]), is_dry=True)
    assert history.outcome(DAYS[1]) == "promoted"
    assert DAYS[1] not in History("history").records


def test_old_champions_and_excluded_periods_are_not_restored(history):
    history.write(record(DAYS[3]))
    retrain._restore(history, champion(DAYS[1]), is_dry=False)
    assert DAYS[1] not in history.records
    history.write(record(DAYS[2], "quarantined", excluded=True))
    retrain._restore(history, champion(DAYS[2]), is_dry=False)
    assert history.outcome(DAYS[2]) == "quarantined"


def test_a_record_of_another_job_is_a_conflict(history):
    history.check_unchanged(DAYS[0])
    other = History("history")
    other.write(record(DAYS[0]))
    with pytest.raises(ConflictError, match=DAYS[0]):
        history.check_unchanged(DAYS[0])
    other.check_unchanged(DAYS[0])
    other.records[DAYS[0]] = copy.deepcopy(other.records[DAYS[0]]) | {"outcome": "promoted"}
    with pytest.raises(ConflictError):
        other.check_unchanged(DAYS[0])


def test_the_log_of_a_killed_run_is_completed(history):
    history.write(record(DAYS[0]))
    log = Path("history/history.jsonl")
    Path(f"history/{DAYS[1]}.json").write_text(json.dumps(record(DAYS[1])))
    History("history").complete()
    assert [json.loads(line)["period"] for line in log.read_text().splitlines()] == DAYS[:2]
    assert DAYS[1] in Path("history/history.html").read_text()
    time = log.stat().st_mtime_ns
    History("history").complete()
    assert log.stat().st_mtime_ns == time


def test_periods_without_a_record_are_due_from_the_first_on(history):
    history.write(record(DAYS[4]))
    history.exclude(DAYS[2])
    config = Retrain.model_validate(SECTION | {"period": DAYS[6]})
    assert due_periods(config, history) == DAYS[5:7]
    earlier = Retrain.model_validate(SECTION | {"period": DAYS[6], "first": DAYS[1]})
    assert due_periods(earlier, history) == [DAYS[1], DAYS[3], *DAYS[5:7]]
    none_before = Retrain.model_validate(SECTION | {"period": DAYS[3], "first": DAYS[3]})
    assert due_periods(none_before, History("other")) == [DAYS[3]]


def test_no_window_takes_quarantined_periods(history):
    for period, outcome in zip(DAYS, ["kept", "quarantined", "excluded", "stored"], strict=False):
        history.write(record(period, outcome, excluded=outcome == "excluded"))
    assert history.excluded() == {DAYS[1], DAYS[2]}


def test_a_period_is_accepted_or_excluded():
    with pytest.raises(ValueError, match="accept or in exclude"):
        Retrain.model_validate(SECTION | {"accept": [DAYS[0]], "exclude": [DAYS[0]]})


def test_the_store_of_a_local_uri_is_a_path(history):
    for store, expected in [
        ("file:/a/b%20c", "/a/b%20c"),
        ("file:///a", "/a"),
        ("moments", str(Path("moments").absolute())),
    ]:
        assert Retrain.model_validate(SECTION | {"store": store}).store_location() == expected


def test_a_period_without_rows_is_named_with_its_remedy(history):
    config = Retrain.model_validate(SECTION | {"period": DAYS[0]})
    with pytest.raises(ConfigError, match=r"retrain\.exclude to it"):
        retrain.check(config)


def stored_under(history, k, facts, refreshes=0, **request):
    """Store a period and its record, as a run under these facts does."""
    store = MomentStore("moments", facts, full_refresh=True)
    store.put(DAYS[k], "rows", [PairMoments.zero(2)] * 2)
    settings = request | ({"refreshes": refreshes} if refreshes else {})
    history.write(record(DAYS[k], schemaId=facts.schema_id, settings=settings))


def test_the_present_schema_is_that_begun_last_whatever_the_order_of_periods(history):
    old, new = Facts(2, 2), Facts(2, 2, seed=1)
    for k in (2, 3, 4):
        stored_under(history, k, old)
    ids = {old.schema_id, new.schema_id}
    assert (history.newest(ids)["period"], history.refreshes(ids)) == (DAYS[4], 0)
    # The refresh begins with a period before the others, and the run is killed after it.
    stored_under(history, 1, new, 1, fullRefresh="a")
    config = Retrain.model_validate(SECTION | {"period": DAYS[5], "fullRefresh": "a"})
    assert (history.newest(ids)["schemaId"], history.refreshes(ids)) == (new.schema_id, 1)
    assert not refresh_is_due(config, history, ids)
    assert retrain_deletion._store(config, history).schema_id == new.schema_id
    # A refresh can return to the first facts.
    stored_under(history, 0, old, 2, fullRefresh="b")
    assert retrain_deletion._store(config, history).schema_id == old.schema_id
    # A schema without facts in the store was never begun.
    assert history.newest({new.schema_id})["period"] == DAYS[1]
    assert history.newest(set()) is None


def test_periods_of_earlier_schemas_are_due_again_from_the_first_on(history):
    old, new = Facts(2, 2), Facts(2, 2, seed=1)

    def lacking(due=(DAYS[5],), **changes):
        config = Retrain.model_validate(SECTION | {"period": DAYS[5], "first": DAYS[1]} | changes)
        return lacking_periods(config, history, list(due))

    assert lacking() == []
    for k in range(4):
        stored_under(history, k, old)
    history.write(record(DAYS[4], "quarantined", schemaId=old.schema_id, settings={}))
    assert lacking() == []
    # A refresh that is to begin, with a period that is due.
    assert lacking(fullRefresh="a") == DAYS[1:4]
    assert lacking(fullRefresh="a", due=()) == []
    assert lacking(fullRefresh="a", first=None) == []
    stored_under(history, 5, new, 1, fullRefresh="a")
    for request in ({"fullRefresh": "a"}, {}):
        assert lacking(**request) == DAYS[1:4]
        assert lacking(**request, due=()) == DAYS[1:4]
    assert lacking(exclude=[DAYS[2]], period=DAYS[2]) == [DAYS[1]]
    stored_under(history, 1, new, 1, fullRefresh="a")
    assert lacking() == DAYS[2:4]
