"""Flushing to the disk, power failures at every flush, and a year of daily commits."""

import json
import os
import time
from datetime import date, timedelta

import pytest

from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ModelFormatError
from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.windows import Window
from tests.disk import Disk
from tests.store.periods import (
    DAYS,
    FACTS,
    D,
    K,
    assert_pairs,
    bits_of,
    filled,
    fold_rows,
    folds_of,
)


@pytest.fixture
def disk_of(monkeypatch):
    """Makes the disk of a directory."""
    disks = []

    def made(root):
        disks.append(Disk(root, monkeypatch))
        return disks[-1]

    yield made
    for disk in disks:
        disk.close()


def log_entries(path):
    return sorted(path.glob("_delta_log/*.json"))


def added(entry):
    actions = map(json.loads, entry.read_text().splitlines())
    return [action["add"]["path"] for action in actions if "add" in action]


def test_a_commit_is_flushed_before_put_returns(tmp_path, disk_of):
    disk = disk_of(tmp_path)
    path = tmp_path / "store"
    store = MomentStore(str(path), FACTS)
    for day in DAYS[:2]:
        disk.flushed.clear()
        store.put(day, "clicks", folds_of(day))
        entry = log_entries(path)[-1]
        [data] = added(entry)
        data = path / data
        assert data.exists()
        flushed = disk.flushed
        for file in (data, entry, *data.parents[:3], path, path / "_delta_log", tmp_path):
            assert file in flushed, file
        assert flushed.index(data) < flushed.index(entry)
        assert flushed.index(data.parent) < len(flushed) - 1 - flushed[::-1].index(entry.parent)
    disk.flushed.clear()
    assert not store.put(DAYS[0], "clicks", folds_of(DAYS[0]))
    assert not disk.flushed


def test_commits_of_killed_writers_are_flushed_too(tmp_path, monkeypatch, disk_of):
    from spark_auc.store import table

    with monkeypatch.context() as patch:
        patch.setattr(table, "flush_commits", lambda root, version: version)
        filled(tmp_path, DAYS[:2])
    disk = disk_of(tmp_path)
    filled(tmp_path, DAYS[2:3])
    for entry in log_entries(tmp_path):
        assert entry in disk.flushed
        assert all(tmp_path / path in disk.flushed for path in added(entry))


@pytest.mark.parametrize("commits", [0, 1, 8])
def test_a_power_failure_leaves_the_state_before_or_after(tmp_path, monkeypatch, disk_of, commits):
    """At every flush of a put: of the first one, a later one, and one with a checkpoint."""
    path = tmp_path / "disk" / "store"
    path.parent.mkdir()
    days = [f"2026-03-{day:02}" for day in range(1, 11)]
    if commits:
        filled(path, days[:commits])
    states = [tuple(days[:commits]), tuple(days[: commits + 1])]
    disk = disk_of(path.parent)
    filled_before = bits_of(opened(path).windows([Window()])[0]) if commits else None
    opened(path).put(days[commits], "clicks", folds_of(days[commits] + "clicks"))
    filled_after = bits_of(opened(path).windows([Window()])[0])
    checkpoint = list(path.glob("_delta_log/*.checkpoint*.parquet"))
    assert bool(checkpoint) == (commits == 8)
    reached = set()
    monkeypatch.setattr(os, "fsync", lambda number: None)
    for number, image in enumerate(disk.images):
        target = tmp_path / f"after{number}"
        disk.restore(image, target)
        store = opened(target / "store")
        assert store.periods() in states
        reached.add(store.periods())
        if store.periods():
            after = store.periods() == states[1]
            found = bits_of(store.windows([Window()])[0])
            assert found == (filled_after if after else filled_before)
        store.put(days[commits], "clicks", folds_of(days[commits] + "clicks"))
        assert bits_of(store.windows([Window()])[0]) == filled_after
    assert store.periods() == states[1]
    assert reached == set(states)


