"""The job opauc on files that cannot be used, and when it dies."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from spark_auc.app.config.load import load
from spark_auc.app.jobs import opauc
from spark_auc.app.jobs.raw_rows import features_by
from spark_auc.app.jobs.stream_learner import StreamLearner
from spark_auc.app.jobs.stream_state import Checkpoint
from spark_auc.errors import ConfigError
from spark_auc.spark.streaming.all_pairs import AllPairs
from spark_auc.spark.streaming.files import FileStream
from tests.app import arriving
from tests.app.arriving import (
    SCHEMA,
    STREAM,
    aged,
    arrive,
    assert_same_moments,
    committed,
    dying,
    moments,
    parts,
    status,
    table,
)

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("spark")
at, job = arriving.at, arriving.job


@pytest.mark.slow
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


@pytest.mark.slow
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

    threading.Thread(target=tell, daemon=True).start()
    code, result = job(STREAM | {"trigger": "1 second", "publishEvery": 1})
    assert (code, result["files"]) == (0, 2)


def test_a_batch_learned_already_changes_nothing(job, spark):
    arrive(parts(2))
    assert job(STREAM)[0] == 0
    config, state = load("conf.yaml").opauc, committed()
    checkpoint = Checkpoint.of(config, config.stream)
    stream = FileStream.of(spark, checkpoint.arriving.uri, "parquet", {}, SCHEMA)
    publish = pytest.fail
    features = features_by(None, config.columns)
    learning, settings = AllPairs.of(opauc._estimator(config), False), state.progress.settings
    learner = StreamLearner(
        stream, config, settings, checkpoint, state, features, learning, publish
    )
    learner.learn(0, pytest.fail)
    assert learner.state is state
    assert committed().to_bytes() == state.to_bytes()
    with pytest.raises(ConfigError, match="found batch 2 after batch 0"):
        learner.learn(2, pytest.fail)


@pytest.mark.slow
def test_killed_and_started_again():
    command = [sys.executable, str(ROOT / "benchmarks/stream_kill.py")]
    size = ["--files", "10", "--rows", "200", "--per-batch", "2", "--kills", "1", "--seed", "5"]
    done = subprocess.run(
        [*command, *size], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1])["identical"]
