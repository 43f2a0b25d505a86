"""Deleting the rows of persons from a store of moments, and from the champion."""

import json
import shutil
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pydantic import ValidationError

from spark_auc.app.config.moments import MomentsSection
from spark_auc.app.config.retraining import DeletionSection, Retrain
from spark_auc.app.jobs.champion import Champion, read_champion
from spark_auc.app.jobs.deletion_record import DeletionRecord, containing
from spark_auc.app.jobs.retrain import check
from spark_auc.app.jobs.retrain_history import History
from spark_auc.app.running import run
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from tests.app import test_retrain
from tests.app.test_retrain import SECTION, by_all_rows, day, records, written

pytest.importorskip("deltalake")

from spark_auc.app.jobs import champion_deletion, retrain_deletion
from spark_auc.app.jobs.champion_deletion import containing_versions
from spark_auc.app.jobs.retrain_deletion import _drop_others, _source
from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.streams import StoredStream
from spark_auc.store.windows import Window

retrain = test_retrain.retrain

WHERE = "age > 1.1 or price < -1.8"
GATE = {"gate": {"oldest": 1}, "training": {"regParams": [1e-3, 1e-1], "tol": 1e-11}}


@pytest.fixture
def delete(spark, retrain, capsys):
    def started(request="a", periods=(0, 1), where=WHERE, path="clicks/{period}.parquet"):
        data = {"path": path} | ({"where": where} if where else {})
        part = {"request": request, "data": data, "periods": [day(k) for k in periods]}
        Path("conf.yaml").write_text(yaml.safe_dump({"retrain": SECTION | GATE | {"delete": part}}))
        code = run("retrain", "conf.yaml", parts=["delete"])
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return started


def is_deleted(table):
    age, price = table["age"].to_numpy(), table["price"].to_numpy()
    return (age > 1.1) | (price < -1.8)


def files():
    return {p.name for p in Path("moments").rglob("*.parquet") if "_delta_log" not in p.parts}


def stored():
    facts = MomentStore.stored_facts("moments")
    return MomentStore("moments", next(iter(facts.values())))


def assert_deleted(result, old_weights):
    """The champion is that of the rows that remain, and no job reads those that were deleted."""
    counts = {}
    for k in (0, 1):
        table = pq.read_table(f"clicks/{day(k)}.parquet")
        gone, y = is_deleted(table), table["label"].to_numpy() > 0
        counts[day(k)] = [int((gone & y).sum()), int((gone & ~y).sum())]
        pq.write_table(table.filter(pa.array(~gone)), f"clicks/{day(k)}.parquet")
    assert result["deleted"] == counts
    champion = read_champion("model")
    expected = by_all_rows(champion.model.recipe, champion.record)
    found = champion.model.ranker.scorer.w
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
    assert np.abs(found - old_weights).max() > 1e-4
    assert champion.record["deletions"] == ["a"]
    assert champion.anchor is None


@pytest.mark.slow
def test_rows_are_deleted_from_the_store_and_from_the_champion(retrain, delete):
    for k in range(3):
        written(k)
    assert retrain(2, **GATE)[1]["champion"] == day(2)
    before, old, decided = files(), read_champion("model"), records()
    assert (old.record["challenger"]["from"], old.record["challenger"]["to"]) == (day(0), day(1))
    code, result = delete()
    assert code == 0, result
    # The files of both periods are new ones; their old bytes are not on the disk.
    assert len(before & files()) == len(before) - 2
    assert len(result["containing"]) == 2
    # The first champion is the anchor, and its window has the rows, too.
    assert result["champion"] == {"period": day(2), "trained": True, "anchorDropped": True}
    assert_deleted(result, old.model.ranker.scorer.w)
    # The condition may name a person.
    published = [p for p in Path("model").rglob("*") if p.is_file()]
    assert any(p.name == "config.json" for p in published)
    assert not [p for p in published if WHERE.encode() in p.read_bytes()]

    # A rerun needs no rows, and repeats nothing.
    for k in (0, 1):
        Path(f"clicks/{day(k)}.parquet").rename(f"clicks/{day(k)}.moved")
    version, manifest = stored().version, Path("model/manifest.json").read_bytes()
    code, again = delete()
    assert (code, again | {"seconds": 0}) == (0, result | {"seconds": 0})
    assert (stored().version, Path("model/manifest.json").read_bytes()) == (version, manifest)
    assert delete(periods=(0, 1, 2))[0] == 2

    # Rows that were never added are refused, and nothing is changed.
    for k in (0, 1):
        Path(f"clicks/{day(k)}.moved").rename(f"clicks/{day(k)}.parquet")
    # Each fold has more positive rows than were stored.
    table = pq.read_table(f"clicks/{day(2)}.parquet")
    label = pa.array(np.ones(len(table), int))
    pq.write_table(table.set_column(0, "label", label), f"other-{day(2)}.parquet")
    code, result = delete("b", (2,), None, "other-{period}.parquet")
    assert code == 3
    assert day(2) in result["message"]
    assert stored().version == version
    code, result = delete("c", (2,), "age > 1e9")
    assert (code, "no rows" in result["message"]) == (3, True)

    # The next day goes on, and the decisions of before remain.
    written(3)
    code, result = retrain(3, **GATE)
    assert code == 0, result
    assert records()[:3] == decided
    # A kept champion that contains the rows is not published again.
    assert day(1) not in result["keptChampions"]
    assert retrain(3, **GATE, pinned=day(1))[0] == 2
    assert records()[3]["challenger"]["rows"][0] < sum(r["rows"][0] for r in decided)


