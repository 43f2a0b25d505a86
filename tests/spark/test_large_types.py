"""Sessions in which text and bytes have Arrow's large types: the same results in bits."""

import json

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

from spark_auc import (
    FeatureRecipe,
    LinearRankerModel,
    MBAClassifier,
    RankerPipeline,
    RankerPipelineModel,
    compare,
    evaluate,
    with_contributions,
)
from spark_auc.spark.data import aggregate, resources

LARGE = "spark.sql.execution.arrow.useLargeVarTypes"
rng = np.random.default_rng(5)
N = 400
TABLE = pd.DataFrame({"x": rng.normal(size=N), "city": rng.choice(["Bern", "Oslo", "Rom"], N)})
TABLE["label"] = (rng.random(N) < 1 / (1 + np.exp(1 - TABLE.x))).astype(float)
TABLE["other"] = TABLE.x + rng.normal(size=N)


@pytest.fixture(scope="module")
def rows(spark):
    return spark.createDataFrame(TABLE).repartition(6).cache()


@pytest.fixture
def both(spark):
    """Runs a function in a session without and with the setting; returns both results."""

    def run(work):
        plain = work()
        spark.conf.set(LARGE, "true")
        try:
            return plain, work()
        finally:
            spark.conf.unset(LARGE)

    return run


def test_evaluation(both, rows):
    plain, large = both(lambda: evaluate(rows, scoreCol="x", groupCol="city"))
    assert large.as_dict() == plain.as_dict()
    assert [g.value for g in large.groups.rows] == ["Bern", "Oslo", "Rom"]
    assert large.groups.arrays().keys() == plain.groups.arrays().keys()
    plain, large = both(lambda: compare(rows, ["x", "other"]).paired)
    np.testing.assert_array_equal(large.covariance, plain.covariance)


def test_states_that_executors_merge(both, rows, monkeypatch):
    monkeypatch.setattr(resources.SessionMemory, "check_gathered", lambda *_: None)
    monkeypatch.setattr(resources.SessionMemory, "gather_limit", 1)
    monkeypatch.setattr(aggregate, "_FAN_IN", 2)
    fit = MBAClassifier(featuresCol=["x", "other"], regParam=0.1).fit
    plain, large = both(lambda: fit(rows).coefficients)
    assert large == plain


@pytest.mark.slow
def test_recipes_and_stored_models(both, rows, tmp_path):
    pipeline = RankerPipeline([FeatureRecipe(), MBAClassifier(regParam=0.1)])
    place = iter(["plain", "large"])

    def work():
        path = str(tmp_path / next(place))
        pipeline.fit(rows).save(path)
        explained = with_contributions(RankerPipelineModel.load(path), rows, 2)
        return explained.orderBy("x").toPandas()

    plain, large = both(work)
    pd.testing.assert_frame_equal(large, plain)
    # A model that one session stored is read by the other.
    read, _ = both(lambda: RankerPipelineModel.load(str(tmp_path / "large")).ranker.coefficients)
    assert read == RankerPipelineModel.load(str(tmp_path / "plain")).ranker.coefficients
    model = MBAClassifier(featuresCol=["x"], regParam=0.1).fit(rows)
    model.save(str(tmp_path / "linear"))
    _, loaded = both(lambda: LinearRankerModel.load(str(tmp_path / "linear")).coefficients)
    assert loaded == model.coefficients


def test_drawn_pairs(both, rows):
    keyed = rows.withColumn("key", F.xxhash64("x"))
    settings = {"featuresCol": ["x", "other"], "regParam": 0.1, "keyCol": "key"}
    fit = MBAClassifier(estimator="paired", numPairs=256, batchSize=64, **settings).fit
    plain, large = both(lambda: json.dumps(list(fit(keyed).coefficients)))
    assert large == plain
