"""The estimator and its model as Spark ML parts."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from chispa import assert_df_equality
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit
from pyspark.sql import functions as F

from spark_auc import LinearRankerModel, MBAClassifier
from spark_auc.errors import ConfigError, ConvergenceError, DataError, ModelFormatError
from spark_auc.serving.stored_stage import VERSION, seal
from spark_auc.solvers import solution
from spark_auc.spark.data.libsvm import libsvm
from tests import data
from tests.spark.test_moments import vectors
from tests.tables.feature_rows import D, N, U, X, Y, arrays


@pytest.fixture(scope="module")
def rows(spark):
    return vectors(spark).cache()


@pytest.fixture(scope="module")
def model(rows):
    return MBAClassifier(regParam=0.01, weightCol="u", keepMoments=True).fit(rows)


def expected_weights(reg, standardize=True):
    """Ridge on the all-pairs loss, from differences of every pair."""
    pos, neg = np.flatnonzero(Y), np.flatnonzero(~Y)
    differences = (X[pos, None] - X[None, neg]).reshape(-1, D)
    pair = np.outer(U[pos], U[neg]).ravel()
    s = np.sqrt(np.average((X - np.average(X, axis=0, weights=U)) ** 2, axis=0, weights=U))
    # A row of weight 2 is a row twice.
    n = max(N, U.sum())
    s = s * np.sqrt(n / (n - 1)) if standardize else np.ones(D)
    differences = differences / s
    Sigma = (differences * (pair / pair.sum())[:, None]).T @ differences
    mu = np.average(differences, axis=0, weights=pair)
    return np.linalg.solve(Sigma + reg * np.eye(D), mu) / s


@pytest.mark.parametrize("standardize", [True, False])
def test_weights_are_ridge_over_all_pairs(rows, standardize):
    fitted = MBAClassifier(regParam=0.01, weightCol="u", standardization=standardize).fit(rows)
    np.testing.assert_allclose(fitted.coefficients, expected_weights(0.01, standardize), rtol=1e-10)


def test_scores_predictions_and_threshold(model, rows):
    scored = model.transform(rows).toPandas()
    scores = X @ model.scorer.w
    np.testing.assert_allclose(scored["rawPrediction"], scores, rtol=1e-12)
    np.testing.assert_array_equal(scored["prediction"], scores >= model.getThreshold())
    # The Gaussian rule is approximate; weighted shares of these rows agree to a few percent.
    predicted = np.average(scores >= model.getThreshold(), weights=U)
    assert predicted == pytest.approx(np.average(Y, weights=U), abs=0.05)


def test_every_form_of_features_scores_the_same(spark, model, rows):
    df = spark.createDataFrame(arrays())
    for columns, dimension in (
        ("features", None),
        (["i", "v"], D),
        ([f"x.{j}" for j in range(D)], None),
    ):
        fitted = MBAClassifier(
            featuresCol=columns, numFeatures=dimension, regParam=0.01, weightCol="u"
        )
        other = fitted.fit(df)
        np.testing.assert_allclose(other.coefficients, model.coefficients, rtol=1e-9)
        scores = other.transform(df).select("rawPrediction").toPandas()["rawPrediction"]
        np.testing.assert_allclose(scores, X @ other.scorer.w, rtol=1e-12)


def test_scoring_of_stored_vectors(model, rows, tmp_path, spark):
    path = str(tmp_path / "rows")
    rows.write.parquet(path)
    stored = spark.read.parquet(path)
    total = model.transform(stored).agg(F.sum("rawPrediction")).first()[0]
    assert total == pytest.approx((X @ model.scorer.w).sum(), rel=1e-10)
    nothing = stored.withColumn("features", F.when(F.col("u") != U[3], F.col("features")))
    with pytest.raises(Exception, match=r"nulls in column .features."):
        model.transform(nothing).agg(F.sum("rawPrediction")).first()


def test_summary(model):
    summary = model.summary
    assert summary.rows == {"0.0": int((~Y).sum()), "1.0": int(Y.sum())}
    assert summary.positive_weight == pytest.approx(U[Y].sum())
    assert summary.certificate["reason"] == "converged"
    assert set(summary.seconds) == {"moments", "solve"}
    assert summary.nonzeros == D
    json.dumps(summary.as_dict(), allow_nan=False)
    assert model.moments.dimension == D


def test_feature_names_follow_the_columns(spark):
    df = spark.createDataFrame(arrays()).toDF("features", "i", "v", "label", "u", *"abcdef")
    assembled = VectorAssembler(inputCols=list("abcdef"), outputCol="vector").transform(df)
    for columns in ("vector", list("abcdef")):
        fitted = MBAClassifier(featuresCol=columns, regParam=0.01).fit(assembled)
        named = {w.feature: w.weight for w in fitted.summary.largest_weights}
        assert named == pytest.approx(dict(zip("abcdef", fitted.scorer.w, strict=True)))


def test_save_and_load(model, rows, tmp_path):
    path = str(tmp_path / "model")
    model.save(path)
    loaded = LinearRankerModel.load(path)
    np.testing.assert_array_equal(loaded.scorer.w, model.scorer.w)
    assert loaded.summary == model.summary
    assert loaded.getThreshold() == model.getThreshold()
    assert loaded.getRegParam() == 0.01
    assert loaded.uid == model.uid
    with pytest.raises(Exception, match="already exists"):
        model.save(path)
    model.write().overwrite().save(path)
    np.testing.assert_array_equal(LinearRankerModel.load(path).scorer.w, model.scorer.w)
    estimator = MBAClassifier(featuresCol=["a", "b"], positiveLabel="yes")
    estimator.save(path + "-estimator")
    again = MBAClassifier.load(path + "-estimator")
    assert again.extractParamMap().keys() == estimator.extractParamMap().keys()
    assert again.getOrDefault("featuresCol") == ["a", "b"]


def test_damaged_models_are_refused(model, tmp_path):
    model.save(str(tmp_path / "whole"))

    def saved(name):
        return shutil.copytree(tmp_path / "whole", tmp_path / name, dirs_exist_ok=True)

    with pytest.raises(ConfigError, match="found nothing that can be read"):
        LinearRankerModel.load(str(tmp_path / "nowhere"))
    changed = saved("changed")
    (file,) = (changed / "data").glob("*.parquet")
    table = pq.read_table(file)
    pq.write_table(table.set_column(1, "weight", [table["weight"].to_numpy() + 1]), file)
    for check in (changed / "data").glob(".*.crc"):
        check.unlink()
    with pytest.raises(ModelFormatError, match="not those saved"):
        LinearRankerModel.load(str(changed))
    truncated = saved("truncated")
    (file,) = (truncated / "data").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-20])
    for check in (truncated / "data").glob(".*.crc"):
        check.unlink()
    with pytest.raises(ModelFormatError, match="no readable weights"):
        LinearRankerModel.load(str(truncated))
    other = saved("other")
    (file,) = (other / "metadata").glob("part-*")
    file.write_text(
        file.read_text().replace(f'"spark_auc":{{"version":{VERSION}', '"spark_auc":{"version":99')
    )
    for check in (other / "metadata").glob(".*.crc"):
        check.unlink()
    with pytest.raises(ModelFormatError, match="version 99"):
        LinearRankerModel.load(str(other))
    for old, new, message in (
        ('"threshold":', '"threshold":1', "its hash is another"),
        ('"uid":"', '"uid":"x', "its hash is another"),
        ('"rawPredictionCol":"', '"rawPredictionCol":"x', "its hash is another"),
    ):
        saved("other")
        (file,) = (other / "metadata").glob("part-*")
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))
        for check in (other / "metadata").glob(".*.crc"):
            check.unlink()
        with pytest.raises(ModelFormatError, match=message):
            LinearRankerModel.load(str(other))
    for change in (
        lambda m: m["paramMap"].update(transform="0"),
        lambda m: m["paramMap"].update(rawPredictionCol=[1]),
        lambda m: m.update(defaultParamMap=None),
        lambda m: m.update(uid=3, paramMap={"_paramMap": {}}),
        lambda m: m["spark_auc"].update(threshold="0"),
        lambda m: m["spark_auc"].update(positive=[1]),
        lambda m: m["spark_auc"].update(summary=3),
        lambda m: m["spark_auc"]["summary"].update(path="x"),
    ):
        metadata = json.loads(text)
        change(metadata)
        metadata["spark_auc"]["metadata"] = seal(metadata)
        file.write_text(json.dumps(metadata))
        with pytest.raises(ModelFormatError, match="damaged metadata"):
            LinearRankerModel.load(str(other))
    file.write_text("{")
    with pytest.raises(ModelFormatError, match="damaged metadata"):
        LinearRankerModel.load(str(other))


def test_pipelines(rows, tmp_path):
    df = rows.sparkSession.createDataFrame(arrays()).toDF(
        "features", "i", "v", "label", "u", *"abcdef"
    )
    assembler = VectorAssembler(inputCols=list("abcdef"), outputCol="vector")
    fitted = Pipeline(stages=[assembler, MBAClassifier(featuresCol="vector", regParam=0.01)]).fit(
        df
    )
    fitted.write().overwrite().save(str(tmp_path / "pipeline"))
    fitted.write().overwrite().save(str(tmp_path / "pipeline"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline"))
    assert_df_equality(fitted.transform(df), loaded.transform(df))


@pytest.mark.parametrize(
    "tuner",
    [
        lambda **to: CrossValidator(numFolds=2, **to),
        pytest.param(TrainValidationSplit, marks=pytest.mark.slow),
    ],
)
def test_tuning(rows, tuner):
    estimator = MBAClassifier()
    grid = ParamGridBuilder().addGrid(estimator.regParam, [0.01, 1.0]).build()
    made = tuner(
        estimator=estimator,
        estimatorParamMaps=grid,
        evaluator=BinaryClassificationEvaluator(),
        parallelism=2,
        seed=1,
    )
    best = made.fit(rows).bestModel
    assert isinstance(best, LinearRankerModel)
    assert best.getRegParam() in {0.01, 1.0}


def test_params(rows):
    estimator = MBAClassifier(regParam=0.5, featuresCol=["a", "b"])
    assert "regParam" in estimator.explainParams()
    copied = estimator.copy({estimator.regParam: 2.0})
    assert (copied.getRegParam(), estimator.getRegParam()) == (2.0, 0.5)
    assert estimator.setParams(tol=1e-3).getTol() == 1e-3
    for wrong in ({"regParam": -1.0}, {"elasticNetParam": 1.5}, {"tol": 0.0}, {"maxIter": 0}):
        with pytest.raises(ConfigError, match="expected"):
            MBAClassifier(**wrong).fit(rows)
    with pytest.raises(TypeError, match="featuresCol"):
        MBAClassifier(featuresCol=3)


def test_convergence_is_never_silent(rows, caplog, monkeypatch):
    # As if the moments had lost all their digits.
    monkeypatch.setattr(solution, "ROUNDING", 1.0)
    hard = {"regParam": 0.1}
    with pytest.raises(ConvergenceError, match="KKT residual"):
        MBAClassifier(**hard).fit(rows)
    fitted = MBAClassifier(**hard, whenNotConverged="warn").fit(rows)
    assert "KKT residual" in caplog.text
    assert fitted.summary.certificate["reason"] != "converged"


def test_output_columns_are_not_overwritten(model, rows):
    with pytest.raises(ConfigError, match="'prediction' in the data already"):
        model.transform(rows.withColumn("prediction", F.lit(0)))
    other = model.copy({model.predictionCol: "p", model.rawPredictionCol: "s"})
    assert other.transform(rows).columns[-2:] == ["s", "p"]


def test_predictions_are_label_values(rows):
    text = rows.withColumn("label", F.when(F.col("label") == 1, "yes").otherwise("no"))
    fitted = MBAClassifier(positiveLabel="yes", regParam=0.01).fit(text)
    found = {r[0] for r in fitted.transform(text).select("prediction").collect()}
    assert found == {"yes", "no"}


def test_only_one_class(rows):
    with pytest.raises(DataError, match="one class only"):
        MBAClassifier().fit(rows.filter("label = 1"))


def test_a9a_through_the_standard_scaler(spark):
    from pyspark.ml.feature import StandardScaler

    rows = libsvm(spark, str(data.path("a9a")), 123)
    scaled = StandardScaler(inputCol="features", outputCol="scaled").fit(rows).transform(rows)
    fitted = MBAClassifier(featuresCol="scaled", regParam=0.5).fit(scaled)
    assert fitted.summary.certificate["reason"] == "converged"
