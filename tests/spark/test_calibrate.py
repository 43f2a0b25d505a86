"""Calibration as stages of Spark ML; `tests.pipeline.test_calibration` has the curves."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression as SparkLogisticRegression
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.serving.score_curves import Sigmoid
from spark_auc.spark.data.failures import translated
from spark_auc.spark.estimators.mba import MBAClassifier
from spark_auc.spark.evaluation.calibrate import ScoreCalibrationModel, ScoreCalibrator

METHODS = ["platt", "isotonic"]
each_method = pytest.mark.parametrize(
    "method", ["platt", pytest.param("isotonic", marks=pytest.mark.slow)]
)
rng = np.random.default_rng(3)
N = 800
# Rounded, so that some scores are tied.
SCORE = np.round(rng.normal(size=N), 2)
LABEL = (rng.random(N) < 1 / (1 + np.exp(1 - 2 * SCORE))).astype(float)
WEIGHT = rng.integers(1, 4, N).astype(float)


def frame(spark, **columns):
    made = {"id": np.arange(N), "rawPrediction": SCORE, "label": LABEL, "u": WEIGHT} | columns
    return spark.createDataFrame(pd.DataFrame(made))


@pytest.fixture(scope="module")
def rows(spark):
    return frame(spark).cache()


@pytest.fixture(scope="module")
def models(rows):
    return {m: ScoreCalibrator(method=m, weightCol="u").fit(rows) for m in METHODS}


def probabilities(model, df):
    with translated():
        return model.transform(df).orderBy("id").toArrow()["probability"].to_numpy()


def expected(method, at, score=SCORE, label=LABEL, weight=WEIGHT):
    if method == "isotonic":
        oracle = IsotonicRegression(out_of_bounds="clip").fit(score, label, sample_weight=weight)
        return oracle.predict(at)
    oracle = LogisticRegression(C=np.inf, tol=1e-10).fit(score[:, None], label, weight)
    return oracle.predict_proba(at[:, None])[:, 1]


@pytest.mark.parametrize(("method", "tolerance"), [("platt", 1e-5), ("isotonic", 1e-9)])
def test_agrees_with_scikit_learn(spark, models, method, tolerance):
    # Between and outside the scores that were seen, too.
    at = np.linspace(-6, 6, N) + 1e-3 * np.pi
    for scores in (SCORE, at):
        found = probabilities(models[method], frame(spark, rawPrediction=scores))
        np.testing.assert_allclose(found, expected(method, scores), rtol=0, atol=tolerance)


def test_sigmoid_of_extreme_scores(spark):
    model = ScoreCalibrationModel(Sigmoid(10.0, 1.0))
    extremes = np.array([-1e308, -100.0, 0.0, 100.0, 1e308])
    df = spark.createDataFrame(pd.DataFrame({"id": np.arange(5), "rawPrediction": extremes}))
    middle = 1 / (1 + np.exp(-1))
    np.testing.assert_allclose(probabilities(model, df), [0, 0, middle, 1, 1], atol=1e-15)


@pytest.mark.slow
def test_vectors_of_spark_classifiers(spark, rows):
    assembler = VectorAssembler(inputCols=["rawPrediction"], outputCol="features")
    data = assembler.transform(rows).drop("rawPrediction")
    scored = SparkLogisticRegression(probabilityCol="p").fit(data).transform(data)
    model = ScoreCalibrator().fit(scored)
    # A sigmoid of that model's own log odds can but leave them as they are.
    assert model.curve.slope == pytest.approx(1, abs=1e-4)
    assert model.curve.intercept == pytest.approx(0, abs=1e-4)
    np.testing.assert_allclose(
        probabilities(model, scored), expected("platt", SCORE, weight=None), atol=1e-4
    )
    three = spark.createDataFrame([(Vectors.dense(1, 2, 3), 1.0)], ["rawPrediction", "label"])
    with pytest.raises(DataError, match="vectors of another size as scores"):
        ScoreCalibrator().fit(three)
    with pytest.raises(DataError, match="vectors of another size as scores"), translated():
        model.transform(three).collect()
    null = scored.withColumn("rawPrediction", F.when(F.col("id") > 0, F.col("rawPrediction")))
    with pytest.raises(DataError, match="found 1 null scores among"):
        ScoreCalibrator().fit(null)
    with pytest.raises(DataError, match="found the score null"):
        probabilities(model, null)


@each_method
def test_save_and_load(rows, models, method, tmp_path):
    model, path = models[method], str(tmp_path / "model")
    model.save(path)
    with pytest.raises(Exception, match="already exists"):
        model.save(path)
    model.write().overwrite().save(path)
    loaded = ScoreCalibrationModel.load(path)
    assert type(loaded.curve) is type(model.curve)
    for name, value in vars(model.curve).items():
        np.testing.assert_array_equal(getattr(loaded.curve, name), value)
    np.testing.assert_array_equal(probabilities(loaded, rows), probabilities(model, rows))
    assert loaded.uid == model.uid
    (file,) = (tmp_path / "model" / "data").glob("*.parquet")
    table = pq.read_table(file)
    pq.write_table(table.set_column(1, table.column_names[1], [table[1].to_numpy() + 1]), file)
    for check in (tmp_path / "model" / "data").glob(".*.crc"):
        check.unlink()
    with pytest.raises(ModelFormatError, match="not those saved"):
        ScoreCalibrationModel.load(path)


def test_estimator_is_saved(tmp_path):
    estimator = ScoreCalibrator(method="isotonic", positiveLabel="yes", negativeSamplingRate=0.5)
    estimator.save(str(tmp_path / "estimator"))
    again = ScoreCalibrator.load(str(tmp_path / "estimator"))
    assert {p.name: v for p, v in again.extractParamMap().items()} == {
        p.name: v for p, v in estimator.extractParamMap().items()
    }
    assert "negativeSamplingRate" in again.explainParams()


@each_method
def test_behind_the_ranker_in_a_pipeline(spark, method, tmp_path):
    text = np.where(LABEL == 1, "yes", "no")
    df = frame(spark, x=SCORE + 1, label=text).drop("rawPrediction")
    stages = [
        MBAClassifier(featuresCol=["x"], positiveLabel="yes"),
        ScoreCalibrator(positiveLabel="yes", method=method),
    ]
    fitted = Pipeline(stages=stages).fit(df)
    path = str(tmp_path / "pipeline")
    fitted.save(path)
    found = probabilities(fitted, df)
    np.testing.assert_allclose(found, expected(method, SCORE, weight=None), atol=1e-5)
    np.testing.assert_array_equal(probabilities(PipelineModel.load(path), df), found)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"rawPredictionCol": "rawPredictions"}, "did you mean 'rawPrediction'"),
        ({"rawPredictionCol": "text"}, "found score column 'text' of type string"),
        ({"labelCol": "nothing"}, "found no column 'nothing'"),
        ({"weightCol": "text"}, "found weight column 'text' of type string"),
        ({"method": "beta"}, "found method 'beta'"),
        ({"negativeSamplingRate": 0.0}, "negativeSamplingRate 0.0, expected"),
        ({"negativeSamplingRate": 1.5}, "negativeSamplingRate 1.5, expected"),
        ({"negativeSamplingRate": float("nan")}, "negativeSamplingRate nan, expected"),
    ],
)
def test_settings_that_cannot_serve(rows, params, message):
    with pytest.raises(ConfigError, match=message):
        ScoreCalibrator(**params).fit(rows.withColumn("text", F.lit("a")))


@each_method
def test_transform_refuses(rows, models, method):
    with pytest.raises(ConfigError, match="found column 'probability' in the data already"):
        models[method].transform(rows.withColumn("probability", F.lit(0.5)))
    with pytest.raises(ConfigError, match="found no column 'rawPrediction'"):
        models[method].transform(rows.drop("rawPrediction"))
    for value, text in ((None, "null"), (float("nan"), "nan"), (float("inf"), "inf")):
        score = F.when(F.col("id") == 5, F.lit(value)).otherwise(F.col("rawPrediction"))
        with pytest.raises(DataError, match=f"found the score {text} in column 'rawPred"):
            probabilities(models[method], rows.withColumn("rawPrediction", score))
