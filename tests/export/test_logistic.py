"""Rankers as logistic regressions of Spark ML, against Spark's own transform of them."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml.classification import LogisticRegressionModel
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F

from spark_auc import MBAClassifier, ScoreCalibrator, load
from spark_auc.core.segments import SegmentWeights
from spark_auc.errors import ConfigError
from spark_auc.export.logistic import to_logistic_regression
from spark_auc.features.fourier import FourierMap
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.recipe import Recipe
from spark_auc.serving.linear_scorer import LinearScorer, SegmentScorer
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.score_curves import Isotone, Sigmoid

RNG = np.random.default_rng(3)
D = 7
W = RNG.normal(size=D)
SCORER = LinearScorer(W, 0.4, 1.0, 0.0)


def frame_of(spark, X):
    arrays = pa.FixedSizeListArray.from_arrays(X.ravel(), X.shape[1]).cast(pa.list_(pa.float64()))
    frame = spark.createDataFrame(pa.table({"k": np.arange(len(X)), "x": arrays}))
    return frame.select("k", array_to_vector("x").alias("features"))


def transformed(model, frame):
    probability = vector_to_array(F.col(model.getProbabilityCol()))[1].alias("probability")
    columns = ["k", probability, F.col(model.getPredictionCol()).alias("prediction")]
    return model.transform(frame).select(*columns).toArrow().sort_by("k")


@pytest.mark.parametrize("curve", [Sigmoid(1.7, -0.6), Sigmoid(0.03, 5.0), None])
def test_probabilities_and_predictions_are_those_of_spark(spark, tmp_path, curve):
    ranker = ServedRanker(SCORER, curve=curve)
    X = RNG.normal(size=(2000, D)) * RNG.choice([0.1, 1.0, 30.0], (2000, 1))
    # Rows on both sides of the threshold, as near as rounding lets them be told.
    distances = np.concatenate([s * 10.0 ** np.arange(-10, 0) for s in (-1.0, 1.0)])
    near = RNG.normal(size=(distances.size, D))
    near += np.outer(0.4 + distances - near @ W, W / (W @ W))
    X = np.concatenate([X, near])
    to_logistic_regression(ranker, str(tmp_path / "model"))
    model = LogisticRegressionModel.load(str(tmp_path / "model"))
    found = transformed(model, frame_of(spark, X))
    predictions = ranker.predict(X)
    assert predictions[-20:].tolist() == [0.0] * 10 + [1.0] * 10
    assert found["prediction"].to_pylist() == predictions.tolist()
    expected = (ranker if curve else ServedRanker(SCORER, curve=Sigmoid(1.0, 0.0))).probability(X)
    np.testing.assert_allclose(found["probability"], expected, rtol=0, atol=1e-12)
    assert 0.3 < predictions.mean() < 0.7


def test_a_fitted_ranker_with_its_columns(spark, tmp_path, monkeypatch):
    X = RNG.normal(size=(600, D))
    rows = frame_of(spark, X).withColumnRenamed("features", "x")
    margin = vector_to_array("x")[0] + vector_to_array("x")[2] + F.col("k") % 7 / 3
    rows = rows.withColumn("clicked", (margin > 1.2).cast("double")).cache()
    estimator = MBAClassifier(
        featuresCol="x",
        labelCol="clicked",
        predictionCol="guess",
        rawPredictionCol="odds",
        regParam=0.1,
    )
    model = estimator.fit(rows)
    calibrator = ScoreCalibrator(labelCol="clicked", rawPredictionCol="odds")
    calibration = calibrator.fit(model.transform(rows))
    logistic = model.toLogisticRegressionModel(calibration.curve)
    expected = calibration.transform(model.transform(rows)).toArrow().sort_by("k")
    found = transformed(logistic, rows)
    np.testing.assert_allclose(found["probability"], expected["probability"], rtol=0, atol=1e-12)
    assert found["prediction"].to_pylist() == expected["guess"].to_pylist()
    assert {0.0, 1.0} == set(found["prediction"].to_pylist())
    assert logistic.getLabelCol() == "clicked"
    assert logistic.transform(rows).columns == ["k", "x", "clicked", "odds", "probability", "guess"]
    logistic.save(str(tmp_path / "again"))
    again = LogisticRegressionModel.load(str(tmp_path / "again"))
    assert again.coefficients == logistic.coefficients
    monkeypatch.setattr("spark_auc.spark.estimators.linear_ranker.is_remote", lambda: True)
    with pytest.raises(ConfigError, match="Spark Connect"):
        model.toLogisticRegressionModel()
    monkeypatch.undo()
    # A threshold that is the score of a row predicts it positive.
    own = model.copy().setThreshold(expected["odds"][5].as_py())
    same = transformed(own.toLogisticRegressionModel(calibration.curve), rows)["prediction"]
    assert same.to_pylist() == own.transform(rows).toArrow().sort_by("k")["guess"].to_pylist()
    assert same[5].as_py() == 1.0
    several = model.copy({model.featuresCol: ["x", "k"]})
    with pytest.raises(ConfigError, match=r"featuresCol \['x', 'k'\]"):
        several.toLogisticRegressionModel()


def test_the_files_have_the_schema_of_those_that_spark_writes(spark, tmp_path):
    to_logistic_regression(ServedRanker(SCORER), str(tmp_path / "ours"), labelCol="y")
    model = LogisticRegressionModel.load(str(tmp_path / "ours"))
    model.save(str(tmp_path / "theirs"))
    ours, theirs = (spark.read.parquet(str(tmp_path / who / "data")) for who in ("ours", "theirs"))
    assert ours.schema == theirs.schema
    assert ours.first() == theirs.first()
    mine, spark_s = (
        json.loads(next((tmp_path / who / "metadata").glob("part-*")).read_text())
        for who in ("ours", "theirs")
    )
    different = {"timestamp", "sparkVersion"}
    assert {k: v for k, v in mine.items() if k not in different} == {
        k: v for k, v in spark_s.items() if k not in different
    }
    assert model.predict(Vectors.dense(W)) == 1.0


@pytest.mark.parametrize(
    ("ranker", "said"),
    [
        (ServedRanker(SCORER, curve=Isotone(np.array([0.0, 1.0]), np.array([0.0, 1.0]))), "isoton"),
        (ServedRanker(LinearScorer(W, 0.1, "yes", "no")), "positive label 'yes'"),
        (ServedRanker(LinearScorer(W, 0.1, 1.0, -1.0)), "negative label -1.0"),
        (ServedRanker(LinearScorer(W, 0.1, 0.0, 1.0)), "positive label 0.0"),
        (ServedRanker(SCORER, curve=Sigmoid(-1.0, 0.0)), "slope -1.0"),
        (ServedRanker(SCORER, curve=Sigmoid(1.7e308, 0.0)), "slope 1.7"),
        (ServedRanker(LinearScorer(W, 40.0, 1.0, 0.0)), "log odds 40"),
        (ServedRanker(LinearScorer(W, -4e3, 1.0, 0.0)), "log odds -4000"),
        (ServedRanker(SCORER, Recipe((Spline("a", "float", tuple(range(6))),))), "a recipe"),
        (ServedRanker(SCORER, None, (FourierMap.random(2, 1.0, D),)), "FourierMap"),
        (
            ServedRanker(
                LinearScorer(
                    *(W, 0.1, 1.0, 0.0, None),
                    SegmentScorer("city", SegmentWeights(("a",), np.ones((2, D)), np.zeros(2))),
                )
            ),
            "segments of column 'city'",
        ),
    ],
)
def test_other_rankers_are_refused(tmp_path, ranker, said):
    with pytest.raises(ConfigError, match=said):
        to_logistic_regression(ranker, str(tmp_path / "model"))
    assert not list(tmp_path.iterdir())


def test_a_loaded_ranker_and_an_existing_path(spark, tmp_path):
    rows = spark.range(60).selectExpr("double(id % 7) as a", "double(id % 3 = 0) as label")
    model = MBAClassifier(featuresCol=["a"], regParam=0.1).fit(rows)
    model.save(str(tmp_path / "ranker"))
    to_logistic_regression(load(str(tmp_path / "ranker")), str(tmp_path / "made" / "model"))
    loaded = LogisticRegressionModel.load(str(tmp_path / "made" / "model"))
    assert loaded.coefficients == model.coefficients
    with pytest.raises(ConfigError, match="already"):
        to_logistic_regression(ServedRanker(SCORER), str(tmp_path / "made"))
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["model"]
