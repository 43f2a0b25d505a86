"""Jobs: in this process on the shared session, and once as a user starts them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from sklearn.metrics import log_loss, roc_auc_score

from spark_auc.app.running import run
from spark_auc.solvers.solution import Solution

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("spark")

CSV = "a,b,day,y,u\n" + "".join(
    f"{(k * 7) % 11},{(k * 3) % 5},2024-01-{k % 28 + 1:02d},{int((k * 5) % 7 > 4)},{1 + k % 2}\n"
    for k in range(300)
)


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(CSV)
    return tmp_path


@pytest.fixture
def job(at, capsys):
    def started(name, section, **others):
        (at / "conf.yaml").write_text(yaml.safe_dump({name: section, **others}))
        code = run(name, "conf.yaml")
        captured = capsys.readouterr()
        result = json.loads(captured.out.splitlines()[-1])
        assert result["job"] == name
        return code, result

    return started


CSV_SOURCE = {
    "format": "csv",
    "path": "rows.csv",
    "options": {"header": True, "inferSchema": True},
}
PREPARE = {
    "input": {"layout": "plain", "source": CSV_SOURCE, "label": "y", "numeric": ["a", "b"]},
    "split": {"by": "key", "train": 0.7},
    "output": {"path": "data"},
}
TRAIN = {
    "data": {"path": "data/part=train"},
    "training": {"regParam": 0.01},
    "output": {"path": "model"},
}
EVALUATE = {
    "model": "model",
    "data": {"path": "data/part=test"},
    "measures": {"groupCol": "day"},
    "output": {"path": "evaluation"},
}
SCORE = {
    "model": "model",
    "data": {"path": "data"},
    "keep": ["day", "label"],
    "output": {"path": "scores"},
}


@pytest.mark.usefixtures("all_pictures")
def test_from_raw_rows_to_scores(job, at):
    code, prepared = job("prepare", PREPARE)
    assert code == 0
    assert sum(sum(c.values()) for c in prepared["rows"].values()) == 300
    calibration = {"data": {"path": "data/part=train"}}
    code, trained = job("train", TRAIN | {"saveMoments": True, "calibration": calibration})
    assert (code, trained["certificate"]["reason"]) == (0, "converged")
    code, scored = job("score", SCORE)
    assert (code, scored["rows"]) == (0, 300)
    table = pq.read_table(scored["scores"].removeprefix("file://"))
    made = ["rawPrediction", "prediction", "probability"]
    assert table.column_names == ["day", "label", *made]
    code, evaluated = job("evaluate", EVALUATE)
    assert code == 0
    report = Path(evaluated["report"].removeprefix("file://"))
    assert f"{evaluated['auc']:.4f}" in report.read_text()
    assert {p.name for p in report.parent.glob("*.png")} == {
        "calibration.png",
        "distribution.png",
        "gain.png",
        "precision_recall.png",
        "roc.png",
    }
    manifest = json.loads((at / "evaluation/manifest.json").read_text())
    stored = json.loads((at / "evaluation" / manifest["directory"] / "evaluation.json").read_text())
    assert stored["auc"] == evaluated["auc"]
    groups = pq.read_table(str(at / "evaluation" / manifest["directory"] / "groups.parquet"))
    assert groups.to_pylist() == stored["groups"]["rows"]
    # The same rows and weights without the jobs: the part's features times the model's weights.
    version = json.loads((at / "data/manifest.json").read_text())["directory"]
    part = pq.read_table(str(at / "data" / version / "part=test"))
    X = np.array([v["values"] for v in part["features"].to_pylist()])
    model = json.loads((at / "model/manifest.json").read_text())["directory"]
    weights = pq.read_table(str(at / "model" / model / "model/ranker/data"))["weight"].to_numpy()
    expected = roc_auc_score(part["label"].to_numpy(), X @ weights)
    assert evaluated["auc"] == pytest.approx(expected, abs=1e-12)
    raw, first = np.unique(table["rawPrediction"].to_numpy(), return_index=True)
    probability = np.interp(X @ weights, raw, table["probability"].to_numpy()[first])
    expected = log_loss(part["label"].to_numpy(), probability)
    assert evaluated["logLoss"] == pytest.approx(expected, rel=1e-9)
    assert (at / "model" / model / "moments.parquet").exists()


def test_outputs_are_replaced_only_when_asked(job):
    source = {"format": "csv", "path": "rows.csv", "options": CSV_SOURCE["options"]}
    columns = {"label": "y", "features": ["a", "b"], "weight": "u"}
    train = {"data": source, "columns": columns, "output": {"path": "model"}}
    assert job("train", train)[0] == 0
    code, refused = job("train", train)
    assert (code, refused["error"]) == (2, "ConfigError")
    assert "output.replace=true" in refused["message"]
    assert job("train", train | {"output": {"path": "model", "replace": True}})[0] == 0


def test_a_failed_job_leaves_the_model_before_it(job, at):
    columns = {"label": "y", "features": ["a", "b"]}
    train = {"data": CSV_SOURCE, "columns": columns, "output": {"path": "model", "replace": True}}
    assert job("train", train)[0] == 0
    before = (at / "model/manifest.json").read_text()
    (at / "rows.csv").write_text(CSV.replace("\n3,", "\nNaN,", 1))
    code, failed = job("train", train)
    assert (code, failed["error"]) == (3, "DataError")
    assert (at / "model/manifest.json").read_text() == before
    assert len([path for path in (at / "model/versions").iterdir() if path.is_dir()]) == 1
    evaluation = {"model": "model", "data": CSV_SOURCE, "output": {"path": "evaluation"}}
    (at / "rows.csv").write_text(CSV)
    assert job("evaluate", evaluation)[0] == 0


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"data": {"path": "nowhere"}}, 2, "found nothing at 'nowhere'"),
        ({"columns": {"label": "why", "features": ["a"]}}, 2, "did you mean 'day'|expected one of"),
        ({"columns": {"label": "y", "features": ["a", "c"]}}, 2, "no column 'c'"),
        ({"columns": {"label": "b", "features": ["a"]}}, 3, "label values"),
        (
            {
                "data": CSV_SOURCE | {"select": ["a", "y", "b - 1 as u"]},
                "columns": {"label": "y", "features": ["a"], "weight": "u"},
            },
            3,
            "weights that are NaN, negative",
        ),
        ({"columns": {"label": "y", "features": ["day"]}}, 2, "day: date"),
        ({"data": {"table": "no_such_table"}}, 1, "TABLE_OR_VIEW_NOT_FOUND"),
    ],
)
def test_mistakes_end_with_their_code(job, at, change, code, message):
    base = {
        "data": CSV_SOURCE,
        "columns": {"label": "y", "features": ["a", "b", "u"]},
        "output": {"path": "model"},
    }
    found, result = job("train", base | change)
    assert found == code
    assert re.search(message, result["message"])
    assert not (at / "model/manifest.json").exists()


def test_what_is_not_solved_ends_with_its_code(job, at, monkeypatch):
    monkeypatch.setattr(Solution, "converged", property(lambda _: False))
    train = {
        "data": CSV_SOURCE,
        "columns": {"label": "y", "features": ["a", "b", "u"]},
        "training": {"regParam": 0.1},
        "output": {"path": "model"},
    }
    code, result = job("train", train)
    assert code == 4
    assert "KKT residual" in result["message"]
    assert not (at / "model/manifest.json").exists()


def test_corrupt_files_are_named(job, at):
    (at / "bad.libsvm").write_text("1 1:0.5 2:1\n0 1:x\n")
    train = {
        "data": {"format": "libsvm", "path": "bad.libsvm", "options": {"numFeatures": 3}},
        "output": {"path": "model"},
    }
    code, result = job("train", train)
    assert code == 3
    assert "bad.libsvm" in result["message"]
    assert "1:x" in result["message"]
    rows = pa.table({"a": np.arange(100.0), "y": np.arange(100) % 2})
    (at / "bad").mkdir()
    pq.write_table(rows, at / "bad/one.parquet")
    pq.write_table(rows, at / "bad/two.parquet")
    content = bytearray((at / "bad/two.parquet").read_bytes())
    content[4:200] = b"\xff" * 196
    (at / "bad/two.parquet").write_bytes(content)
    train = {
        "data": {"path": "bad"},
        "columns": {"features": ["a"], "label": "y"},
        "output": {"path": "model"},
    }
    code, result = job("train", train)
    assert code == 3
    assert "two.parquet" in result["message"]


def test_only_one_class_in_the_training_part(job, at):
    rows = "".join(f"{k},{int(k >= 80)}\n" for k in range(100))
    (at / "rows.csv").write_text("a,y\n" + rows)
    prepare = {
        "input": {"layout": "plain", "source": CSV_SOURCE, "label": "y", "numeric": ["a"]},
        "split": {"by": "position", "train": 0.8},
        "output": {"path": "data"},
    }
    assert job("prepare", prepare)[0] == 0
    code, result = job("train", TRAIN)
    assert code == 3
    assert "one class only: 0.0 (80 rows)" in result["message"]


def test_settings_that_come_too_late(job):
    conf = {"spark.driver.memory": "17g"}
    section = TRAIN | {"data": CSV_SOURCE, "columns": {"label": "y", "features": ["a", "b"]}}
    code, result = job("train", section, spark={"conf": conf})
    assert code == 2
    assert "spark.driver.memory" in result["message"]


def test_a_changed_model_is_refused(job, at):
    columns = {"label": "y", "features": ["a", "b"]}
    job("train", {"data": CSV_SOURCE, "columns": columns, "output": {"path": "model"}})
    version = json.loads((at / "model/manifest.json").read_text())["directory"]
    summary = at / "model" / version / "summary.json"
    summary.write_text(summary.read_text().replace("rows", "swor"))
    evaluate = {"model": "model", "data": CSV_SOURCE, "output": {"path": "evaluation"}}
    code, result = job("evaluate", evaluate)
    assert (code, result["error"]) == (1, "ModelFormatError")
    assert "summary.json" in result["message"]


@pytest.mark.slow
@pytest.mark.parametrize("submitted", [True, False], ids=["spark-submit", "python"])
def test_as_a_user_starts_it(at, submitted):
    config = {
        "train": {
            "data": CSV_SOURCE,
            "columns": {"label": "y", "features": ["a", "b"]},
            "output": {"path": "model"},
        }
    }
    (at / "conf.yaml").write_text(yaml.safe_dump(config))
    program = str(Path(sys.executable).parent / "spark-submit") if submitted else sys.executable
    command = [program, str(ROOT / "jobs/train.py"), "--config", "conf.yaml"]
    env = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, "train.training.regParam=0.5"],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "ok"
    wrong = subprocess.run(
        [sys.executable, *command[1:], "train.training.regparam=0.5"],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=60,
    )
    assert wrong.returncode == 2
    assert "did you mean 'regParam'" in wrong.stderr
