"""The order in which rows are learnt: of seed and rows alone, however they are stored."""

import logging

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F
from sklearn.metrics import roc_auc_score

from spark_auc import SOLAMClassifier
from spark_auc.spark.data.prepared import RowOrder
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.features import PreparedFeatures

N, D = 2000, 10
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D)) + 3.0
Y = (X - 3.0) @ RNG.normal(size=D) + RNG.normal(size=N) * 2 > 2.0


@pytest.fixture(scope="module")
def rows(spark):
    made = [(k, Vectors.dense(X[k]), float(Y[k])) for k in range(N)]
    return spark.createDataFrame(made, ["id", "features", "label"]).cache()


@pytest.fixture(scope="module")
def by_label(rows):
    """Stored by label: each of two partitions has rows of one class only."""
    halves = [rows.where(f"label = {k}").coalesce(1) for k in range(2)]
    return halves[1].union(halves[0])


def order(df, seed=0, tasks=1, names=("id",)):
    columns = TrainingColumns(PreparedFeatures("columns", tuple(names), len(names)), "label")
    return RowOrder.of(SparkTable(df), columns, None, seed, tasks)


def test_the_order_is_of_seed_and_rows_alone(rows, by_label):
    def ids(df, seed=0, number=0):
        return [row.id for row in order(df, seed).arranged(number).select("id").collect()]

    found = ids(rows)
    assert sorted(found) == list(range(N))
    assert ids(by_label) == found == ids(rows.repartition(7))
    labels = Y[found]
    assert abs(labels[: N // 2].mean() - labels.mean()) < 4 * np.sqrt(0.25 / N)
    for other in (ids(rows, seed=1), ids(rows, number=1)):
        assert abs(np.corrcoef(found, other)[0, 1]) < 0.1


def test_rows_of_one_value_are_in_an_order_of_their_own(rows, by_label):
    columns = TrainingColumns(PreparedFeatures("columns", ("id",), 1), "label")

    def ids(df, seed=0):
        with_day = df.withColumn("a day", F.col("id") % 3)
        arranged = RowOrder.of(SparkTable(with_day), columns, "a day", seed, 1).arranged(0)
        return [row.id for row in arranged.select("id").collect()]

    found = ids(rows)
    assert (np.diff(np.array(found) % 3) >= 0).all()
    assert ids(by_label) == found == ids(rows.repartition(7)) != ids(rows, seed=1)


def test_repeated_rows_are_spread(spark):
    """16 different rows among 4,800, stored one kind after another."""
    df = spark.range(4800).select(
        F.floor(F.col("id") / 300).cast("double").alias("x"), F.lit(1.0).alias("label")
    )
    found = [row.x for row in order(df, names=("x",)).arranged(0).select("x").collect()]
    kinds = np.array(found).astype(int)
    assert (np.bincount(kinds) == 300).all()
    places = [np.flatnonzero(kinds == kind) for kind in range(16)]
    # A uniform order has means near the middle, and neighbours alike as often as any two rows.
    assert max(abs(p.mean() - 2400) for p in places) < 5 * 4800 / np.sqrt(12 * 300)
    assert (kinds[1:] == kinds[:-1]).mean() == pytest.approx(1 / 16, abs=0.015)


def test_each_task_has_a_sample_of_all_rows(by_label):
    tasks = order(by_label, tasks=4).arranged(0).groupBy(F.spark_partition_id())
    counts = tasks.agg(F.count("*").alias("rows"), F.sum("label").alias("positive")).collect()
    assert len(counts) == 4
    for row in counts:
        assert row.rows == pytest.approx(N / 4, rel=0.2)
        assert row.positive / row.rows == pytest.approx(Y.mean(), abs=0.1)


@pytest.mark.parametrize("parallelism", ["sequential", "distributed"])
def test_rows_stored_by_label_are_learnt_as_well(rows, by_label, parallelism, caplog):
    with caplog.at_level(logging.WARNING, "spark_auc"):
        models = [SOLAMClassifier(parallelism=parallelism).fit(df) for df in (rows, by_label)]
    shuffled, stored = (model.scorer.w for model in models)
    # Statistics of the columns are summed in the order of partitions.
    np.testing.assert_allclose(stored, shuffled, rtol=1e-8)
    w = np.linalg.lstsq(X - X.mean(axis=0), Y - Y.mean(), rcond=None)[0]
    assert roc_auc_score(Y, X @ stored) > roc_auc_score(Y, X @ w) - 0.01
    held_out = models[1].summary.held_out
    assert held_out["rival"] == "ridge"
    assert not held_out["short"]
    assert "standardization" not in caplog.text


def test_a_model_that_falls_short_says_so(by_label, caplog):
    estimator = SOLAMClassifier(stepSize=1e-6, standardization=False)
    hidden = F.when(F.col("label") > 0, 0.3).otherwise(0.0)
    parts = [F.rand(k) * 30.0 + 20.0 * hidden for k in range(5)]
    parts += [F.rand(k) * 30.0 + F.rand(k + 50) for k in range(5)]
    stretched = by_label.withColumn("features", F.array(*parts))
    with caplog.at_level(logging.WARNING, "spark_auc"):
        model = estimator.fit(stretched)
    held_out = model.summary.held_out
    assert held_out["short"]
    assert f"AUC of {held_out['auc']:.4f}" in caplog.text
    assert "use MBAClassifier" in caplog.text
    again = SOLAMClassifier(stepSize=1e-6, standardization=False, rounds=2).fit(stretched)
    assert again.summary.held_out is None
