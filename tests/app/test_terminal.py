"""What a person at a terminal reads, and what a program reads elsewhere."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spark_auc
from spark_auc.app.told import told

ROOT = Path(spark_auc.__file__).parents[1]


def at_terminal(where: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and text of a command whose three streams are a terminal."""
    master, slave = pty.openpty()
    env = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(where)}
    # Pytest's own Java options announce themselves.
    env.pop("JDK_JAVA_OPTIONS", None)
    command = [sys.executable, "-m", "spark_auc", *arguments]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=where, env=env, close_fds=True
    )
    os.close(slave)
    parts = list[bytes]()
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:
            # The terminal of a process that ended.
            break
        if not part:
            break
        parts.append(part)
    os.close(master)
    # A package resets the colours of a terminal when it ends.
    text = b"".join(parts).decode().replace("\r\n", "\n").replace("\x1b[0m", "")
    return process.wait(), text


@pytest.mark.slow
def test_train_at_a_terminal(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300).round(2)
    y = (x + rng.logistic(size=300) > 0).astype(int)
    lines = [f"{a},{b}" for a, b in zip(x, y, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,y", *lines]))
    settings = ["train.features.numKnots=4", "train.training.regParam=0.1"]
    settings += ["train.features.crosses=null", "spark.conf.spark.master=local[1]"]
    options = ["--data", "rows.csv", "--label", "y", "--output", "model"]
    code, text = at_terminal(tmp_path, "train", *settings, *options)
    assert code == 0, text
    auc, report, after = text.splitlines()[-3:]
    measured = r"AUC 0\.\d{4} of held-out rows, 95% interval 0\.\d+ to 0\.\d+"
    assert re.fullmatch(f"{measured}; the model of all 300 rows is published", auc)
    assert Path(report.removeprefix("report: file://")).is_file()
    assert after.startswith("to score new rows: spark-auc score --model model --data NEW_FILE")
    # All other lines are those of this package's log, and the JVM's are in a file that it names.
    own = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ (INFO|WARNING) ")
    assert [line for line in text.splitlines()[:-3] if not own.match(line)] == []
    (named,) = re.findall(r"Spark's own messages: (\S+)", text)
    assert Path(named).parent == tmp_path
    assert "log4j" in Path(named).read_text()


def test_errors_at_a_terminal_and_json_by_request(tmp_path: Path) -> None:
    options = ["--data", "none.csv", "--label", "y", "--output", "model"]
    code, text = at_terminal(tmp_path, "train", *options)
    assert (code, text.count("found nothing at 'none.csv'")) == (2, 1)
    assert '"status"' not in text
    code, text = at_terminal(tmp_path, "train", *options, "--json")
    result = json.loads(text.splitlines()[-1])
    assert (code, result["status"], result["error"]) == (2, "error", "ConfigError")
    for extra, is_json in ((), False), (("--json",), True):
        code, text = at_terminal(tmp_path, "train", "--unknown", *extra)
        assert code == 2
        assert ('{"status": "error"' in text) == is_json


def test_no_terminal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark_auc", "export", "--model", "none", "--to", "sql"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "--output", "q"],
        check=False,
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout)["error"] == "ConfigError"


INTERVAL = {"lower": 0.7, "upper": 0.8, "level": 0.9}


@pytest.mark.parametrize(
    ("job", "result", "lines"),
    [
        ("train", {"model": "a b", "estimatedAUC": 0.75}, ["estimated", "model: a b", "'a b'"]),
        ("evaluate", {"auc": 0.75, "interval": INTERVAL, "report": "r"}, ["90%", "r", "browser"]),
        ("adadsg", {"auc": 0.75, "interval": [0.7, 0.8], "model": "m"}, ["95%", "m", "score"]),
        ("train", {"auc": 0.75, "interval": None, "model": "m"}, ["0.7500 of", "m", "score"]),
        ("score", {"rows": 1200, "scores": "s"}, ["1,200 rows: s"]),
        ("prepare", {"data": "d", "rows": {}}, ["data: d", "train.data.path to d"]),
        ("retrain", {"decision": "kept", "reason": "r", "model": "m"}, ["kept: r", "m", "score"]),
        ("retrain", {"decision": None, "model": None, "history": "h"}, ["no new", "history: h"]),
        ("retrain", {"deleted": {}}, []),
        ("opauc", {"model": None}, []),
        ("export", {"model": "m", "to": "onnx", "output": "o"}, ["output: o"]),
        ("init", {"config": "c", "next": {}}, []),
    ],
)
def test_lines_of_each_job(job: str, result: dict[str, object], lines: list[str]) -> None:
    found = told(job, result)
    assert len(found) == len(lines)
    for text, part in zip(found, lines, strict=True):
        assert part in text