def section(changes=(), **delete):
    data = {"path": "clicks/{period}.parquet", "where": WHERE}
    part = {"request": "a", "data": data, "periods": [day(0), day(1)]} | delete
    return Retrain.model_validate(SECTION | dict(changes) | {"delete": part})


def test_a_deletion_is_refused_in_a_dry_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for k in (0, 1):
        Path("clicks").mkdir(exist_ok=True)
        Path(f"clicks/{day(k)}.parquet").touch()
    check(section())
    with pytest.raises(ConfigError, match=r"found retrain\.dryRun with --delete"):
        check(section({"dryRun": True}))


def test_records_of_requests_are_read_without_those_of_killed_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    DeletionRecord(section()).write(containing=["v1"])
    DeletionRecord(section(request="b")).write(containing=["v2"])
    directory = Path("history/deletions")
    (directory / "c.json.new").write_text('{"request": "c", "con')
    assert containing(section()) == {"v1", "v2"}
    for text in ("{", "[]", '{"request": "b"}'):
        (directory / "b.json").write_text(text)
        with pytest.raises(ModelFormatError, match=r"damaged record b\.json"):
            containing(section())


def champion_record(k, *, won=False, deletions=()):
    """The champion of day ``k``, trained on the day before; it replaced that of the day before."""
    window = {"from": day(k - 1), "to": day(k - 1)}
    before = day(k - 1) if k > 1 else None
    record = {"period": day(k), "champion": before, "won": won, "challenger": window}
    return record | ({"deletions": list(deletions)} if deletions else {})


def version(name, record, *, anchor=False):
    directory = Path("model/versions") / name
    directory.mkdir(parents=True)
    (directory / "champion.json").write_text(json.dumps(record))
    if anchor:
        (directory / "anchor").mkdir()


@pytest.fixture
def versions(tmp_path, monkeypatch):
    """Champions of three days: the first won, and is the anchor of the others."""
    monkeypatch.chdir(tmp_path)
    Path("history").mkdir()
    for k in (1, 2, 3):
        record = champion_record(k, won=k == 1)
        Path(f"history/{day(k)}.json").write_text(json.dumps(record))
        version(f"v{k}", record, anchor=k > 1)
    version("v4", champion_record(3))
    version("v5", champion_record(3, deletions=["a"]), anchor=True)
    Path("model/versions/v6").mkdir()
    Path("model/versions/v6/champion.json").write_text('{"per')
    Path("model/versions/.lock").touch()


@pytest.mark.usefixtures("versions")
def test_versions_contain_the_rows_of_their_window_and_of_their_anchor():
    def found(k):
        return containing_versions(section(), History("history"), [day(k)])

    assert found(0) == ["v1", "v2", "v3", "v6"]
    assert found(2) == ["v3", "v4", "v6"]
    assert found(7) == ["v6"]
    # Without the record of the anchor, its window is unknown.
    Path(f"history/{day(1)}.json").unlink()
    assert found(7) == ["v2", "v3", "v6"]


