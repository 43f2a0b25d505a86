"""Faults of the store: an output is whole or not there, and a later run succeeds."""

import time

import pytest

from spark_auc.errors import ConfigError, ConflictError, SparkAUCError, StorageError
from spark_auc.publication.directory import Directory
from spark_auc.publication.manifest import MANIFEST
from spark_auc.publication.publish import publication
from spark_auc.publication.versions import current, files_of, resolve
from spark_auc.storage import file_systems
from tests.objects.proxy import Plan

FILES = {f"data/part-{k}": bytes([k]) * (1000 + k) for k in range(6)}


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Less patience than users get, so that a store that does not answer takes less time."""
    monkeypatch.setattr(file_systems, "_REQUEST_SECONDS", 1.0)
    monkeypatch.setattr(file_systems, "_ATTEMPTS", 3)


def publish(place, mark=b"", replace=False):
    with publication(place, replace, "data") as version:
        for name, content in FILES.items():
            version.write(name, content + mark)


def read(place):
    version = current(place, "data")
    return {name: version.read(name) for name in version.files()}


@pytest.mark.parametrize("seed", range(8))
def test_a_publication_is_whole_or_not_there(bucket, proxy, seed):
    """With faults that outlast the retries, a run fails by one error or publishes every byte."""
    place = f"{bucket}/out"
    publish(place, b"old")
    old = {name: content + b"old" for name, content in FILES.items()}
    new = {name: content + b"new" for name, content in FILES.items()}
    proxy.plan = Plan(rate=0.15 + 0.05 * seed, seed=seed, pause=1.5, spared=False)
    try:
        publish(place, b"new", replace=True)
        allowed = [new]
    except SparkAUCError:
        # The answer to the manifest may be lost for good, after the store has taken it.
        allowed = [old, new]
    assert proxy.plan.met
    proxy.plan = Plan()
    assert read(place) in allowed
    publish(place, b"new", replace=True)
    assert read(place) == new


@pytest.mark.parametrize("kind", ["500", "503", "lost", "drop", "half"])
def test_one_fault_of_each_request_is_retried(bucket, proxy, kind):
    """Every request fails once, and nobody notices."""
    place = f"{bucket}/out"
    proxy.plan = Plan(rate=1.0, kinds=(kind,))
    publish(place)
    assert resolve(place).startswith(f"{place}/versions/")
    assert len(files_of(place)) == len(FILES)
    assert read(place) == FILES
    assert proxy.plan.met[kind] > len(FILES)


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_that_ends_within_its_head_is_no_content(bucket, proxy, seed):
    """Arrow takes it for one of no bytes, over plain HTTP; what is read is right or an error."""
    place = f"{bucket}/out"
    publish(place)
    version = current(place, "data")
    proxy.plan = Plan(rate=0.4, seed=seed, kinds=("head",))
    for name, content in FILES.items():
        assert version.read(name) == content
    for _ in range(3):
        try:
            assert current(place, "data") == version
        except (SparkAUCError, FileNotFoundError):
            continue
    assert proxy.plan.met["head"]


def test_a_slow_listing_is_waited_for(bucket, proxy):
    place = f"{bucket}/out"
    publish(place)
    proxy.plan = Plan(listing=0.7)
    assert read(place) == FILES
    assert any("list-type" in line for line in proxy.plan.requests)


@pytest.mark.parametrize("dead", ["stall", "drop", "503"])
def test_a_dead_store_is_one_error_in_bounded_time(bucket, proxy, dead):
    place = f"{bucket}/out"
    publish(place)
    for work in (lambda: publish(place, replace=True), lambda: resolve(place)):
        proxy.plan, start = Plan(dead=dead), time.monotonic()
        with pytest.raises(StorageError, match=f"found that the store of {place} failed"):
            work()
        # Three attempts of a second, and pauses; the failed job asks once more for the manifest.
        assert time.monotonic() - start < 15
    proxy.plan = Plan()
    assert read(place) == FILES


@pytest.mark.parametrize("dead", ["lost", "500"])
def test_an_answer_that_is_lost_for_good(bucket, proxy, dead):
    """The manifest was taken or not, and no answer came: the job asks the store what it has."""
    place = f"{bucket}/out"
    proxy.plan = Plan(dead=dead, matching=f"PUT /{bucket[5:]}/out/{MANIFEST}")
    if dead == "lost":
        publish(place)
        assert read(place) == FILES
    else:
        with pytest.raises(StorageError):
            publish(place)
        assert not files_of(place)
        proxy.plan = Plan()
        publish(place)
        assert read(place) == FILES
    assert proxy.plan.met[dead] or dead == "500"


def test_the_later_of_two_jobs_is_refused(bucket):
    place = f"{bucket}/out"

    def later():
        with publication(place, True, "data") as version:
            version.write("a", b"mine")
            publish(place, b"first")

    with pytest.raises(ConflictError):
        later()
    assert read(place) == {name: content + b"first" for name, content in FILES.items()}


def test_a_late_file_of_a_dead_attempt_is_not_read(bucket):
    place = f"{bucket}/out"
    publish(place)
    current(place, "data").write("data/part-9", b"stray")
    assert {path.rpartition("/")[2] for path in files_of(f"{place}/data")} == {
        f"part-{k}" for k in range(6)
    }
    assert set(files_of(place)) == set(files_of(f"{place}/data"))


def test_nothing_in_a_bucket_is_local(bucket):
    with pytest.raises(ConfigError, match="no plain bucket and key"):
        Directory.of("s3://b/a?region=x")
    with pytest.raises(ConfigError, match="no plain bucket and key"):
        Directory.of("s3://key:word@b/a")
    assert Directory.of(bucket.replace("s3:", "S3A:") + "/x/").path == f"{bucket[5:]}/x"
