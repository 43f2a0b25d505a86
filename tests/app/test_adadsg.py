"""Doubling stages as a job: goes on where it died, and ends with the same model."""

import itertools
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from pyspark.sql import functions as F

from spark_auc import AdaDSGClassifier, evaluate
from spark_auc.app.config.jobs import Adadsg, Stop
from spark_auc.app.jobs import adadsg
from spark_auc.app.jobs.engines import SparkEngine
from spark_auc.app.jobs.published_model import read_model
from spark_auc.errors import ConfigError
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.losses import LOSSES
from spark_auc.learners.stages import subset
from spark_auc.publication.versions import current
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.data.synthetic import click_data
from tests.app.transformed import transformed


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    there = tmp_path_factory.mktemp("rows")
    planted = {"dimension": 64, "positive_rate": 0.2, "ceiling": 0.8, "seed": 3}
    for name, first, last in (("train", 0, 4000), ("test", 4000, 6000)):
        made = click_data(spark, last, nonzeros=6, **planted).filter(f"id >= {first}")
        made.coalesce(2).write.parquet(str(there / name))
    return there


def configuration(place, at, **changes):
    fields = {
        "data": {"path": str(place / "train")},
        "validation": {"path": str(place / "test")},
        "columns": {"key": "id"},
        "training": {"standardization": False, "firstStage": 500},
        "stop": None,
        "checkpoint": str(at / "checkpoint"),
        "output": {"path": str(at / "model"), "replace": True},
    }
    return Adadsg(**(fields | changes))


@pytest.fixture
def config(place, tmp_path):
    return partial(configuration, place, tmp_path)


@pytest.fixture(scope="module")
def complete(spark, place, tmp_path_factory):
    """The result of all stages in one run, and the directory of its checkpoint."""
    at = tmp_path_factory.mktemp("complete")
    return adadsg.run(SparkEngine(spark), configuration(place, at)), at / "checkpoint"


def model_of(result):
    return read_model(result["model"]).ranker


def test_stages_to_a_model(spark, place, complete):
    result, checkpoint = complete
    assert result["stages"] == 4
    assert result["stopped"] == "all stages"
    test = spark.read.parquet(str(place / "test"))
    assert evaluate(transformed(read_model(result["model"]), test)).auc == pytest.approx(
        result["auc"], abs=1e-12
    )
    assert result["auc"] > 0.65
    version = current(result["model"], "model")
    stages = json.loads(version.read("stages.json"))["stages"]
    rows = [stage["rows"] for stage in stages]
    assert rows[-1] == 4000
    assert all(1.7 < b / a < 2.3 for a, b in itertools.pairwise(rows))
    assert [stage["steps"] for stage in stages] == np.cumsum(rows).tolist()
    assert version.read("stages.png")[:4] == b"\x89PNG"
    assert not list(checkpoint.glob("*"))


@pytest.mark.parametrize(
    "loss",
    ["squared", "logistic", *(pytest.param(k, marks=pytest.mark.slow) for k in LOSSES[1::2])],
)
def test_the_objective_is_that_of_all_pairs(spark, place, loss):
    """A stage of 1,000 rows is smaller than the sample, whose pairs are then all pairs."""
    from spark_auc.spark.estimators.adadsg import AdaDSGClassifier

    estimator = AdaDSGClassifier(
        standardization=False, firstStage=500, keyCol="id", penalty=0.3, loss=loss
    )
    given = estimator.prepared(SparkTable(spark.read.parquet(str(place / "train"))))
    for number, done in enumerate(estimator.passes(given, estimator.learner(given))):
        learner = done.learner
        found, error = estimator.objective(given, learner, number)
        if number == 1:
            break
    rows = [subset(batch, 2 * 500 / 4000, 0) for batch in given.rows.gathered().batches]
    z = np.concatenate([batch.X @ learner.w for batch in rows])
    y = np.concatenate([batch.y for batch in rows])
    m = y.size
    margin = z[y][:, None] - z[~y]
    values = {
        "squared": (1 - margin) ** 2,
        "squaredHinge": np.maximum(1 - margin, 0) ** 2,
        "logistic": np.log1p(np.exp(-margin)),
        "exponential": np.exp(-margin),
    }[loss]
    assert (error is None) == (loss == "squared")
    loss = 2 * values.sum() / (m * (m - 1))
    assert found == pytest.approx(loss + 0.3 / (2 * np.sqrt(m)) * learner.w @ learner.w, rel=1e-9)


def test_training_rows_are_not_taken_from_cached_validation_rows(spark, place, config, monkeypatch):
    """From a cache of their files, the rows would come in groups that depend on executors."""
    settings = config(validation={"path": str(place / "train")}, training={"stages": 1})
    cached = []

    def watch(name):
        method = getattr(AdaDSGClassifier, name)

        def watched(self, *arguments):
            with settings.data.read(spark) as rows:
                cached.append((name, rows.storageLevel.useMemory))
            return method(self, *arguments)

        monkeypatch.setattr(AdaDSGClassifier, name, watched)

    for name in ("prepared", "objective", "model_of"):
        watch(name)
    adadsg.run(SparkEngine(spark), settings)
    assert cached == [("prepared", False), ("objective", True), ("model_of", False)]