@pytest.mark.parametrize("others", [0, 5])
def test_a_power_failure_in_a_deletion(tmp_path, monkeypatch, disk_of, others):
    """At every flush the old or the new moments; at the end the old ones are on no disk.

    After five others, the deletion's commit is covered by a checkpoint before the vacuum.
    """
    path = tmp_path / "disk" / "store"
    path.parent.mkdir()
    store = filled(path, DAYS[:2])
    for number in range(others):
        store.put(DAYS[1], f"late{number}", folds_of("late"))
    X, y, u = fold_rows(DAYS[0] + "clicks")[1]
    removed = [PairMoments.zero(D)] * K
    removed[1] = PairMoments.of(X[2:4], y[2:4], u[2:4])
    before = bits_of(store.windows([Window()])[0])
    [old] = path.glob(f"*/period={DAYS[0]}/*/*.parquet")
    disk = disk_of(path.parent)
    store.delete_rows(DAYS[0], "clicks", removed, "a")
    after = bits_of(store.windows([Window()])[0])
    assert after != before
    assert bool(list(path.glob("_delta_log/*.checkpoint*.parquet"))) == bool(others)
    monkeypatch.setattr(os, "fsync", lambda number: None)
    reached = set()
    for number, image in enumerate(disk.images):
        target = tmp_path / f"after{number}"
        disk.restore(image, target)
        again = opened(target / "store")
        found = bits_of(again.windows([Window()])[0])
        assert found in (before, after)
        reached.add(found == after)
        again.delete_rows(DAYS[0], "clicks", removed, "a")
        assert bits_of(again.windows([Window()])[0]) == after
    assert reached == {False, True}
    disk.restore(disk.images[-1], tmp_path / "end")
    assert not list((tmp_path / "end").rglob(old.name))


def opened(path):
    return MomentStore(str(path), FACTS)


@pytest.mark.parametrize("damage", ["missing", "empty"])
def test_an_unreported_commit_without_its_data_is_replaced(tmp_path, damage):
    """The system may write a log entry to the disk before the data, without a flush."""
    filled(tmp_path, DAYS[:3])
    [file] = tmp_path.glob(f"*/period={DAYS[1]}/*/*.parquet")
    file.unlink() if damage == "missing" else file.write_bytes(b"")
    store = opened(tmp_path)
    assert store.periods() == tuple(DAYS[:3])
    assert_pairs(store.windows([Window(1)])[0].total(), fold_rows(DAYS[2] + "clicks"))
    with pytest.raises(ModelFormatError, match="replace the period by another run"):
        store.windows([Window()])
    assert store.put(DAYS[1], "clicks", folds_of(DAYS[1] + "clicks"))
    parts = [part for day in DAYS[:3] for part in fold_rows(day + "clicks")]
    assert_pairs(store.windows([Window()])[0].total(), parts)


@pytest.mark.parametrize("count", [35, pytest.param(365, marks=pytest.mark.slow)])
def test_a_year_of_daily_commits_opens_in_under_a_second(tmp_path, count):
    facts = Facts(2, 2)
    store = MomentStore(str(tmp_path), facts)
    X, y, _ = fold_rows("x")[0]
    folds = [PairMoments.of(X[:, :2], y)] * 2
    days = [(date(2026, 1, 1) + timedelta(day)).isoformat() for day in range(count)]
    for day in days:
        store.put(day, "clicks", folds)
    start = time.perf_counter()
    store = MomentStore(str(tmp_path), facts)
    assert store.periods() == tuple(days)
    assert time.perf_counter() - start < 1.0
    [merged] = store.windows([Window(30)])
    assert merged.periods == tuple(days[-30:])
    checkpoints = list(tmp_path.glob("_delta_log/*.checkpoint*.parquet"))
    assert len(checkpoints) >= count // 10


def test_expired_log_entries_are_deleted_after_a_checkpoint(tmp_path, monkeypatch):
    from spark_auc.store import table

    retention = {"delta.logRetentionDuration": "interval 0 days"}
    monkeypatch.setattr(table, "_CONFIGURATION", table._CONFIGURATION | retention)
    days = [f"2026-03-{day:02}" for day in range(1, 26)]
    stale = filled(tmp_path, days[:1])
    filled(tmp_path, days[1:])
    assert len(log_entries(tmp_path)) < 20
    store = opened(tmp_path)
    assert store.periods() == tuple(days)
    parts = [part for day in days for part in fold_rows(day + "clicks")]
    assert_pairs(store.windows([Window()])[0].total(), parts)
    # A writer whose snapshot is older than the log reads the checkpoint.
    stale.put("2026-03-26", "clicks", folds_of("x"))
    assert opened(tmp_path).periods() == (*days, "2026-03-26")
