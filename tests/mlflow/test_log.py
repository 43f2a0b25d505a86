"""Rankers that are logged to a tracking server, and loaded from its registry."""

import json
import os
import subprocess
import sys
from pathlib import Path

import mlflow
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from mlflow.exceptions import MlflowException

import spark_auc
import spark_auc.mlflow
from spark_auc import (
    MBAClassifier,
    RankerPipelineModel,
    ServedRanker,
    evaluate,
)
from spark_auc.app.running import run
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.publication.publish import publication
from tests.mlflow.conftest import PLAN

PASSWORD = "correct-horse"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def published(spark, table, tmp_path_factory):
    """A publication of the job train, with an evaluation of held-out rows."""
    home = tmp_path_factory.mktemp("published")
    pq.write_table(table, home / "rows.parquet")
    keys = {
        "data": {"path": f"{home}/rows.parquet", "options": {"password": PASSWORD}},
        "columns": {"label": "label"},
        "features": PLAN,
        "holdout": {"by": "key", "train": 0.7},
        "calibration": {"data": {"path": f"{home}/rows.parquet"}},
        "output": {"path": f"{home}/model"},
    }
    (home / "train.yaml").write_text(yaml.safe_dump({"train": keys}))
    assert run("train", str(home / "train.yaml")) == 0
    return str(home / "model")


def files(client, run_id, path=None):
    found = set()
    for entry in client.list_artifacts(run_id, path):
        found |= files(client, run_id, entry.path) if entry.is_dir else {entry.path}
    return found


def logged_models(client):
    experiment = client.get_experiment_by_name(os.environ["MLFLOW_EXPERIMENT_NAME"])
    return client.search_logged_models([experiment.experiment_id])


def versions(client, name):
    return client.search_model_versions(f"name = '{name}'")


def test_a_publication_becomes_the_champion(client, table, published, caplog):
    row = table.slice(0, 1).to_pylist()[0]
    info = spark_auc.mlflow.log_model(
        published,
        "clicks",
        registered_model_name="clicks",
        alias="champion",
        input_example=row,
    )
    assert "Failed to validate" not in caplog.text
    ranker = spark_auc.load(published)
    version = client.get_model_version_by_alias("clicks", "champion")
    assert str(version.version) == str(info.registered_model_version) == "1"
    assert version.status == "READY"
    made = client.get_run(info.run_id)
    assert made.info.status == "FINISHED"

    manifest = json.loads((Path(published) / "manifest.json").read_text())
    current = Path(published) / manifest["directory"]
    told = json.loads((current / "evaluation.json").read_text())
    summary = json.loads((current / "summary.json").read_text())
    metrics = made.data.metrics
    assert metrics["auc"] == told["auc"]
    assert [metrics["auc_lower"], metrics["auc_upper"]] == [
        told["interval"]["lower"],
        told["interval"]["upper"],
    ]
    assert metrics["logLoss"] == told["logLoss"]
    for name in ("kkt", "gap", "iterations"):
        assert metrics[name] == summary["certificate"][name]
    assert metrics["rows"] == sum(summary["rows"].values())
    params = made.data.params
    assert params["regParam"] == str(summary["reg_param"])
    assert params["numFeatures"] == str(ranker.scorer.w.size)
    assert params["stopReason"] == "converged"
    assert params["recipe.spline"] == "['x', 'age', 'when']"
    assert params["recipe.tokens"] == "['city', 'code', 'flag']"
    assert params["recipe.dimension"] == "256"
    assert params["calibration"] == "Sigmoid"
    logged = client.get_logged_model(info.model_id)
    assert logged.params == params
    assert {metric.key for metric in logged.metrics} >= {"auc", "kkt"}

    pictures = {"roc.png", "calibration.png", "precision_recall.png", "selection.png"}
    figures = {"evaluation.json", "summary.json", "selection.json", "shapes.json", "config.json"}
    there = files(client, info.run_id)
    assert {f"reports/clicks/{name}" for name in pictures | figures | {"report.html"}} <= there
    assert not [name for name in there if "model/" in name]

    loaded = spark_auc.mlflow.load_model("models:/clicks@champion")
    assert loaded.score(table).tobytes() == ranker.score(table).tobytes()
    assert loaded.probability(row) == ranker.probability(row)


