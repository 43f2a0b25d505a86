"""The same rows get the same scores on classic Spark, Spark Connect and a standalone cluster."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.ml.linalg import VectorUDT
from pyspark.sql.types import ArrayType, DoubleType, LongType, StructType

import spark_auc
from spark_auc.features.recipe_json import from_json
from tests.modes import recipes, run

SCRIPT = Path(run.__file__)
SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE = 570
# Sessions and clusters in processes of their own.
pytestmark = pytest.mark.slow
VECTOR = pa.struct(
    [
        pa.field("type", pa.int8(), nullable=False),
        ("size", pa.int32()),
        ("indices", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        ("values", pa.list_(pa.field("element", pa.float64(), nullable=False))),
    ]
)


@pytest.fixture(scope="module")
def data(spark, tmp_path_factory):
    """Sparse rows, dense weighted ones and raw ones, in three files each."""
    place = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(7)
    n, d = 600, 40
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.15)
    y = (X @ rng.normal(size=d) + rng.normal(size=n) > 0.8).astype(float)
    stored = [np.flatnonzero(row) for row in X]
    vectors = [
        {"type": 0, "size": d, "indices": at, "values": row[at]}
        for row, at in zip(X, stored, strict=True)
    ]
    write(place / "sparse", {"label": y, "features": pa.array(vectors, VECTOR)})

    n, d = 400, 8
    X = rng.normal(size=(n, d)) * np.geomspace(0.1, 100, d) + 5
    y = (X[:, 0] * 10 + rng.normal(size=n) > 51).astype(float)
    vectors = [{"type": 1, "size": None, "indices": None, "values": row} for row in X]
    columns = {
        "label": y,
        "weight": rng.integers(1, 5, n).astype(float),
        "features": pa.array(list(X), pa.list_(pa.float64())),
        "vector": pa.array(vectors, VECTOR),
    }
    write(place / "dense", columns)
    recipes.write(spark, place / "raw")
    return place


def write(directory, columns):
    """Write Parquet as Spark does, which notes there which structs are vectors."""
    table = pa.table({"id": np.arange(len(columns["label"])), **columns})
    types = {VECTOR: VectorUDT(), pa.list_(pa.float64()): ArrayType(DoubleType())}
    plain = {pa.int64(): LongType(), pa.float64(): DoubleType()}
    schema = StructType()
    for field in table.schema:
        schema = schema.add(field.name, (types | plain)[field.type])
    noted = {"org.apache.spark.sql.parquet.row.metadata": schema.json()}
    directory.mkdir()
    for k in range(3):
        part = table.filter(pa.array(np.arange(table.num_rows) % 3 == k))
        pq.write_table(part.replace_schema_metadata(noted), directory / f"{k}.parquet")


def environment():
    """This process's, without what would lead Spark elsewhere."""
    led = ("SPARK_", "PYSPARK_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(led)}
    return kept | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }


@contextmanager
def process(command, log, place):
    """A process with a group of its own, of which nothing is left afterwards."""
    with log.open("w") as out:
        started = subprocess.Popen(
            [str(part) for part in command],
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=place,
            env=environment(),
            start_new_session=True,
        )
    try:
        yield started
    finally:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(started.pid, sent)
                started.wait(10)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue


def result_of(command, mode, data, place):
    """What the script found, run by the command."""
    result, log = place / f"{mode}.json", place / f"{mode}.log"
    with process([*command, SCRIPT, mode, data, result], log, place) as started:
        try:
            code = started.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            code = f"none within {PATIENCE} s"
    assert code == 0, f"exit code {code}\n{log.read_text()[-5000:]}"
    return json.loads(result.read_text())


def awaited(log, pattern, started):
    """The match of a pattern in a log that is being written."""
    end = time.monotonic() + 60
    while time.monotonic() < end and started.poll() is None:
        if match := re.search(pattern, log.read_text()):
            return match
        time.sleep(0.1)
    raise AssertionError(f"found no {pattern!r} in:\n{log.read_text()[-5000:]}")


@contextmanager
def cluster(place):
    """The address of a standalone cluster of two workers with one core each."""
    daemon = [SPARK_HOME / "bin" / "spark-class"]
    here = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    log = place / "master.log"
    with process([*daemon, "org.apache.spark.deploy.master.Master", *here], log, place) as master:
        address = awaited(log, r"Starting Spark master at (spark://\S+)", master)[1]
        worker = [*daemon, "org.apache.spark.deploy.worker.Worker", *here, "--cores", "1"]
        worker += ["--memory", "1g", "--work-dir"]
        logs = [place / "worker0.log", place / "worker1.log"]
        with (
            process([*worker, place / "work0", address], logs[0], place) as first,
            process([*worker, place / "work1", address], logs[1], place) as second,
        ):
            for started, written in zip((first, second), logs, strict=True):
                awaited(written, "Successfully registered with master", started)
            yield address


@pytest.fixture(scope="module")
def classic(spark, data, tmp_path_factory):
    place = tmp_path_factory.mktemp("classic")
    return json.loads(json.dumps(run.found(spark, "classic", data, place)))


