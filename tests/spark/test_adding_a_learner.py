"""A learner of a user's own: as an estimator, in a pipeline, and in a configuration."""

import inspect
import json

import numpy as np
import pytest
import yaml
from pyspark.ml import Pipeline, PipelineModel

from spark_auc import LinearRankerModel, RankerPipelineModel
from spark_auc.app.config.load import load
from spark_auc.app.running import run
from spark_auc.errors import ConfigError
from tests.spark.toy_learner import MeanDifferenceClassifier

LEARNER = "tests.spark.toy_learner.MeanDifferenceClassifier"
RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(300, 3)), RNG.random(300) < 0.4
X[Y] += [1.0, 0.5, 0.0]
W = X[Y].mean(axis=0) - X[~Y].mean(axis=0)


@pytest.fixture(scope="module")
def rows(spark):
    values = [(x.tolist(), float(y)) for x, y in zip(X, Y, strict=True)]
    made = spark.createDataFrame(values, "features array<double>, label double").cache()
    yield made
    made.unpersist()


@pytest.mark.parametrize("parallelism", ["sequential", "distributed"])
def test_as_an_estimator(rows, parallelism):
    estimator = MeanDifferenceClassifier(shrink=0.5, parallelism=parallelism, standardization=False)
    np.testing.assert_allclose(estimator.fit(rows).scorer.w, W / 2, rtol=1e-12)
    assert estimator.setShrink(2).getShrink() == 2.0
    assert inspect.signature(MeanDifferenceClassifier).parameters["shrink"].default == 1.0
    assert "shrink : float > 0, default 1.0\n    Factor of" in MeanDifferenceClassifier.__doc__


def test_in_a_pipeline(rows, tmp_path):
    pipeline = Pipeline(stages=[MeanDifferenceClassifier(shrink=3.0)])
    pipeline.save(str(tmp_path / "pipeline"))
    fitted = Pipeline.load(str(tmp_path / "pipeline")).fit(rows)
    fitted.save(str(tmp_path / "fitted"))
    again = PipelineModel.load(str(tmp_path / "fitted")).stages[0]
    assert isinstance(again, LinearRankerModel)
    np.testing.assert_array_equal(again.scorer.w, fitted.stages[0].scorer.w)


@pytest.fixture
def configured(tmp_path):
    def written(**keys):
        train = {
            "data": {"path": str(tmp_path / "rows")},
            "output": {"path": str(tmp_path / "model")},
            "learner": LEARNER,
            **keys,
        }
        path = tmp_path / "train.yaml"
        path.write_text(yaml.safe_dump({"train": train}))
        return str(path)

    return written


def test_in_a_configuration(rows, configured, tmp_path, capsys):
    rows.write.parquet(str(tmp_path / "rows"))
    path = configured(training={"shrink": 0.5, "standardization": False})
    assert run("train", path) == 0, capsys.readouterr().err
    *_, last = capsys.readouterr().out.splitlines()
    assert json.loads(last)["estimator"] == "MeanDifference"
    (version,) = (at for at in (tmp_path / "model/versions").iterdir() if at.is_dir())
    model = RankerPipelineModel.load(str(version / "model"))
    np.testing.assert_allclose(model.ranker.scorer.w, W / 2, rtol=1e-12)
    kept = json.loads((version / "config.json").read_text())["learner"]
    assert kept == LEARNER


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"training": {"shrink": 0}}, "'train.training.shrink'"),
        ({"training": {"shrnk": 1}}, "'shrnk', did you mean 'shrink'"),
        ({"training": 3}, "found 3 at 'train.training'"),
        ({"select": {}}, "select with MBAClassifier alone"),
        ({"saveMoments": True}, "no saveMoments with"),
        ({"columns": {"key": "id", "fold": "day"}}, "no columns.key, columns.fold with"),
        ({"columns": {"weight": "u"}}, "no columns.weight with"),
        ({"learner": LEARNER + "s"}, "MBAClassifier.*package.module.Class"),
        ({"learner": "tests.spark.nowhere.Class"}, "No module named 'tests.spark.nowhere'"),
        ({"learner": "SOLAMClasifier"}, "did you mean 'SOLAMClassifier'"),
        ({"learner": "SplineBasis"}, "found 'SplineBasis' at 'train.learner'"),
    ],
)
def test_mistakes_are_named(configured, keys, message):
    with pytest.raises(ConfigError, match=message):
        load(configured(**keys))
