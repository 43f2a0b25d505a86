"""Exact measures on Spark against those of one process, and what Spark alone has."""

import numpy as np
import pandas as pd
import pytest
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as F
from sklearn import metrics

from spark_auc import AUCEvaluator, MBAClassifier, compare, evaluate
from spark_auc.errors import ConfigError, DataError
from spark_auc.pipeline import score_tables as scores
from spark_auc.pipeline.comparison import compared
from spark_auc.pipeline.evaluation import evaluated
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.evaluation.evaluator import METRICS
from tests.pipeline.measured import scored, table_of

N = 1200


@pytest.fixture(scope="module")
def frame():
    return scored(N)


@pytest.fixture(scope="module")
def rows(spark, frame):
    return spark.createDataFrame(frame).repartition(5).cache()


@pytest.fixture
def small_ranges(monkeypatch):
    monkeypatch.setattr(scores, "_RANGE_ROWS", 400)
    monkeypatch.setattr(scores, "_TABLE_ROWS", 300)


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("weight", [None, "u"])
def test_measures_are_those_of_one_process(rows, frame, weight):
    """Whatever the partitions; `tests.pipeline.test_evaluation` holds them against scikit-learn."""
    table = table_of(frame)
    settings = {"maxFPR": 0.2, "groupCol": "day"}
    expected = evaluated(table, ScoreColumns("tied", weight=weight), **settings)
    arranged = rows if weight else rows.orderBy("label").coalesce(1)
    found = evaluate(arranged, scoreCol="tied", weightCol=weight, **settings)
    # Sums of weights that are no whole numbers depend on their order.
    assert found.auc == pytest.approx(expected.auc, rel=1e-12)
    assert weight == "u" or found.ranking.to_bytes() == expected.ranking.to_bytes()
    for mine, other in zip(found.groups.rows, expected.groups.rows, strict=True):
        assert mine.value == other.value
        assert (mine.auc, mine.lower) == pytest.approx((other.auc, other.lower), rel=1e-9)
    paired = compare(rows, ["s", "tied"], weightCol=weight).paired
    other = compared(table, ["s", "tied"], "label", weight=weight).paired
    np.testing.assert_allclose(paired.auc, other.auc, rtol=1e-12)
    np.testing.assert_allclose(paired.covariance, other.covariance, rtol=1e-9)


def test_rows_that_cannot_be_measured(rows):
    spoilt = rows.withColumn("s", F.expr("if(day = '0', null, s)"))
    with pytest.raises(DataError, match="null scores among 1200 rows"):
        evaluate(spoilt, scoreCol="s", weightCol="u")


@pytest.mark.parametrize("metric", METRICS)
def test_evaluator(rows, frame, metric, tmp_path):
    partial = {"maxFPR": 0.3} if metric == "partialAUC" else {}
    evaluator = AUCEvaluator(rawPredictionCol="s", metricName=metric, weightCol="u", **partial)
    evaluator.write().save(str(tmp_path / "evaluator"))
    again = AUCEvaluator.load(str(tmp_path / "evaluator"))
    y, s, u = frame["label"], frame["s"], frame["u"]
    expected = {
        "areaUnderROC": metrics.roc_auc_score(y, s, sample_weight=u),
        "areaUnderPR": metrics.average_precision_score(y, s, sample_weight=u),
        "partialAUC": metrics.roc_auc_score(y, s, sample_weight=u, max_fpr=0.3),
    }[metric]
    assert again.evaluate(rows) == pytest.approx(expected, abs=1e-12)
    assert again.isLargerBetter()


@pytest.mark.slow
def test_evaluator_in_cross_validation(rows):
    estimator = MBAClassifier(featuresCol=["s", "u"], regParam=0.1)
    grid = ParamGridBuilder().addGrid(estimator.regParam, [0.1, 100.0]).build()
    folds = CrossValidator(
        estimator=estimator, estimatorParamMaps=grid, evaluator=AUCEvaluator(), numFolds=2
    )
    fitted = folds.fit(rows)
    assert all(0.7 < value < 0.85 for value in fitted.avgMetrics)


def test_string_labels_and_vectors_of_two(rows, frame):
    from pyspark.ml.functions import array_to_vector

    data = rows.withColumn("vector", array_to_vector(F.array(-F.col("s"), F.col("s"))))
    data = data.withColumn("click", F.when(F.col("label") > 0, "yes").otherwise("no"))
    report = evaluate(data, scoreCol="vector", labelCol="click", positiveLabel="yes")
    assert report.auc == pytest.approx(metrics.roc_auc_score(frame["label"], frame["s"]))
    assert report.classes == ("yes", "no")


def test_an_unknown_metric(rows):
    with pytest.raises(ConfigError, match="metricName 'auc'"):
        AUCEvaluator(rawPredictionCol="s", metricName="auc").evaluate(rows)


def test_scores_of_rows_with_vectors_beside_can_be_cached(spark, rows, tmp_path):
    from pyspark.ml.functions import array_to_vector

    parts = rows.withColumn("vector", array_to_vector(F.array("s", "u")))
    parts = parts.withColumn("array", F.array("s", "u"))
    parts.write.parquet(str(tmp_path / "rows"))
    stored = spark.read.parquet(str(tmp_path / "rows"))
    model = MBAClassifier(featuresCol="array", regParam=0.1).fit(stored)
    scored = model.transform(stored).cache()
    assert scored.count() == N
    scored.unpersist()


def test_scores_that_differ_at_each_reading_are_compared_in_one(spark):
    from pyspark.sql.functions import pandas_udf

    @pandas_udf("double")
    def drawn(label: pd.Series) -> pd.Series:
        return label + pd.Series(np.random.default_rng().normal(size=len(label)))

    data = spark.range(0, 2000, 1, 3).selectExpr("double(id % 4 = 0) as label", "1.0 as u")
    data = data.withColumn("s", drawn.asNondeterministic()("label"))
    data = data.withColumn("t", F.col("s") * 2)
    found = compare(data, ["s", "t"])
    assert found.difference("s", "t") == (0.0, 0.0, 0.0, 0.0, 1.0)
    assert found.paired.covariance[0, 0] > 1e-6


def test_rows_that_a_join_loses_are_noticed(rows, monkeypatch):
    placements = scores.Scored.placements
    monkeypatch.setattr(
        scores.Scored,
        "placements",
        lambda self: SparkTable(placements(self).rows().filter("score > -1")),
    )
    with pytest.raises(DataError, match="compare the written rows"):
        compare(rows, ["s", "tied"])
