"""The Python of Spark's workers: which one they run, and what an error of another one says."""

import json
import os
import subprocess
import sys

import pytest

from spark_auc.errors import ConfigError
from spark_auc.spark.data import session
from spark_auc.spark.data.failures import translated

# A session of the user's own, and fits by one Python of the workers after the other.
PROGRAM = """
import json, os, sys
import pandas as pd
from pyspark.sql import SparkSession
from spark_auc import MBAClassifier

said = []
for python in json.loads(sys.argv[1]):
    os.environ.pop("PYSPARK_PYTHON", None)
    if python:
        os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "OFF").getOrCreate()
    rows = spark.createDataFrame(pd.DataFrame({"x": [0.0, 1, 2, 4], "label": [0.0, 1, 0, 1]}))
    try:
        MBAClassifier(featuresCol=["x"], regParam=0.1).fit(rows)
        said.append("ok")
    except Exception as error:
        said.append(f"{type(error).__name__}: {error}")
    spark.stop()
print(json.dumps(said))
"""


def program(path, body):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_the_message_of_a_session_with_another_python(tmp_path):
    # Without site-packages; the program of the workers sees the paths of PYTHONPATH alone.
    bare = program(tmp_path / "bare/python3", f'exec {sys.executable} -S "$@"')
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    env |= {"PATH": f"{tmp_path}/bare:{os.environ['PATH']}", "PYTHONPATH": os.getcwd()}
    pythons = [None, bare, "/no/such/python", sys.executable]
    command = [sys.executable, "-c", PROGRAM, json.dumps(pythons)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    unset, without, none, right = json.loads(done.stdout.splitlines()[-1])
    expected = f"PYSPARK_PYTHON before Spark starts, in local mode to {sys.executable}"
    for said, found in (
        (unset, "in the Python of Spark's workers (python3, as PYSPARK_PYTHON is not set)"),
        (without, f"in the Python of Spark's workers ({bare})"),
        (none, "found no program '/no/such/python' where Spark's workers run"),
    ):
        assert said.startswith("ConfigError: found no ")
        assert found in said
        assert said.endswith(expected)
    assert right == "ok"


def said(text, error=ConfigError):
    from pyspark.errors import PythonException

    with pytest.raises(error) as raised, translated():
        raise PythonException(text)
    return str(raised.value)


def test_messages_of_workers(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/other/python")
    other = (
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
        "driver: 3.11, PySpark cannot run with different minor versions."
    )
    assert "found Python 3.9 on Spark's workers (/other/python)" in said(other)
    for text in (
        "ModuleNotFoundError: No module named 'pyarrow.lib'",
        "[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be installed; however, it was not found.",
    ):
        assert "found no package '" in said(text)
    # Neither does the driver have it: not the Python of the workers is the cause.
    from pyspark.errors import PythonException

    said("ModuleNotFoundError: No module named 'my_own'", PythonException)


@pytest.mark.parametrize(
    ("conf", "env", "chosen"),
    [
        ({}, None, sys.executable),
        ({}, "/env/python", "/env/python"),
        ({"spark.pyspark.python": "/conf/python"}, None, "/conf/python"),
        ({"spark.pyspark.python": "/conf/python"}, "/env/python", "/conf/python"),
    ],
)
def test_settings_win_over_the_environment(monkeypatch, conf, env, chosen):
    monkeypatch.setenv("PYSPARK_PYTHON", env or "")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/driver/python")
    if env is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    session._choose_python(conf)
    assert os.environ["PYSPARK_PYTHON"] == chosen
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == "/driver/python"