@pytest.fixture(scope="module")
def connect(data, tmp_path_factory):
    pytest.importorskip("grpc", reason="needs pip install 'spark-auc[connect]'")
    return result_of([sys.executable], "connect", data, tmp_path_factory.mktemp("connect"))


@pytest.fixture(scope="module")
def submitted(data, tmp_path_factory):
    place = tmp_path_factory.mktemp("cluster")
    package = Path(spark_auc.__file__).parent
    with zipfile.ZipFile(place / "shipped.zip", "w") as archive:
        for file in sorted(package.rglob("*")):
            if "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(package.parent))
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "600m",
        "spark.sql.shuffle.partitions": "2",
        # Both workers from the first stage on.
        "spark.cores.max": "2",
        # Kernels in a zip must do without a cache of compiled code.
        "spark.executorEnv.XDG_CACHE_HOME": "/dev/null",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    with cluster(place) as address:
        submit = [SPARK_HOME / "bin" / "spark-submit", "--master", address]
        for key, value in settings.items():
            submit += ["--conf", f"{key}={value}"]
        submit += ["--py-files", place / "shipped.zip"]
        return result_of(submit, "cluster", data, place)


@pytest.fixture(
    params=[
        "classic",
        pytest.param("connect", marks=pytest.mark.connect),
        pytest.param("submitted", marks=pytest.mark.cluster),
    ]
)
def any_mode(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["classic", pytest.param("connect", marks=pytest.mark.connect)])
def local_mode(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("rows", ["sparse", "dense"])
class TestTraining:
    def test_same_scores_in_every_mode(self, any_mode, classic, rows):
        key, score, prediction = map(np.array, zip(*any_mode[rows]["scores"], strict=True))
        same_key, expected, same_prediction = map(
            np.array, zip(*classic[rows]["scores"], strict=True)
        )
        np.testing.assert_array_equal(key, same_key)
        np.testing.assert_allclose(score, expected, rtol=1e-12)
        np.testing.assert_array_equal(prediction, same_prediction)

    def test_same_summary_in_every_mode(self, any_mode, classic, rows):
        for fact in ("rows", "positiveWeight", "negativeWeight", "nonzeros"):
            assert any_mode[rows][fact] == classic[rows][fact]

    def test_same_bits_when_repeated(self, any_mode, rows):
        assert any_mode[f"{rows} again"] == any_mode[rows]


def test_same_measures_in_every_mode(any_mode, classic):
    found, expected = any_mode["measures"], classic["measures"]
    assert 0.8 < found["report"]["auc"] < 1
    for name in ("report", "histogram"):
        assert found[name] == expected[name]
    np.testing.assert_allclose(found["difference"], expected["difference"], rtol=1e-9)
    assert found["curve"] == pytest.approx(expected["curve"], rel=1e-6)


@pytest.mark.parametrize("name", recipes.SETTINGS)
class TestRecipes:
    def test_same_bits_of_rows_by_every_way(self, any_mode, data, name):
        recipe, columns = recipes.fitted(name)
        expected = recipes.hashes(recipe, columns, data / "raw" / name)
        ways = any_mode["recipes"][name]["ways"]
        assert len(ways) == {"mixed": 7, "ignoring": 1}.get(name, 3)
        assert ways == {way: expected[: len(hashes)] for way, hashes in ways.items()}

    def test_the_recipe_of_numpy_is_fitted(self, any_mode, name):
        expected, _ = recipes.fitted(name)
        assert from_json(any_mode["recipes"][name]["fitted"]) == expected


def test_same_weights_of_raw_rows_in_every_mode(any_mode, data):
    weights = any_mode["recipes"]["stored"]["weights"]
    expected = np.load(data / "raw/stored/weights.npy")
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(expected) > 20


def test_same_draws_and_choice_in_every_mode(any_mode, classic):
    found, expected = any_mode["sampled"], classic["sampled"]
    for estimator, w in expected["weights"].items():
        np.testing.assert_allclose(found["weights"][estimator], w, atol=1e-12)
    assert found["cost"] == pytest.approx(expected["cost"], rel=1e-9)
    assert found["chosen"] == expected["chosen"]
    np.testing.assert_allclose(found["selection"], expected["selection"], atol=1e-12)


def test_modes_are_what_they_are_called(any_mode, request):
    over_connect = "connect" in any_mode["session"]
    assert over_connect == ("connect" in request.node.callspec.id)


@pytest.mark.cluster
def test_driver_and_executors_run_the_shipped_code(submitted):
    assert submitted["origins"]
    assert all("shipped.zip" in origin for origin in submitted["origins"])


@pytest.mark.parametrize("kind", ["model", "estimator", "pipeline", "pipelineModel"])
def test_saved_is_loaded_as_it_was(local_mode, kind):
    assert local_mode["persistence"][kind]


@pytest.mark.parametrize("tuner", ["folds", "part"])
def test_tuners_run(local_mode, classic, tuner):
    metrics = local_mode["tuning"][tuner]
    assert len(metrics) == 2
    assert all(0.8 < metric <= 1 for metric in metrics)
    np.testing.assert_allclose(metrics, classic["tuning"][tuner], rtol=1e-9)
