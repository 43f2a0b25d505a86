"""The job opauc: as a batch, as a stream, and as a stream that dies."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from sklearn.metrics import roc_auc_score

from spark_auc.app import opauc
from spark_auc.app.cli import run
from spark_auc.app.learner import Learner
from spark_auc.app.load import load
from spark_auc.app.publish import Directory, current
from spark_auc.app.stream_state import Checkpoint
from spark_auc.core.moments import PairMoments
from spark_auc.errors import ConfigError
from spark_auc.spark.mba import MBAClassifier
from spark_auc.spark.model import MBAModel
from spark_auc.spark.stream import FileStream

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("spark")

NAMES = ["a", "b", "c"]
SCHEMA = "a double, b double, c double, label double, u double"
BASE = {
    "columns": {"features": NAMES},
    "training": {"regParam": 0.1, "tol": 1e-10},
    "output": {"path": "model"},
}
STREAM = {"checkpoint": "checkpoint", "schema": SCHEMA, "maxFilesPerTrigger": 5}


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows").mkdir()
    return tmp_path


@pytest.fixture
def job(at, capsys):
    def started(stream=None, *overrides, **changes):
        section = BASE | {"data": {"path": "rows"}} | ({"stream": stream} if stream else {})
        (at / "conf.yaml").write_text(yaml.safe_dump({"opauc": section | changes}))
        code = run("opauc", "conf.yaml", overrides)
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return started


def parts(count=12, seed=3, rows=60):
    rng = np.random.default_rng(seed)
    made = []
    for k in range(count):
        X = rng.normal(size=(rows + k, 3)) * [1, 10, 0.1] + [5, 0, 1]
        y = (X - [5, 0, 1]) @ [1, 0.1, 0] + rng.normal(size=rows + k) > 0.5
        made.append((X, y, rng.uniform(0.5, 2, size=rows + k)))
    return made


def table(X, y, u):
    columns = dict(zip(NAMES, X.T, strict=True))
    return pa.table(columns | {"label": np.asarray(y, float), "u": u})


def aged(path, hour):
    os.utime(path, (1.7e9 + 3600 * hour, 1.7e9 + 3600 * hour))


def arrive(made, where="rows", first=0):
    for k, part in enumerate(made, first):
        path = f"{where}/{k:03d}.parquet"
        pq.write_table(table(*part), path)
        aged(path, k)


def moments(made, weighted=False):
    X, y, u = (np.concatenate(columns) for columns in zip(*made, strict=True))
    return PairMoments.of(X, y, u if weighted else None)


def committed(checkpoint="checkpoint"):
    directory = Directory.of(checkpoint)
    return Checkpoint(directory, directory / "rejected", Directory.of("rows")).load()


def status(checkpoint="checkpoint"):
    text = Path(checkpoint, "status.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def assert_same_moments(found, expected, rtol=1e-12):
    for a, b in ((found.positive, expected.positive), (found.negative, expected.negative)):
        assert a.rows == b.rows
        assert a.weight == pytest.approx(b.weight, rel=rtol)
        np.testing.assert_allclose(a.mean, b.mean, rtol=rtol)
        np.testing.assert_allclose(a.variance, b.variance, rtol=rtol)
    spread = np.sqrt(np.diag(expected.quadratic().Sigma.toarray()))
    difference = found.quadratic().Sigma.toarray() - expected.quadratic().Sigma.toarray()
    assert np.abs(difference / np.outer(spread, spread)).max() < rtol


def weights():
    return MBAModel.load(f"{current('model', 'model').uri}/model").scorer


@pytest.mark.parametrize(
    ("training", "weight"),
    [
        ({"regParam": 0.1}, None),
        ({"regParam": 0.01, "standardization": False}, "u"),
        ({"regParam": 0.1, "elasticNetParam": 0.5}, None),
    ],
)
def test_a_batch_is_the_all_pairs_fit(job, spark, training, weight):
    arrive(parts(3))
    training = training | {"tol": 1e-12}
    columns = {"features": NAMES, "weight": weight}
    code, result = job(columns=columns, training=training)
    assert (code, result["features"]) == (0, 3)
    rows = spark.read.parquet(str(Path("rows").absolute()))
    expected = MBAClassifier(featuresCol=NAMES, weightCol=weight, **training).fit(rows)
    np.testing.assert_allclose(weights().w, expected.scorer.w, rtol=1e-8, atol=1e-12)
    assert weights().threshold == pytest.approx(expected.threshold, rel=1e-8)
    assert weights().names == tuple(NAMES)
    assert result["rows"] == expected.summary.rows


def test_a_stream_is_the_batch_and_repeats_to_the_bit(job, spark):
    made = parts()
    arrive(made)
    code, result = job(STREAM)
    assert code == 0, result
    assert (result["batches"], result["files"], result["rejected"]) == (3, 12, 0)
    state = committed()
    assert_same_moments(state.statistics.moments, moments(made))
    rows = spark.read.parquet(str(Path("rows").absolute()))
    expected = MBAClassifier(featuresCol=NAMES, regParam=0.1).fit(rows)
    np.testing.assert_allclose(weights().w, expected.scorer.w, rtol=1e-8)
    found = status()
    assert [s["batch"] for s in found] == [0, 1, 2]
    assert [s["files"] for s in found] == [5, 5, 2]
    assert found[0]["auc"] is None
    # Test, then train: the second batch is scored by the model of the first.
    first = MBAClassifier(featuresCol=NAMES, regParam=0.1, tol=1e-10).fit(
        spark.read.parquet(*[str(Path(f"rows/{k:03d}.parquet").absolute()) for k in range(5)])
    )
    X, y, _ = (np.concatenate(c) for c in zip(*made[5:10], strict=True))
    assert found[1]["auc"] == pytest.approx(roc_auc_score(y, X @ first.scorer.w), abs=1e-12)
    assert found[1]["prequentialAUC"] == found[1]["auc"]
    low, high = found[2]["prequentialBounds"]
    assert low <= result["prequentialAUC"] <= high
    # The same again elsewhere, and once more where nothing is left to learn.
    assert job(STREAM | {"checkpoint": "other"}, output={"path": "again"})[0] == 0
    assert committed("other").statistics.to_bytes() == state.statistics.to_bytes()
    assert job(STREAM)[1]["batches"] == 3
    assert committed().to_bytes() == state.to_bytes()


def test_files_that_come_later_and_odd_names(job, at):
    made = parts(3)
    data = {"path": "rows", "options": {"recursiveFileLookup": True}}
    (at / "rows" / "sub").mkdir()
    for name, part in zip(["a [1]{b}*.parquet", "sub/c%20?.parquet"], made, strict=False):
        pq.write_table(table(*part), at / "rows" / name)
    stream = {k: v for k, v in STREAM.items() if k != "schema"}
    assert job(stream, data=data)[1]["files"] == 2
    # Older by far than what was learned before it: Spark alone would leave it out.
    pq.write_table(table(*made[2]), "rows/late.parquet")
    aged("rows/late.parquet", -100_000)
    code, result = job(stream, data=data)
    assert (code, result["files"], result["batches"]) == (0, 3, 2)
    assert_same_moments(committed().statistics.moments, moments(made))


def test_batches_of_one_class(job):
    made = [(X, np.full(len(y), k >= 2), u) for k, (X, y, u) in enumerate(parts(4))]
    arrive(made[:2])
    stream = STREAM | {"maxFilesPerTrigger": 1}
    code, result = job(stream)
    assert (code, result["model"]) == (0, None)
    assert "one class only: 0 positive" in result["lacking"]
    assert not Path("model/manifest.json").exists()
    assert "both classes" in status()[-1]["model"]
    arrive(made[2:], first=2)
    code, result = job(stream)
    assert (code, result["batches"], result["lacking"]) == (0, 4, None)
    assert [s["auc"] for s in status()] == [None] * 4
    assert result["prequentialAUC"] is None
    assert_same_moments(committed().statistics.moments, moments(made))


@pytest.mark.parametrize("half_life", [{"rows": 100}, {"hours": 2}])
def test_forgetting(job, half_life):
    made = parts(5)
    # A file that is older than those before it fades nothing.
    hours = [0, 1, 4, 3, 9]
    for k, part in enumerate(made):
        pq.write_table(table(*part), f"rows/{k}.parquet")
        aged(f"rows/{k}.parquet", hours[k])
    order = sorted(range(5), key=lambda k: hours[k])
    code, _ = job(STREAM | {"maxFilesPerTrigger": 2, "halfLife": half_life})
    assert code == 0
    u, newest = [], None
    for batch in (order[:2], order[2:4], order[4:]):
        rows = sum(len(made[k][1]) for k in batch)
        waited = 0 if newest is None else hours[batch[-1]] - newest
        factor = 0.5 ** (rows / 100) if "rows" in half_life else 0.5 ** (waited / 2)
        u = [w * factor for w in u] + [np.ones(len(made[k][1])) for k in batch]
        newest = hours[batch[-1]]
    expected = moments([(*made[k][:2], w) for k, w in zip(order, u, strict=True)], weighted=True)
    assert_same_moments(committed().statistics.moments, expected)


def test_bad_files_are_set_aside(job):
    made = parts(8)
    arrive(made)
    damaged = Path("rows/001.parquet").read_bytes()
    Path("rows/001.parquet").write_bytes(damaged[:-30])
    X, y, u = made[4]
    pq.write_table(table(np.where(X[7] == X, np.nan, X), y, u), "rows/004.parquet")
    pq.write_table(table(X, y + 2.0, u), "rows/006.parquet")
    for k in (1, 4, 6):
        aged(f"rows/{k:03d}.parquet", k)
    code, result = job(STREAM | {"rejected": "aside"})
    assert code == 0, result
    assert (result["files"], result["rejected"], result["batches"]) == (5, 3, 2)
    good = [made[k] for k in (0, 2, 3, 5, 7)]
    assert_same_moments(committed().statistics.moments, moments(good))
    assert [s["rejected"] for s in status()] == [2, 1]
    bad = ["001.parquet", "004.parquet", "006.parquet"]
    assert sorted(os.listdir("aside")) == sorted([*bad, *(f"{name}.reason.txt" for name in bad)])
    assert Path("aside/001.parquet").read_bytes() == damaged[:-30]
    assert "unreadable" in Path("aside/001.parquet.reason.txt").read_text()
    assert "NaN or infinite" in Path("aside/004.parquet.reason.txt").read_text()
    assert "label values" in Path("aside/006.parquet.reason.txt").read_text()
    assert len(os.listdir("rows")) == 5


@pytest.mark.parametrize("form", ["csv", "json"])
def test_bad_text_is_set_aside(job, form):
    made = parts(3)
    for k, part in enumerate(made):
        frame = table(*part).to_pandas()
        if form == "csv":
            frame.to_csv(f"rows/{k}.csv", index=False)
        else:
            frame.to_json(f"rows/{k}.json", orient="records", lines=True, double_precision=15)
        aged(f"rows/{k}.{form}", k)
    bad = Path(f"rows/1.{form}")
    text = bad.read_text()
    bad.write_text(
        text.replace("\n1.0," if form == "csv" else "", "", 0)[: len(text) // 2] + "#,\n"
    )
    aged(bad, 1)
    options = {"header": True} if form == "csv" else {}
    code, result = job(STREAM, data={"path": "rows", "format": form, "options": options})
    assert code == 0, result
    assert (result["files"], result["rejected"]) == (2, 1)
    assert_same_moments(committed().statistics.moments, moments([made[0], made[2]]), 1e-9)
    assert f"1.{form}" in Path(f"checkpoint/rejected/1.{form}.reason.txt").read_text()


def dying(monkeypatch, name, before):
    """Let the job die where a method of Checkpoint is called for a batch."""
    original = getattr(Checkpoint, name)

    def dies(self, state):
        at_hand = state.progress.refused if name == "move_refused" else state.progress.batch >= 0
        if not (before and at_hand):
            original(self, state)
        if at_hand:
            raise RuntimeError("died")

    monkeypatch.setattr(Checkpoint, name, dies)


def test_a_job_that_dies_goes_on(job, monkeypatch):
    made = parts(8)
    arrive(made)
    for k in (1, 5):
        Path(f"rows/{k:03d}.parquet").write_bytes(b"nothing")
        aged(f"rows/{k:03d}.parquet", k)
    stream = STREAM | {"maxFilesPerTrigger": 2}
    deaths = [("commit", True), ("move_refused", True), ("note", True), ("note", False)]
    for done, (name, before) in enumerate(deaths):
        with monkeypatch.context() as patched:
            dying(patched, name, before)
            code, result = job(stream)
        assert (code, result["message"]) == (1, "died")
        # The batch is committed, or the next run learns it as if for the first time.
        assert committed().progress.batch == done - 1
    code, result = job(stream)
    assert (code, result["files"], result["rejected"]) == (0, 6, 2)
    good = [made[k] for k in (0, 2, 3, 4, 6, 7)]
    assert_same_moments(committed().statistics.moments, moments(good))
    assert [s["batch"] for s in status()] == [0, 1, 2, 3]
    assert len(os.listdir("checkpoint/rejected")) == 4
    assert len(os.listdir("rows")) == 6


def test_told_to_stop(job):
    arrive(parts(2))

    def tell():
        while not Path("model/manifest.json").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=tell)
    thread.start()
    code, result = job(STREAM | {"trigger": "1 second", "publishEvery": 1})
    thread.join()
    assert (code, result["files"]) == (0, 2)


def test_a_batch_learned_already_changes_nothing(job, spark):
    arrive(parts(2))
    assert job(STREAM)[0] == 0
    config, state = load("conf.yaml").opauc, committed()
    checkpoint = opauc._checkpoint(config, config.stream)
    stream = FileStream.of(spark, checkpoint.arriving.uri, "parquet", {}, SCHEMA)
    publish = pytest.fail
    learner = Learner(stream, config, checkpoint, state, opauc._estimator(config), publish)
    learner.learn(0, pytest.fail)
    assert learner.state is state
    assert committed().to_bytes() == state.to_bytes()
    with pytest.raises(ConfigError, match="found batch 2 after batch 0"):
        learner.learn(2, pytest.fail)


@pytest.mark.parametrize(
    ("stream", "changes", "message"),
    [
        ({}, {"training": {}}, "a regParam"),
        ({}, {"training": {"regParam": 0.1, "estimator": "paired"}}, "leave out"),
        ({}, {"data": {"path": "nowhere"}}, "found nothing at 'nowhere'"),
        ({}, {"data": {"path": "rows", "format": "kafka"}}, "format 'kafka'"),
        ({}, {"data": {"table": "rows"}}, "found no path"),
        ({"trigger": "sometimes"}, {}, "trigger"),
        ({"halfLife": {}}, {}, "either rows or hours"),
        ({"halfLife": {"rows": 1, "hours": 1}}, {}, "either rows or hours"),
        ({"maxFilesPerTriger": 1}, {}, "did you mean 'maxFilesPerTrigger'"),
        ({"checkpoint": "rows/checkpoint"}, {}, "inside opauc.data.path"),
        ({}, {"output": {"path": "rows"}}, "inside opauc.data.path"),
        ({"schema": "a dubble"}, {}, "found the schema 'a dubble'"),
        ({}, {"columns": {"features": ["a", "d"]}}, "no column 'd'"),
    ],
)
def test_mistakes(job, stream, changes, message):
    code, result = job(STREAM | stream, **changes)
    assert code == 2, result
    assert message in result["message"]


def test_a_checkpoint_of_another_stream_is_refused(job, at):
    arrive(parts(1))
    assert job(STREAM)[0] == 0
    code, result = job(STREAM, columns={"features": ["a", "b"]})
    assert code == 2
    assert "found a checkpoint of columns" in result["message"]
    code, result = job(STREAM | {"checkpoint": "other"})
    assert code == 2
    assert "output.replace" in result["message"]
    (at / "checkpoint/spark").rename(at / "elsewhere")
    code, result = job(STREAM)
    assert code == 2
    assert "found state of batch 0 without spark" in result["message"]


@pytest.mark.slow
def test_killed_and_started_again():
    command = [sys.executable, str(ROOT / "benchmarks/stream_kill.py")]
    size = ["--files", "20", "--rows", "200", "--per-batch", "2", "--kills", "2", "--seed", "5"]
    done = subprocess.run(
        [*command, *size], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1])["identical"]
