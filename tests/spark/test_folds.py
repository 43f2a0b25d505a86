"""Folds and draws of few and of repeated rows, over DataFrames."""

import logging
import re

import numpy as np
import pytest
from pyspark.sql import functions as F
from sklearn.metrics import roc_auc_score

from spark_auc import MBAClassifier, MBASelector
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError, DataError
from spark_auc.solvers.path import solve
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.features.embedding import sampled, unlabelled
from spark_auc.tables.columns import FoldColumn
from spark_auc.tables.features import PreparedFeatures
from spark_auc.training import problem
from spark_auc.training.survey import Sampling
from tests.spark.test_sampling import read

KINDS, N, D = 128, 20_000, 5
NAMES = [f"x{j}" for j in range(D)]


@pytest.fixture(scope="module")
def repeated(spark, tmp_path_factory):
    """Rows of 128 kinds with both labels each, in files of several row groups."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(KINDS, D))[rng.integers(KINDS, size=N)]
    y = rng.random(N) < 1 / (1 + np.exp(1 - X @ np.linspace(-0.8, 0.8, D)))
    made = spark.createDataFrame(np.column_stack([X, y]), [*NAMES, "label"])
    path = str(tmp_path_factory.mktemp("repeated") / "rows")
    made.repartition(6).write.option("parquet.block.size", 1 << 15).parquet(path)
    return X, y, spark.read.parquet(path)


def test_a_handful_of_rows_needs_no_penalty(spark):
    rows = spark.createDataFrame(
        [(0.0, 1.0, 20.0), (1.0, 3.0, 22.0), (0.0, 2.0, 35.0), (1.0, 4.0, 31.0)],
        ["clicked", "position", "age"],
    )
    features = {"featuresCol": ["position", "age"], "labelCol": "clicked"}
    model = MBAClassifier(**features).fit(rows)
    assert len(model.summary.selection["candidates"][0]["folds"]) == 2
    with pytest.raises(DataError, match=r"all positive rows equal in features.*set regParam"):
        MBAClassifier(**features).fit(rows.limit(3))


@pytest.mark.parametrize("estimator", ["complete", "paired"])
@pytest.mark.parametrize("form", ["files", "shuffled"])
def test_draws_of_repeated_rows(repeated, estimator, form, caplog):
    X, y, df = repeated
    df = df if form == "files" else df.repartition(5)
    best = solve(PairMoments.of(X, y).quadratic(), ElasticNet(0.0, 0.01), tol=1e-9, max_iter=99)
    with caplog.at_level(logging.WARNING):
        model = MBAClassifier(
            featuresCol=NAMES,
            regParam=0.01,
            estimator=estimator,
            numPairs=4096,
            standardization=False,
            seed=3,
        ).fit(df)
    share = re.search(r"equal rows: ([0-9.]+) % .*; set keyCol", caplog.text).group(1)
    assert 80 < float(share) < 100
    w = model.scorer.w
    right, found = (roc_auc_score(y, X @ v) for v in (best.w, w))
    assert found == pytest.approx(right, abs=0.005)
    quadratic = PairMoments.of(X, y).quadratic()
    value = quadratic.value(w, quadratic.Sigma.matvec(w)) + 0.005 * (w @ w)
    paid = value - best.certificate.objective
    # What one sample costs varies as chi squared of 5 degrees of freedom does.
    assert 0.03 < paid / model.summary.sampling_suboptimality < 5


def test_rows_of_files_are_drawn_alike_however_tasks_share_them(repeated, monkeypatch):
    """Every pass of a fit tells the rows apart alike, whatever tasks read together."""
    _, _, df = repeated
    found = []
    for slots in (16, 1):
        monkeypatch.setattr("spark_auc.spark.data.aggregate.SOURCES_PER_SLOT", slots)
        for form in (df, df.withColumn("x0", F.col("x0") + 0)):
            given = problem.build_problem(
                read(form, weight=None, features=NAMES), Sampling("paired", 500, 2)
            )
            assert given.moments.positive.weight == 500
            found.append(given.quadratic(None).mu)
    np.testing.assert_allclose(found[0], found[2], atol=1e-12)
    np.testing.assert_allclose(found[1], found[3], atol=1e-12)


def test_a_sample_of_repeated_rows_is_of_many_kinds(repeated):
    """Rows that an embedding is made of: as many as asked for, of kinds as all rows are."""
    _, _, df = repeated
    for form in (df, df.repartition(3)):
        rows = unlabelled(SparkTable(form), PreparedFeatures.resolve(SparkTable(form), NAMES))
        columns = column_moments(rows)
        counts = float(columns.rows.sum()), float(columns.entries.sum())
        sample = sampled(rows, *counts, 400, 1)
        assert sample.y.size == 400
        assert np.unique(sample.X[:, 0]).size > 100


@pytest.mark.parametrize("values", ["strings", "numbers"])
def test_folds_of_the_users_own(repeated, values, monkeypatch):
    X, y, df = repeated
    folded = df.withColumn("fold", F.pmod(F.hash("x0"), F.lit(3)) - 1)
    if values == "strings":
        folded = folded.withColumn("fold", F.concat(F.lit("'day "), F.col("fold").cast("string")))
    settings = {"featuresCol": NAMES, "regParams": [0.01, 1.0], "foldCol": "fold"}
    found = MBASelector(**settings).fit(folded).summary.selection["candidates"][0]["folds"]
    local = np.array(folded.select(*NAMES, "label", "fold").toPandas())
    names = np.unique(local[:, -1])
    assert len(found) == names.size == 3
    for k, name in enumerate(names):
        mine = local[:, -1] == name
        X, y = local[:, :D].astype(float), local[:, D].astype(bool)
        moments = PairMoments.of(X[~mine], y[~mine])
        scale = moments.columns().standard_deviation()
        w = solve(moments.quadratic(scale), ElasticNet(0.0, 0.01), tol=1e-9, max_iter=99).w / scale
        assert found[k] == pytest.approx(roc_auc_score(y[mine], X[mine] @ w), abs=1e-6)
    monkeypatch.setattr(problem, "fits_in_matrix", lambda _: False)
    again = MBASelector(**settings).fit(folded).summary.selection["candidates"][0]["folds"]
    np.testing.assert_allclose(again, found, atol=1e-6)


def test_what_cannot_be_folds(repeated):
    _, _, df = repeated
    with pytest.raises(ConfigError, match="foldCol 'label' and numFolds 5"):
        MBASelector(featuresCol=NAMES, foldCol="label", numFolds=5).fit(df)
    with pytest.raises(ConfigError, match="type double; expected whole numbers or strings"):
        FoldColumn.of(SparkTable(df), "label")
    with pytest.raises(ConfigError, match="no column 'day'"):
        FoldColumn.of(SparkTable(df), "day")
    for column, text in (
        (F.lit(1), "found 1 values"),
        (F.monotonically_increasing_id(), "found too many values.*keyCol and numFolds"),
        (F.when(F.col("label") > 0, 1), "found nulls"),
    ):
        with pytest.raises(DataError, match=text):
            FoldColumn.of(SparkTable(df.withColumn("fold", column)), "fold")
    by_label = df.withColumn("fold", F.col("label").cast("int"))
    with pytest.raises(DataError, match=r"one class only in fold '0'.*foldCol"):
        MBASelector(featuresCol=NAMES, foldCol="fold").fit(by_label)


def test_rows_of_one_key_are_of_one_fold(repeated):
    """Ten users: as many folds at most, and a user's rows help to train none of their own."""
    _, _, df = repeated
    users = df.withColumn("user", F.pmod(F.hash("x1"), F.lit(10)))
    settings = {"featuresCol": NAMES, "keyCol": "user", "regParams": [0.01, 1.0], "seed": 1}
    found = MBASelector(numFolds=20, **settings).fit(users).summary.selection
    settings = {"featuresCol": NAMES, "foldCol": "user", "regParams": [0.01, 1.0]}
    other = MBASelector(**settings).fit(users).summary.selection
    for ours, theirs in zip(found["candidates"], other["candidates"], strict=True):
        np.testing.assert_allclose(np.sort(ours["folds"]), np.sort(theirs["folds"]), atol=1e-9)
