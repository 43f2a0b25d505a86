"""The server in examples/: its answers beside the ranker's, errors, and new versions."""

import importlib.util
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import spark_auc
from spark_auc.errors import ConfigError
from spark_auc.features.kinds.parts_of_times import Hour
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.recipe import Recipe
from spark_auc.publication.directory import Directory
from spark_auc.publication.publish import publication
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.serving.score_curves import Sigmoid
from tests.serving.stored import pipeline, stage

fastapi = pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

FILE = Path(__file__).parents[2] / "examples/http_server.py"
RECIPE = Recipe(
    (Spline("age", "float", (0.0, 30.0, 90.0)),),
    (Tokens("city", "text"), Tokens("flag", "boolean"), Hour("time", "time")),
    dimension=64,
)
ROWS = [
    {"age": 40, "city": "ö", "flag": True, "time": "2024-02-29T12:30:00"},
    {"age": None, "city": None, "flag": None, "time": None, "other": [1]},
    {"age": 12.5, "city": "", "flag": False, "time": "2024-02-29T23:30:00+02:00"},
]


@pytest.fixture(scope="module")
def server():
    spec = importlib.util.spec_from_file_location("http_server", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def client_of(app):
    from fastapi.testclient import TestClient

    return TestClient(app)


def publish(path, seed, curve=None):
    w = np.random.default_rng(seed).normal(size=RECIPE.size)
    with publication(str(path), True, "model") as version:
        pipeline(LinearScorer(w, 0.1, "yes", "no"), RECIPE, curve).write(version / "model")
    return version.path.rpartition("/")[-1]


def test_answers_are_those_of_the_ranker(server, tmp_path):
    version = publish(tmp_path / "model", 1, Sigmoid(2.0, -1.0))
    ranker = spark_auc.load(str(tmp_path / "model"))
    times = [row["time"] and datetime.fromisoformat(row["time"]) for row in ROWS]
    expected = [
        {"score": s, "label": "yes" if s > 0.1 else "no", "probability": ranker.probability(row)}
        for row in [{**row, "time": at} for row, at in zip(ROWS, times, strict=True)]
        for s in [ranker.score(row)]
    ]
    client = client_of(server.service(str(tmp_path / "model")))
    assert client.post("/score", json=ROWS).json() == {"version": version, "rows": expected}
    for row, answer in zip(ROWS, expected, strict=True):
        assert client.post("/score", json=row).json() == {"version": version, "rows": [answer]}
    assert client.post("/score", json=[]).json() == {"version": version, "rows": []}
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: client.post("/score", json=ROWS).json(), range(40)))
    assert all(answer["rows"] == expected for answer in found)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([ROWS[0], {"age": 1}], "row 1: found no column 'city' among ['age']"),
        (
            ROWS[0] | {"age": "old"},
            "row 0: found 'old' in column 'age', where 1 of 1 values are no",
        ),
        (ROWS[0] | {"flag": 1}, "found '1' of class int in column 'flag', expected a boolean"),
        (ROWS[0] | {"time": "noon"}, "row 0: found a time that is none (Invalid isoformat"),
        (ROWS[0] | {"time": 12}, "row 0: found a time that is none"),
        (3, "Input should be a valid dictionary"),
        ([ROWS[0]] * 10_001, "List should have at most 10000 items"),
    ],
)
def test_rows_that_cannot_be_scored(server, tmp_path, body, said):
    publish(tmp_path / "model", 1)
    answer = client_of(server.service(str(tmp_path / "model"))).post("/score", json=body)
    assert answer.status_code == 422
    assert said in answer.json()["detail"] if isinstance(body, dict) else said in answer.text


def test_a_new_version_is_loaded(server, tmp_path):
    path = tmp_path / "model"
    first = publish(path, 1)
    with client_of(server.service(str(path), seconds=0.05)) as client:
        before = client.post("/score", json=ROWS[0]).json()
        assert before["version"] == first
        assert "probability" not in before["rows"][0]
        second = publish(path, 2)
        after = until(lambda: client.post("/score", json=ROWS[0]).json(), second)
        ranker = spark_auc.load(str(path))
        row = {**ROWS[0], "time": datetime.fromisoformat(ROWS[0]["time"])}
        assert after["rows"][0]["score"] == ranker.score(row) != before["rows"][0]["score"]
        # A damaged publication leaves the version that is loaded.
        manifest = path / "manifest.json"
        whole = manifest.read_bytes()
        manifest.write_bytes(b"{")
        time.sleep(0.3)
        assert client.post("/score", json=ROWS[0]).json() == after
        manifest.write_bytes(whole)
        third = publish(path, 3)
        until(lambda: client.post("/score", json=ROWS[0]).json(), third)


def until(asked, version):
    end = time.monotonic() + 20
    while (answer := asked())["version"] != version:
        assert time.monotonic() < end, answer
        time.sleep(0.05)
    return answer


def test_saved_rankers_and_others(server, tmp_path):
    scorer = LinearScorer(np.array([1.0, -2.0]), 0.0, 1.0, 0.0, names=("b", "a"))
    saved = stage("LinearRankerModel", *scorer.saved())
    saved.write(Directory.of(str(tmp_path / "saved")))
    client = client_of(server.service(str(tmp_path / "saved")))
    answer = client.post("/score", json={"a": 1, "b": 5})
    assert answer.json() == {
        "version": saved.metadata["uid"],
        "rows": [{"score": 3.0, "label": 1.0}],
    }
    answer = client.post("/score", json={"a": None, "b": 5})
    assert answer.status_code == 422
    assert "features that are missing" in answer.json()["detail"]
    nameless = stage("LinearRankerModel", *LinearScorer(np.ones(2), 0.0, 1.0, 0.0).saved())
    nameless.write(Directory.of(str(tmp_path / "nameless")))
    with pytest.raises(ConfigError, match="found features without names"):
        server.service(str(tmp_path / "nameless"))