def test_no_secret_is_logged(client, published, tmp_path, table):
    """Also of a publication whose files have one."""
    with publication(str(tmp_path / "out"), False, "model") as version:
        source = spark_auc.load(published).stage
        source.write(version / "model")
        config = {"data": {"options": {"password": PASSWORD}}, "url": f"s3://u:{PASSWORD}@b/x"}
        version.write("config.json", json.dumps(config).encode())
    for location in (published, str(tmp_path / "out")):
        info = spark_auc.mlflow.log_model(location)
        home = str(tmp_path / info.run_id)
        mlflow.artifacts.download_artifacts(run_id=info.run_id, dst_path=home)
        mlflow.artifacts.download_artifacts(info.model_uri, dst_path=home)
        text = mlflow.artifacts.load_text(f"runs:/{info.run_id}/reports/ranker/config.json")
        assert "***redacted***" in text
        seen = subprocess.run(["grep", "-r", PASSWORD, home], capture_output=True, check=False)
        assert seen.stdout == b""
        assert PASSWORD not in str(client.get_run(info.run_id).to_dictionary())


def test_a_process_without_pyspark_scores(client, table, published, tmp_path):
    example = table.slice(0, 3).to_pandas()
    info = spark_auc.mlflow.log_model(published, input_example=example)
    pq.write_table(table, tmp_path / "rows.parquet")
    program = (
        "import sys, warnings\n"
        "for name in ('pyspark', 'py4j', 'sklearn', 'matplotlib'):\n"
        "    sys.modules[name] = None\n"
        "warnings.simplefilter('ignore')\n"
        "import mlflow, pandas as pd\n"
        "rows = pd.read_parquet('rows.parquet')\n"
        f"function = mlflow.pyfunc.load_model({info.model_uri!r})\n"
        "function.predict(rows.set_index(rows.index + 7)).to_parquet('scores.parquet')\n"
        "from spark_auc.mlflow import log_model\n"
        f"print(log_model({published!r}).run_id)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    # A publication is logged without Spark too.
    told = client.get_run(done.stdout.splitlines()[-1]).data
    assert told.metrics == client.get_run(info.run_id).data.metrics
    scores = pd.read_parquet(tmp_path / "scores.parquet")
    ranker = spark_auc.load(published)
    assert list(scores.columns) == ["score", "probability"]
    assert scores.index[0] == 7
    assert scores["score"].to_numpy().tobytes() == ranker.score(table).tobytes()
    assert scores["probability"].to_numpy().tobytes() == ranker.probability(table).tobytes()
    home = mlflow.artifacts.download_artifacts(info.model_uri, dst_path=str(tmp_path))
    text = (Path(home) / "requirements.txt").read_text().splitlines()
    assert f"spark-auc[serving]=={spark_auc.__version__}" in text
    assert {line.partition("=")[0] for line in text} == {"spark-auc[serving]", "mlflow"}


def test_models_in_memory(client, spark, rows, table, model, tmp_path):
    report = evaluate(model.transform(rows), scoreCol="probability", probabilities=True)
    with mlflow.start_run() as active:
        first = spark_auc.mlflow.log_model(model, "first", evaluation=report)
        filled = rows.na.fill({"x": 0.0, "code": 0})
        plain = MBAClassifier(featuresCol=["x", "code"], regParam=0.1).fit(filled)
        second = spark_auc.mlflow.log_model(plain, "second")
        assert mlflow.active_run().info.run_id == active.info.run_id
    assert first.run_id == second.run_id == active.info.run_id
    served = spark_auc.mlflow.load_model(first.model_uri)
    scored = model.transform(rows).toArrow()
    assert served.score(scored).tobytes() == scored["rawPrediction"].to_numpy().tobytes()
    assert served.probability(scored).tobytes() == scored["probability"].to_numpy().tobytes()
    metrics = {m.key: m.value for m in client.get_logged_model(first.model_id).metrics}
    assert metrics["auc"] == report.auc
    assert metrics["auc_lower"] == report.interval.lower
    assert metrics["calibrationError"] == report.calibration_error
    html = mlflow.artifacts.load_text(f"runs:/{first.run_id}/reports/first/report.html")
    assert f"AUC {report.auc:.4f} of first" in html
    assert "reports/first/calibration.png" in files(client, first.run_id)

    # Of two models in a run, each has its own params.
    params = [client.get_logged_model(info.model_id).params for info in (first, second)]
    assert [p["regParam"] for p in params] == ["0.001", "0.1"]
    assert client.get_run(active.info.run_id).data.params["regParam"] == "0.001"
    assert "auc" not in {m.key for m in client.get_logged_model(second.model_id).metrics}

    # Spark loads the model again, and a ServedRanker is logged as its model.
    home = mlflow.artifacts.download_artifacts(first.model_uri, dst_path=str(tmp_path))
    again = RankerPipelineModel.load(f"{home}/data/ranker")
    assert again.ranker.summary == model.ranker.summary
    found = again.transform(rows).select("rawPrediction").toArrow()["rawPrediction"]
    assert found.to_numpy().tobytes() == scored["rawPrediction"].to_numpy().tobytes()
    names = list(served.columns)
    kind = "score double, probability double"
    udf = mlflow.pyfunc.spark_udf(spark, first.model_uri, result_type=kind, env_manager="local")
    both = model.transform(rows).select("rawPrediction", udf(*names)["score"].alias("score"))
    raw, score = both.toArrow().columns
    assert score.to_numpy().tobytes() == raw.to_numpy().tobytes()
    third = spark_auc.mlflow.log_model(served, "third")
    assert client.get_logged_model(third.model_id).params == params[0]


class TestWholeOrNotAtAll:
    """After an error there is no model, no version, and the alias stands where it stood."""

    @pytest.fixture
    def champion(self, client, model):
        name = f"risk-{os.urandom(4).hex()}"
        spark_auc.mlflow.log_model(model, registered_model_name=name, alias="champion")
        yield name
        (version,) = versions(client, name)
        assert client.get_model_version_by_alias(name, "champion").version == version.version
        assert len(logged_models(client)) == 1

    def test_what_is_refused_makes_no_run(
        self, client, champion, model, table, published, tmp_path
    ):
        experiment = client.get_experiment_by_name(os.environ["MLFLOW_EXPERIMENT_NAME"])
        before = len(client.search_runs([experiment.experiment_id]))
        log = spark_auc.mlflow.log_model
        with pytest.raises(ConfigError, match="alias 'champion' without a registered model"):
            log(model, alias="champion")
        with pytest.raises(DataError, match="found no column 'age', 'when', 'city'"):
            log(model, registered_model_name=champion, input_example={"x": 1.0})
        with pytest.raises(ConfigError, match="found no ranker at"):
            log(str(tmp_path), registered_model_name=champion)
        with pytest.raises(ConfigError, match="found a ServedRanker that was made of its parts"):
            log(ServedRanker(model.ranker.scorer), registered_model_name=champion)
        with pytest.raises(ConfigError, match="model of class ScoreCalibrationModel"):
            log(model.calibration, registered_model_name=champion)
        copy = tmp_path / "copy"
        subprocess.run(["cp", "-r", published, copy], check=True)
        next(copy.rglob("part-*.parquet")).write_bytes(b"")
        with pytest.raises(ModelFormatError, match="expected"):
            log(str(copy), registered_model_name=champion)
        assert len(client.search_runs([experiment.experiment_id])) == before

    @pytest.mark.parametrize("alias", ["latest", "v3", "no/slash"])
    def test_an_alias_that_the_registry_refuses(self, client, champion, model, alias):
        with pytest.raises(MlflowException):
            spark_auc.mlflow.log_model(model, registered_model_name=champion, alias=alias)

    @pytest.mark.parametrize(
        "call", ["log_artifacts", "log_model_artifacts", "set_registered_model_alias"]
    )
    @pytest.mark.parametrize("failure", [MlflowException("lost"), KeyboardInterrupt()], ids=type)
    def test_a_failure_on_the_way(self, client, champion, model, monkeypatch, call, failure):
        def fails(*args, **kwargs):
            raise failure

        monkeypatch.setattr(mlflow.MlflowClient, call, fails)
        with pytest.raises(type(failure)):
            spark_auc.mlflow.log_model(model, registered_model_name=champion, alias="champion")
        assert mlflow.active_run() is None

    def test_the_answer_to_the_last_request_is_lost(self, client, model, monkeypatch):
        name, sets = f"risk-{os.urandom(4).hex()}", mlflow.MlflowClient.set_registered_model_alias

        def fails(*args, **kwargs):
            sets(*args, **kwargs)
            raise MlflowException("lost")

        monkeypatch.setattr(mlflow.MlflowClient, "set_registered_model_alias", fails)
        with pytest.raises(MlflowException, match="lost"):
            spark_auc.mlflow.log_model(model, registered_model_name=name, alias="champion")
        uri = f"models:/{name}@champion"
        assert spark_auc.mlflow.load_model(uri).columns is not None
