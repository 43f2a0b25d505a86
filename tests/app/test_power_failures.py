"""Power failures at every flush of a publication and of a retraining's records, without Spark."""

import os

import pytest

pytest.importorskip("jinja2")

from spark_auc.app.jobs.retrain_history import History
from spark_auc.errors import ConfigError
from spark_auc.publication.publish import publication
from spark_auc.publication.versions import current
from tests.disk import Disk


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """What is on the disk; the directory is tmp_path/disk."""
    (tmp_path / "disk").mkdir()
    disk = Disk(tmp_path / "disk", monkeypatch)
    yield disk
    disk.close()


def images(disk, tmp_path, monkeypatch, since):
    """Directories with the state after each flush since a number of them."""
    monkeypatch.setattr(os, "fsync", lambda number: None)
    for number, image in enumerate(disk.images[since:]):
        target = tmp_path / f"after{number}"
        disk.restore(image, target)
        yield target


def publish(location, content):
    with publication(str(location), True, "model", keep=1) as version:
        version.write("inner/weights", content)
        version.write("facts", content[::-1])


def read(location):
    try:
        version = current(str(location), "model")
    except ConfigError:
        return None
    content = version.read("inner/weights")
    assert version.read("facts") == content[::-1]
    return content


@pytest.mark.parametrize("before", [None, b"first"])
def test_a_publication_is_the_old_or_the_new_version(disk, tmp_path, monkeypatch, before):
    location = disk.root / "deep" / "model"
    if before is not None:
        publish(location, before)
    since = len(disk.images)
    publish(location, b"second")
    found = [
        read(target / "deep" / "model") for target in images(disk, tmp_path, monkeypatch, since)
    ]
    assert set(found) == {before, b"second"}
    assert found[-1] == b"second"


@pytest.mark.parametrize("count", [0, 1])
def test_a_record_is_whole_and_stays(disk, tmp_path, monkeypatch, count):
    location = disk.root / "deep" / "history"
    days = [f"2026-03-{k:02}" for k in range(1, 4)]
    records = [{"period": day, "outcome": "kept", "reason": "", "completed": True} for day in days]
    history = History(str(location))
    for record in records[:count]:
        history.write(record)
    since = len(disk.images)
    history.write(records[count])
    reached = []
    for target in images(disk, tmp_path, monkeypatch, since):
        again = History(str(target / "deep" / "history"))
        again.complete()
        assert list(again.records) in (days[:count], days[: count + 1])
        reached.append(len(again.records))
    assert reached[-1] == count + 1
    assert reached == sorted(reached)
