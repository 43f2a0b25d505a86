"""A tracking server of its own, with its store and artifacts in a temporary directory."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest

from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, ScoreCalibrator

# The package asks for these when it is imported.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"
collect_ignore_glob = [] if find_spec("mlflow") else ["test_*.py"]


N = 600
RNG = np.random.default_rng(8)
PLAN = {
    "spline": ["x", "age", "when"],
    "tokens": ["city", "code", "flag"],
    "auto": False,
    "dimension": 256,
    "numKnots": 4,
}


@pytest.fixture(scope="session")
def table():
    """Raw rows of all types, each with missing values."""
    x, code = RNG.normal(size=N), RNG.integers(0, 6, N)
    city = RNG.choice(["a", "b", "ö", ""], N)
    y = x + (code == 2) + (city == "a") + RNG.logistic(size=N) > 0.5

    def holes():
        return RNG.random(N) < 0.1

    return pa.table(
        {
            "x": pa.array(x, mask=holes()),
            "age": pa.array(RNG.integers(0, 90, N), mask=holes()),
            "code": pa.array(code, mask=holes()),
            "city": pa.array(city, mask=holes()),
            "flag": pa.array(x + RNG.normal(size=N) > 0, mask=holes()),
            "when": pa.array(RNG.integers(0, 2**50, N), pa.timestamp("us"), mask=holes()),
            "label": y.astype(float),
        }
    )


@pytest.fixture(scope="session")
def rows(spark, table):
    return spark.createDataFrame(table).repartition(2).cache()


@pytest.fixture(scope="session")
def model(rows):
    ranker = MBAClassifier(regParam=1e-3)
    fitted = RankerPipeline([FeatureRecipe(**PLAN), ranker]).fit(rows)
    return fitted.calibrated(ScoreCalibrator().fit(fitted.transform(rows)))


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    """The address of the server."""
    home = tmp_path_factory.mktemp("tracking")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{home}/store.db"]
    command += ["--artifacts-destination", str(home / "artifacts")]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=home)
    try:
        found, end = f"http://127.0.0.1:{port}", time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"{found}/health", timeout=5):
                    break
            except OSError:
                assert server.poll() is None, (home / "log").read_text()
                assert time.monotonic() < end, "the server did not start"
                time.sleep(0.2)
        yield found
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
def client(address, monkeypatch):
    """A client, and the server as that of this process, with an experiment of the test."""
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", os.urandom(4).hex())
    # set_experiment writes the variable of the number.
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "")
    mlflow.set_experiment(os.environ["MLFLOW_EXPERIMENT_NAME"])
    yield mlflow.MlflowClient()
    while mlflow.active_run():
        mlflow.end_run()
