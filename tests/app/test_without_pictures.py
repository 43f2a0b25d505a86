"""Jobs where matplotlib is not installed: all results, no pictures, and one line that says so."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spark_auc.app.report.history import aucs
from spark_auc.app.running import run
from tests.app.test_jobs import CSV, CSV_SOURCE

# The penalty is chosen, and spline columns have shapes.
CONFIG = {
    "train": {
        "data": CSV_SOURCE,
        "columns": {"label": "y"},
        "features": {"spline": ["a", "b"], "auto": False},
        "holdout": {"by": "key", "train": 0.7},
        "output": {"path": "model"},
    },
    "evaluate": {
        "model": "model",
        "data": CSV_SOURCE,
        "output": {"path": "evaluation"},
    },
    "adadsg": {
        "data": CSV_SOURCE,
        "validation": CSV_SOURCE,
        "columns": {"label": "y", "features": ["a", "b"]},
        "training": {"firstStage": 64, "stages": 2, "penalty": 0.1},
        "checkpoint": "checkpoint",
        "output": {"path": "stages"},
    },
}
PROGRAM = """
import sys
sys.modules["matplotlib"] = None
from spark_auc.app.running import run
sys.exit(run("train", "conf.yaml") or run("evaluate", "conf.yaml"))
"""


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(CSV)
    (tmp_path / "conf.yaml").write_text(yaml.safe_dump(CONFIG))
    return tmp_path


def check_results(at, results):
    assert [result["status"] for result in results] == ["ok"] * len(results), results
    for result in results:
        if "report" in result:
            page = Path(result["report"].removeprefix("file://")).read_text()
            assert f"{result['auc']:.4f}" in page
            assert "<svg" not in page
            assert ">Plots<" not in page
    assert not list(at.rglob("*.png"))
    assert {path.name for path in at.glob("*/versions/*/*.json")} >= {
        "evaluation.json",
        "selection.json",
        "shapes.json",
    }


@pytest.mark.slow
@pytest.mark.usefixtures("all_pictures")
def test_jobs_without_matplotlib(at, spark, monkeypatch, caplog, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    results = []
    for job in CONFIG:
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            run(job, "conf.yaml")
        results.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
        said = [r.getMessage() for r in caplog.records if "pictures" in r.getMessage()]
        assert said == [
            "results have no pictures: found no package matplotlib; run pip install "
            "'spark-auc[report]' to have them"
        ], job
    check_results(at, results)
    assert aucs([{"gate": {"auc": {}}}]) is None


@pytest.mark.usefixtures("all_pictures")
def test_with_matplotlib_there_are_pictures(at, spark, caplog, capsys):
    with caplog.at_level(logging.WARNING):
        assert run("train", "conf.yaml") == 0
    assert not [r for r in caplog.records if "no pictures" in r.getMessage()]
    pictures = {path.name for path in at.rglob("*.png")}
    assert pictures >= {"roc.png", "gain.png", "distribution.png", "selection.png"}


@pytest.mark.slow
def test_in_a_process_of_its_own(at):
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    check_results(at, [json.loads(line) for line in lines])
    assert done.stderr.count("results have no pictures") == 2