@pytest.mark.usefixtures("versions")
@pytest.mark.parametrize(("k", "is_dropped"), [(0, True), (7, False)])
def test_an_anchor_with_the_rows_is_dropped_from_a_champion_without_them(
    monkeypatch, k, is_dropped
):
    champion, published = Champion("model", champion_record(3), "scores", "anchor"), []
    monkeypatch.setattr(champion_deletion, "read_champion", lambda _: champion)
    monkeypatch.setattr(
        champion_deletion, "publish_champion", lambda *arguments: published.append(arguments)
    )
    config, history = section(), History("history")
    told = champion_deletion.retrained_champion(config, history, None, None, [day(k)])
    expected = {"period": day(3), "trained": False, "reason": "its window has none of the periods"}
    assert told == expected | ({"anchorDropped": True} if is_dropped else {})
    assert len(published) == is_dropped
    for written_config, made, before in published:
        assert written_config.delete is None
        assert made == Champion("model", champion_record(3, deletions=["a"]), "scores", None)
        assert before is champion
        # A rerun publishes nothing again.
        monkeypatch.setattr(champion_deletion, "read_champion", lambda _, made=made: made)
        again = champion_deletion.retrained_champion(config, history, None, None, [day(k)])
        assert again == told
    assert len(published) == is_dropped


@pytest.mark.usefixtures("versions")
def test_a_rerun_lists_champions_that_were_published_since_the_failure(monkeypatch):
    def failed(*_):
        raise DataError("a failure")

    def done(spark, config, history, store, record, period):
        record.note(period, stored=True, rows=[1, 1], done=True)

    class Store:
        facts = None

        def vacuum(self):
            pass

    monkeypatch.setattr(retrain_deletion, "_store", lambda *_: Store())
    monkeypatch.setattr(retrain_deletion, "_drop_others", lambda *_: None)
    monkeypatch.setattr(retrain_deletion, "recipe_of", lambda *_: None)
    monkeypatch.setattr(retrain_deletion, "retrained_champion", lambda *_: {"trained": True})
    monkeypatch.setattr(retrain_deletion, "_delete_period", failed)
    with pytest.raises(DataError):
        retrain_deletion.delete_rows(None, section(periods=[day(2)]))
    version("v7", champion_record(3))
    shutil.rmtree("model/versions/v3")
    monkeypatch.setattr(retrain_deletion, "_delete_period", done)
    result = retrain_deletion.delete_rows(None, section(periods=[day(2)]))
    assert [uri.rpartition("/")[-1] for uri in result["containing"]] == ["v4", "v6", "v7"]


def test_names_may_be_dates_without_quotes():
    text = """
        request: 2026-03-17
        data: {path: rows.parquet}
        periods: [2026-03-01]
    """
    assert DeletionSection(**yaml.safe_load(text)).request == "2026-03-17"
    text = "{store: moments, newest: 2026-03-04, exclude: [2026-03-02, '2026-03-03']}"
    moments = MomentsSection(**yaml.safe_load(text))
    assert (moments.newest, moments.exclude) == ("2026-03-04", ["2026-03-02", "2026-03-03"])
    with pytest.raises(ValidationError):
        MomentsSection(store="moments", newest=True)
    for value, expected in ((date(2026, 3, 17), "2026-03-17"), (17, "17"), (None, None)):
        assert section({"fullRefresh": value}).fullRefresh == expected


@pytest.mark.parametrize("key", ["path", "table", "where"])
def test_several_periods_need_their_date_in_the_source(key):
    def data(name):
        return ({} if key == "table" else {"path": "rows.parquet"}) | {key: name}

    assert section(data=data("rows"), periods=[day(0)]).delete
    with pytest.raises(ValidationError, match=r"\{period\} in data"):
        section(data=data("rows"))
    assert getattr(section(data=data("rows_{period}")).delete.rows_of(day(1)), key).endswith(day(1))


class Dead(BaseException):
    """The process was killed."""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["subtract", "subtracted", "vacuum", "publish", "completed"])
