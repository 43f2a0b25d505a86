"""The store on S3, as the server of the package moto simulates it in a process of its own."""

import importlib.util
import logging

import pytest
from pyarrow import fs

from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import DataError, StoreConflict
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.windows import Window
from tests.objects.server import KEY, SECRET, environment, others, requested, running
from tests.store.periods import (
    DAYS,
    FACTS,
    D,
    K,
    assert_pairs,
    bits,
    bits_of,
    filled,
    fold_rows,
    folds_of,
)
from tests.store.test_writers import check_winner, race_of_processes, race_of_threads

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("moto") is None,
        reason="the package moto[server] is not installed",
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("moto") / "log.txt") as url:
        yield url


@pytest.fixture
def bucket(server, monkeypatch, request):
    """The URI of a new bucket; credentials are in the environment only."""
    name = f"b{abs(hash(request.node.name))}"
    requested(f"{server}/{name}", "PUT")
    for key in others():
        monkeypatch.delenv(key)
    for key, value in environment(server).items():
        monkeypatch.setenv(key, value)
    return f"s3://{name}"


def opened(uri):
    return MomentStore(uri, FACTS)


def data_files(server, uri):
    """Number of data files, that of the facts included."""
    return requested(f"{server}/{uri.removeprefix('s3://')}?list-type=2").decode().count("/part-")


def test_windows_have_the_bits_of_a_local_store(bucket, tmp_path):
    windows = [Window(1), Window(3), Window(), Window(5, 1.5)]
    uri = f"{bucket}/retrain/moments"
    assert opened(uri).periods() == ()
    stores = [filled(place) for place in (uri, tmp_path)]
    for store in stores:
        store.put(DAYS[1], "late", folds_of("late"))
        assert not store.put(DAYS[0], "clicks", folds_of(DAYS[0] + "clicks"))
    remote, local = opened(uri), MomentStore(str(tmp_path), FACTS)
    assert (remote.version, remote.contents()) == (local.version, local.contents())
    assert MomentStore.stored_facts(uri) == {FACTS.schema_id: FACTS}
    for a, b in zip(remote.windows(windows), local.windows(windows), strict=True):
        assert bits_of(a) == bits_of(b)
    assert remote.disk_size() is None


def test_replacements_vacuum_and_deletion(bucket, server):
    store = filled(bucket, DAYS[:2])
    for name in "abcdefghijkl":
        store.put(DAYS[0], "clicks", folds_of(name))
    reader = opened(bucket)
    before = data_files(server, bucket)
    X, y, u = fold_rows("l")[1]
    removed = [PairMoments.zero(D)] * K
    removed[1] = PairMoments.of(X[1:3], y[1:3], u[1:3])
    store.delete_rows(DAYS[0], "clicks", removed, "a")
    assert (before, data_files(server, bucket)) == (15, 3)
    rest = fold_rows("l")
    rest[1] = tuple(a[[0, *range(3, len(y))]] for a in (X, y, u))
    assert_pairs(opened(bucket).windows([Window(1)], newest=DAYS[0])[0].total(), rest)
    with pytest.raises(StoreConflict, match="run this job again"):
        reader.windows([Window()])
    with pytest.raises(DataError, match="found no period"):
        store.folds("2026-12-31", "clicks")
    listed = requested(f"{server}/{bucket.removeprefix('s3://')}?list-type=2").decode()
    assert "checkpoint.parquet" in listed


def test_writers_of_one_period_and_of_different_periods(bucket):
    names = ["one", "two", "three"]
    codes = race_of_threads(bucket, [DAYS[0]] * 3, names)
    check_winner(bucket, DAYS[0], names, codes)
    assert race_of_threads(bucket, DAYS[1:4], names) == [0, 0, 0]
    for day, name in zip(DAYS[1:4], names, strict=True):
        assert list(map(bits, opened(bucket).folds(day, "clicks"))) == list(
            map(bits, folds_of(name))
        )


def test_ten_races_of_processes(bucket):
    same = [f"r{number:03}" for number in range(10)]
    names = ["one", "two"]
    codes = race_of_processes(bucket, names, [same, same])
    for period in same:
        check_winner(bucket, period, names, [codes[period, name] for name in names])


def test_credentials_are_not_logged_and_not_stored(bucket, server, monkeypatch, caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        filled(bucket, DAYS[:2]).vacuum()
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        with pytest.raises(Exception, match=r".") as failed:
            MomentStore(bucket, FACTS, storage_options={"timeout": "1s", "max_retries": "0"})
    output = capfd.readouterr()
    text = [caplog.text, str(failed.value), repr(failed.value), output.out, output.err]
    files, _ = fs.FileSystem.from_uri(f"{bucket}?endpoint_override={server}")
    selector = fs.FileSelector(bucket.removeprefix("s3://"), recursive=True)
    names = [info.path for info in files.get_file_info(selector) if info.extension == "json"]
    logs = [files.open_input_stream(name).read().decode() for name in names]
    assert len(logs) > 2
    for secret in (KEY, SECRET):
        assert all(secret not in part for part in (*text, *logs))


def test_records_of_a_retraining(bucket):
    """The job's directory of decisions, and its place of the store, beside the moments."""
    from spark_auc.app.config.retraining import Retrain
    from spark_auc.app.jobs.retrain_history import History

    section = {
        "data": {"path": "clicks/{period}.parquet"},
        "store": f"{bucket}/moments",
        "history": f"{bucket}/history",
        "output": {"path": "model"},
    }
    config = Retrain.model_validate(section)
    assert filled(config.store_location(), DAYS[:1]).periods() == (DAYS[0],)
    record = {"period": DAYS[0], "outcome": "stored", "reason": "", "completed": True}
    History(config.history).write(record)
    History(config.history).write(record | {"reason": "again"})
    assert History(config.history).records == {DAYS[0]: record | {"reason": "again"}}
