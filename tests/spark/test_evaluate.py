"""Exact measures on Spark against the same measures of one table, and scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as F
from sklearn import metrics

from spark_auc import AUCEvaluator, MBAClassifier, compare, evaluate
from spark_auc.core.evaluation.delong import auc_interval
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.errors import ConfigError, DataError
from spark_auc.pipeline import score_groups as groups_module
from spark_auc.pipeline import score_tables as scores
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.evaluation.evaluator import METRICS

N = 3000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    y = rng.random(N) < 0.2
    s = rng.normal(size=N) + y
    return pd.DataFrame(
        {
            "s": s,
            "tied": np.round(s * 3) / 3,
            "p": 1 / (1 + np.exp(-s)),
            "label": y.astype(float),
            "u": rng.uniform(0.1, 3.0, N),
            "count": rng.integers(1, 4, N),
            "day": rng.integers(0, 5, N).astype(str),
        }
    )


@pytest.fixture(scope="module")
def rows(spark, frame):
    return spark.createDataFrame(frame).repartition(5).cache()


@pytest.fixture
def small_ranges(monkeypatch):
    monkeypatch.setattr(scores, "_RANGE_ROWS", 400)
    monkeypatch.setattr(scores, "_TABLE_ROWS", 300)


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("score", ["s", "tied", "p"])
@pytest.mark.parametrize("weight", [None, "u", "count"])
def test_measures_are_those_of_scikit_learn(rows, frame, score, weight):
    report = evaluate(
        rows, scoreCol=score, weightCol=weight, maxFPR=0.2, probabilities=score == "p"
    )
    y, s, u = frame["label"], frame[score], None if weight is None else frame[weight]
    close = pytest.approx
    assert report.auc == close(metrics.roc_auc_score(y, s, sample_weight=u), abs=1e-12)
    assert report.average_precision == close(
        metrics.average_precision_score(y, s, sample_weight=u), abs=1e-12
    )
    assert report.partial_auc == close(
        metrics.roc_auc_score(y, s, sample_weight=u, max_fpr=0.2), abs=1e-12
    )
    weights = None if u is None else u.to_numpy(float)
    table = ScoreTable.of(s.to_numpy(), y.to_numpy() > 0, weights)
    assert report.interval[:3] == close(auc_interval(table)[:3], rel=1e-10)
    assert report.linear_interval[:3] == close(auc_interval(table, scale="linear")[:3], rel=1e-10)
    if score == "p":
        assert report.log_loss == close(metrics.log_loss(y, s, sample_weight=u), rel=1e-10)
    else:
        assert report.log_loss is None
    assert report.as_dict()["classes"]["positive"]["rows"] == int(y.sum())


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("weight", [None, "count"])
def test_the_same_bits_however_rows_are_partitioned(rows, weight):
    shapes = (rows, rows.orderBy("label"), rows.coalesce(1), rows.repartition(40))
    found = [evaluate(r, scoreCol="tied", weightCol=weight).ranking.to_bytes() for r in shapes]
    assert len(set(found)) == 1


def test_a_histogram_bounds_the_exact_auc(rows):
    exact = evaluate(rows, scoreCol="s").auc
    coarse = evaluate(rows, scoreCol="s", exact=False, maxBins=64)
    lower, upper = coarse.bounds
    assert lower <= exact <= upper
    assert 0 < upper - lower < 0.2
    fine = evaluate(rows, scoreCol="s", exact=False)
    assert fine.bounds == (exact, exact) == (fine.auc, fine.auc)


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize(("weight", "most"), [(None, 10_000), ("u", 700), (None, 50)])
def test_groups(rows, frame, weight, most, monkeypatch):
    """Groups of more rows than a task takes have the same measures."""
    monkeypatch.setattr(groups_module, "_PART_ROWS", most)
    day = F.when(F.col("day") == "4", F.lit(None)).otherwise(F.col("day"))
    lone = F.when((F.col("day") == "3"), 0.0).otherwise(F.col("label"))
    frame = frame.assign(label=np.where(frame["day"] == "3", 0.0, frame["label"]))
    data = rows.withColumn("label", lone).withColumn("day", day)
    groups = evaluate(data, scoreCol="s", weightCol=weight, groupCol="day").groups
    assert [g.value for g in groups.rows] == ["0", "1", "2", "3", None]
    total = []
    for group, name in zip(groups.rows, "01234", strict=True):
        part = frame[frame["day"] == name]
        u = part["u"].to_numpy() if weight else np.ones(len(part))
        assert group.positive + group.negative == len(part)
        assert group.weight == pytest.approx(u.sum())
        if name == "3":
            assert (group.auc, group.lower, group.upper) == (None, None, None)
            continue
        table = ScoreTable.of(part["s"].to_numpy(), part["label"].to_numpy() > 0, u)
        assert (group.auc, group.lower, group.upper) == pytest.approx(auc_interval(table)[:3])
        total.append((group.auc, u.sum()))
    values, weights = np.array(total).T
    assert groups.weighted_mean == pytest.approx(np.average(values, weights=weights))


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("weight", [None, "u"])
def test_paired_comparison(rows, frame, weight):
    rng = np.random.default_rng(0)
    noisy = frame["s"] + rng.normal(size=N)
    data = rows.sparkSession.createDataFrame(frame.assign(noisy=noisy)).repartition(3)
    names = ("s", "noisy", "tied")
    found = compare(data, names, weightCol=weight)
    u = frame["u"].to_numpy() if weight else None
    columns = np.column_stack([frame["s"], noisy, frame["tied"]])
    expected = PairedAUC.of(columns, frame["label"].to_numpy() > 0, u)
    np.testing.assert_allclose(found.paired.auc, expected.auc, rtol=1e-12)
    np.testing.assert_allclose(found.paired.covariance, expected.covariance, rtol=1e-9)
    assert found.difference("s", "noisy") == pytest.approx(expected.compare(0, 1), rel=1e-6)
    table = ScoreTable.of(frame["s"].to_numpy(), frame["label"].to_numpy() > 0, u)
    assert found.intervals[0][:3] == pytest.approx(auc_interval(table)[:3])


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


def bad(column, value):
    """Rows of which some hold a value (SQL) that they should not."""
    return lambda df: df.withColumn(column, F.expr(f"if(day = '0', {value}, {column})"))


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (bad("s", "double('nan')"), r"NaN or infinite scores among 3000 rows"),
        (bad("s", "double('inf')"), r"NaN or infinite scores"),
        (bad("s", "null"), r"null scores"),
        (bad("label", "null"), r"\d+ null or NaN labels among 3000 rows"),
        (bad("label", "double('nan')"), r"\d+ null or NaN labels among 3000 rows"),
        (bad("label", "2.0"), r"found 3 label values"),
        (bad("u", "-1.0"), r"weights that are null, NaN, negative or not from"),
        (bad("u", "1e-310"), r"weights that are null, NaN, negative or not from 1e-100 to 1e"),
        (bad("u", "1e300"), r"weights that are null, NaN, negative or not from 1e-100 to 1e"),
        (bad("u", "null"), r"weights that are null"),
        (lambda df: df.withColumn("label", F.lit(1)), r"one class only"),
        (lambda df: df.filter("label = 0"), r"one class only: 0\.0 \(2\d+ rows\)"),
        (lambda df: df.filter("label > 5"), r"found no rows"),
    ],
)
def test_rows_that_cannot_be_measured(rows, spoilt, message):
    with pytest.raises(DataError, match=message):
        evaluate(spoilt(rows), scoreCol="s", weightCol="u")


def test_scores_that_are_no_probabilities(rows):
    with pytest.raises(DataError, match=r"scores outside \[0, 1\]"):
        evaluate(rows, scoreCol="s", probabilities=True)


def test_settings_that_cannot_serve(rows):
    with pytest.raises(ConfigError, match="did you mean 'tied'"):
        evaluate(rows, scoreCol="tide")
    with pytest.raises(ConfigError, match="expected numbers or vectors"):
        evaluate(rows, scoreCol="day")
    with pytest.raises(ConfigError, match="maxFPR 0"):
        evaluate(rows, scoreCol="s", maxFPR=0)
    with pytest.raises(ConfigError, match="two or more"):
        compare(rows, ["s", "s"])
    with pytest.raises(ConfigError, match="metricName 'auc'"):
        AUCEvaluator(rawPredictionCol="s", metricName="auc").evaluate(rows)


def test_scores_of_rows_with_vectors_beside_can_be_cached(spark, rows, tmp_path):
    from pyspark.ml.functions import array_to_vector

    parts = rows.withColumn("vector", array_to_vector(F.array("s", "u")))
    parts = parts.withColumn("array", F.array("s", "u"))
    parts.write.parquet(str(tmp_path / "rows"))
    stored = spark.read.parquet(str(tmp_path / "rows"))
    model = MBAClassifier(featuresCol="array").fit(stored)
    scored = model.transform(stored).cache()
    assert scored.count() == N
    scored.unpersist()


def one_positive(spark, scores, y):
    return spark.createDataFrame(pd.DataFrame({"s": scores, "label": y}))


def test_one_positive_has_an_auc_and_no_interval(spark):
    report = evaluate(one_positive(spark, [1.0, 3.0, 2.0, 0.0], [0.0, 0.0, 1.0, 0.0]), scoreCol="s")
    assert report.auc == 2 / 3
    assert (report.interval.lower, report.interval.upper) == (0.0, 1.0)
    assert (report.interval.scale, report.interval.small_sample) == ("unknown", True)
    assert np.isnan(report.variance)
    assert report.as_dict()["interval"]["scale"] == "unknown"
    assert report.thresholds["f1"].threshold == 2.0
    data = one_positive(spark, [1.0, 2.0], [0.0, 1.0])
    # Clopper and Pearson's bound for one success in one.
    assert evaluate(data, scoreCol="s").interval.lower == pytest.approx(0.05)
    assert AUCEvaluator(rawPredictionCol="s").evaluate(data) == 1.0


def test_an_unknown_label_is_no_negative(spark):
    nan = float("nan")
    data = spark.createDataFrame([(1.0, 2.0), (3.0, nan), (2.0, 2.0), (0.0, nan)], ["s", "label"])
    with pytest.raises(DataError, match="2 null or NaN labels among 4 rows"):
        evaluate(data, scoreCol="s", positiveLabel=2)
    with pytest.raises(DataError, match=r"found [12] NaN in label column 'label'"):
        MBAClassifier(featuresCol=["s"], positiveLabel=2, regParam=1.0).fit(data)
    with pytest.raises(ConfigError, match="expected a finite number"):
        evaluate(data, scoreCol="s", positiveLabel=nan)


def test_zeros_of_either_sign_are_one_label(spark):
    data = one_positive(spark, [1.0, 3.0, 2.0, 0.0], [-0.0, 1.0, 0.0, -0.0])
    report = evaluate(data, scoreCol="s")
    assert report.as_dict()["classes"]["negative"]["rows"] == 3
    assert report.classes == (1.0, 0.0)


def test_no_partitions_are_no_rows(spark):
    data = spark.createDataFrame([], "s double, label double")
    with pytest.raises(DataError, match="found no rows"):
        evaluate(data, scoreCol="s")
    with pytest.raises(DataError, match="found no rows"):
        compare(data.withColumn("t", F.col("s")), ["s", "t"])


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