def test_a_deletion_that_was_killed_is_completed_and_subtracts_once(
    retrain, delete, monkeypatch, step
):
    for k in range(3):
        written(k)
    assert retrain(2, **GATE)[0] == 0
    before, old = files(), read_champion("model")

    def die(*_, **__):
        raise Dead

    def after(call):
        def called(*arguments, **named):
            call(*arguments, **named)
            raise Dead

        return called

    with monkeypatch.context() as dying:
        if step == "subtract":
            dying.setattr(MomentStore, "delete_rows", die)
        elif step == "subtracted":
            dying.setattr(MomentStore, "_replace", after(MomentStore._replace))
        elif step == "vacuum":
            dying.setattr(MomentStore, "vacuum", die)
        elif step == "publish":
            dying.setattr(champion_deletion, "retrained", die)
        else:
            dying.setattr(champion_deletion, "_publish", after(champion_deletion._publish))
        with pytest.raises(Dead):
            delete()
    code, result = delete()
    assert code == 0, result
    assert len(before & files()) == len(before) - 2
    assert_deleted(result, old.model.ranker.scorer.w)


def folds(seed, n=30):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 2)), rng.random(n) < 0.5
    return [PairMoments.of(X[k::2], y[k::2]) for k in range(2)]


def test_a_period_has_one_source_to_subtract_from(tmp_path):
    store = MomentStore(str(tmp_path), Facts(2, 2))
    stream = StoredStream(store, "s")
    for number in range(3):
        stream.append(number, {day(0): folds(number)})
    (window,) = store.windows([Window()])
    expected = window.total().positive.rows
    assert _source(store, day(0)) == "stream.s.00000000-00000002"
    assert sum(m.positive.rows for m in store.folds(day(0), store.sources(day(0))[0])) == expected
    store.put(day(0), "late", folds(9))
    with pytest.raises(ConfigError, match="expected one"):
        _source(store, day(0))


def test_a_period_is_done_when_the_store_lacks_the_rows_of_each_request(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = np.tile([[0.5, -1.0], [2.0, 0.3], [-0.2, 0.1]], (4, 1)), np.tile([True, False, True], 4)
    store = MomentStore("moments", Facts(2, 2))
    store.put(day(0), "rows", [PairMoments.of(X, y)] * 2)
    # Equal rows of each request: one positive row of each fold.
    removed = {"": [PairMoments.of(X[:1], y[:1])] * 2}

    def deleted(request, moments):
        config = section(request=request, periods=[day(0)])
        monkeypatch.setattr(retrain_deletion, "_moments", moments)
        retrain_deletion._delete_period(None, config, None, store, DeletionRecord(config), day(0))
        assert DeletionRecord(config).is_done(day(0))
        return store.folds(day(0), "rows")[1].positive.rows

    def unreadable(*_):
        raise AssertionError

    assert deleted("a", lambda *_: removed) == 7
    assert deleted("b", lambda *_: removed) == 6
    with monkeypatch.context() as dying:
        dying.setattr(MomentStore, "vacuum", unreadable)
        with pytest.raises(AssertionError):
            deleted("c", lambda *_: removed)
    assert not DeletionRecord(section(request="c")).is_done(day(0))
    # The rows may be deleted by now.
    assert deleted("c", unreadable) == 5
    with monkeypatch.context() as other:
        other.setattr(MomentStore, "delete_rows", lambda *_: None)
        with pytest.raises(DataError, match="after the deletion"):
            deleted("d", lambda *_: removed)
    assert not DeletionRecord(section(request="d")).is_done(day(0))


def test_periods_of_earlier_schema_ids_are_dropped(tmp_path, monkeypatch):
    class Config:
        @staticmethod
        def store_location():
            return str(tmp_path)

    class Record:
        values = {"dropped": {}}  # noqa: RUF012

        def write(self, **changes):
            self.values |= changes

    first = MomentStore(str(tmp_path), Facts(2, 2))
    second = MomentStore(str(tmp_path), Facts(2, 2, seed=1), full_refresh=True)
    for store in (first, second):
        for k in range(3):
            store.put(day(k), "rows", folds(k))
    record = Record()
    _drop_others(Config, second, record, [day(1), day(7)])
    assert record.values["dropped"] == {first.schema_id: [day(1)]}
    first.refresh()
    assert first.periods() == (day(0), day(2))
    assert second.periods() == (day(0), day(1), day(2))


def test_windows_are_read_from_their_names():
    from spark_auc.app.jobs.challenger import _name, window_of

    for window in (Window(), Window(30), Window(7, 2.5), Window(None, 14.0)):
        assert window_of(_name(window)) == window
