"""A second step for low false positive rates, of DataFrames as of arrays."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc import MBAClassifier, MBASelector
from spark_auc.app.config.jobs import Train
from spark_auc.app.jobs.published_model import read_model
from spark_auc.app.running import run
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError
from spark_auc.local import MBAClassifier as LocalMBA
from spark_auc.pipeline.models import PipelineModel, plain_ranker
from spark_auc.pipeline.retraining import retrained


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    y = rng.random(400) < 0.2
    X = rng.normal(size=(400, 2)) + y[:, None]
    X[~y, 1] = rng.exponential(size=np.count_nonzero(~y)) ** 2
    return pa.table({"a": X[:, 0], "b": X[:, 1], "label": y.astype(float)})


def test_the_weights_are_those_of_arrays(spark, table, tmp_path):
    rows = spark.createDataFrame(table).repartition(3)
    X = np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])
    y = table["label"].to_numpy()
    plain = LocalMBA(regParam=0.1).fit(X, y)
    local = LocalMBA(regParam=0.1, maxFPR=0.05).fit(X, y)
    assert not np.allclose(plain.coef_, local.coef_, rtol=0.01)
    MBAClassifier(featuresCol=["a", "b"], regParam=0.1, maxFPR=0.05).save(str(tmp_path / "e"))
    one = MBAClassifier.load(str(tmp_path / "e"))
    several = MBASelector(featuresCol=["a", "b"], regParams=[0.1, 1e9], maxFPR=0.05)
    for estimator in (one, several):
        model = estimator.fit(rows)
        np.testing.assert_allclose(model.scorer.w, local.coef_[0], rtol=1e-6)
        assert model.summary.rows == {"0.0": int(400 - y.sum()), "1.0": int(y.sum())}
        assert model.summary.negative_weight == 400 - y.sum()
        assert model.summary.max_fpr == 0.05
    kept = MBAClassifier(featuresCol=["a", "b"], regParam=0.1, maxFPR=0.05, keepMoments=True)
    assert kept.fit(rows).moments.negative.weight == 400 - y.sum()


def test_moments_without_rows_are_refused(spark, table):
    model = MBAClassifier(featuresCol=["a", "b"], regParam=0.1).fit(spark.createDataFrame(table))
    X = np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])
    moments = PairMoments.of(X, table["label"].to_numpy() > 0)
    with pytest.raises(ConfigError, match=r"found maxFPR 0\.1 with moments without rows"):
        retrained(PipelineModel(plain_ranker(model)), moments, {"regParam": 0.1, "maxFPR": 0.1})


def test_the_job_train_says_what_it_trained_for(table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pq.write_table(table, "rows.parquet")
    X = np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])
    local = LocalMBA(regParam=0.1, maxFPR=0.05).fit(X, table["label"].to_numpy())
    keys = {"data": {"path": "rows.parquet"}, "output": {"path": "model"}}
    keys |= {"columns": {"features": ["a", "b"]}, "training": {"maxFPR": 0.05, "regParam": 0.1}}
    Path("conf.yaml").write_text(yaml.safe_dump({"train": keys}))
    assert run("train", "conf.yaml") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["maxFPR"] == 0.05
    model = read_model("model")
    np.testing.assert_allclose(model.ranker.scorer.w, local.coef_[0], rtol=1e-6)
    assert model.ranker.summary.max_fpr == 0.05


def test_the_job_train_refuses_other_rates():
    keys = {"data": {"path": "rows"}, "output": {"path": "model"}}
    for wrong in (0.0, 0.2):
        with pytest.raises(ValueError, match="maxFPR"):
            Train.model_validate(keys | {"training": {"maxFPR": wrong}})