@pytest.mark.slow
@pytest.mark.parametrize("stage", [1, 2, 3, 4])
def test_it_goes_on_where_it_died(spark, config, complete, monkeypatch, stage):
    expected = model_of(complete[0])
    commit, calls = adadsg.StageCheckpoint.commit, []

    def dies(self, *state):
        commit(self, *state)
        if len(state[-1]) == stage:
            raise KeyboardInterrupt

    def counted(self, *rows):
        calls.append(self.size)
        return learn(self, *rows)

    monkeypatch.setattr(adadsg.StageCheckpoint, "commit", dies)
    with pytest.raises(KeyboardInterrupt):
        adadsg.run(SparkEngine(spark), config())
    monkeypatch.setattr(adadsg.StageCheckpoint, "commit", commit)
    learn = DSGD.stage
    monkeypatch.setattr(DSGD, "stage", counted)
    result = adadsg.run(SparkEngine(spark), config())
    assert len(calls) == 4 - stage
    assert result["stages"] == 4
    model = model_of(result)
    np.testing.assert_array_equal(model.scorer.w, expected.scorer.w)
    assert expected.summary.held_out is not None
    assert replace(model.summary, seconds={}) == replace(expected.summary, seconds={})


def test_a_checkpoint_of_other_settings_is_refused(spark, config, monkeypatch):
    def dies(self, *state):
        commit(self, *state)
        raise KeyboardInterrupt

    commit = adadsg.StageCheckpoint.commit
    monkeypatch.setattr(adadsg.StageCheckpoint, "commit", dies)
    with pytest.raises(KeyboardInterrupt):
        adadsg.run(SparkEngine(spark), config())
    other = config(training={"standardization": False, "firstStage": 400})
    with pytest.raises(ConfigError, match="remove it to start again"):
        adadsg.check(other)


@pytest.mark.slow
def test_a_checkpoint_of_other_rows_is_refused(spark, place, config, monkeypatch, tmp_path):
    def dies(self, *state):
        commit(self, *state)
        raise KeyboardInterrupt

    rows = spark.read.parquet(str(place / "train"))
    data = {"path": str(tmp_path / "rows")}
    rows.write.parquet(data["path"])
    commit = adadsg.StageCheckpoint.commit
    with monkeypatch.context() as patched:
        patched.setattr(adadsg.StageCheckpoint, "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            adadsg.run(SparkEngine(spark), config(data=data))
    # As many rows, and one label less to the one class and more to the other, in two of them.
    first, second = (rows.filter(f"label = {k}").first()["id"] for k in (0, 1))
    changed = f"case when id in ({first}, {second}) then 1 - label else label end"
    other = rows.withColumn("label", F.expr(f"cast({changed} as double)"))
    other.coalesce(3).write.mode("overwrite").parquet(data["path"])
    with pytest.raises(ConfigError, match="with equal values"):
        adadsg.run(SparkEngine(spark), config(data=data))
    # The same ones again, in other files.
    rows.repartition(3).write.mode("overwrite").parquet(data["path"])
    assert adadsg.run(SparkEngine(spark), config(data=data))["stages"] == 4


def test_weights_are_refused_before_spark_starts(config):
    with pytest.raises(ConfigError, match="remove it"):
        adadsg.check(config(columns={"weight": "u"}))


def stages(*auc, half=0.01):
    return [{"auc": a, "interval": [a - half, a + half]} for a in auc]


def test_it_stops_when_the_auc_stands_still(spark, config):
    stop = Stop(within=0.1, stages=2)
    assert not adadsg.enough(stages(0.7, 0.7), stop)
    assert adadsg.enough(stages(0.6, 0.7, 0.7005, 0.7), stop)
    assert not adadsg.enough(stages(0.6, 0.7, 0.7005, 0.702), stop)
    assert not adadsg.enough(stages(0.7, 0.7, 0.7, 0.7), None)
    result = adadsg.run(SparkEngine(spark), config(stop={"within": 1000.0, "stages": 2}))
    assert result["stages"] == 3
    assert result["stopped"] == "the AUC stands still"


@pytest.mark.slow
def test_embeddings_before_the_learner(spark, place, config, monkeypatch):
    """Stages learn the embedded rows, and a job that died goes on with the same embedding."""
    settings = config(embeddings=["RandomFourierFeatures", {"SplineBasis": {"numKnots": 4}}])
    with monkeypatch.context() as patch:
        patch.setattr(adadsg, "write_model", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            adadsg.run(SparkEngine(spark), settings)
    with pytest.raises(ConfigError, match="a checkpoint of other"):
        adadsg.check(config())
    result = adadsg.run(SparkEngine(spark), settings)
    model = read_model(settings.output.path)
    assert [type(e.embedding).__name__ for e in model.embeddings] == ["Composition", "Splines"]
    assert result["features"] == model.embeddings[-1].embedding.dimension > 64
    test = spark.read.parquet(str(place / "test"))
    assert evaluate(transformed(model, test)).auc == pytest.approx(result["auc"], abs=1e-9)
