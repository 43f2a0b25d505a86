"""Files that arrive, and what the job opauc makes of them."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.jobs.stream_state import Checkpoint
from spark_auc.app.running import run
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.publication.directory import Directory

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
        Path("conf.yaml").write_text(yaml.safe_dump({"opauc": section | changes}))
        code = run("opauc", "conf.yaml", overrides, ["stream"] if stream else [])
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
        np.testing.assert_allclose(a.spread()[0], b.spread()[0], rtol=rtol)
    spread = np.sqrt(np.diag(expected.quadratic().Sigma.toarray()))
    difference = found.quadratic().Sigma.toarray() - expected.quadratic().Sigma.toarray()
    assert np.abs(difference / np.outer(spread, spread)).max() < rtol


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
