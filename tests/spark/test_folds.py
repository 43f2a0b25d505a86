"""Folds and draws of few and of repeated rows, over DataFrames."""

import logging

import numpy as np
import pytest
from pyspark.sql import functions as F

from spark_auc import MBAClassifier, MBASelector
from spark_auc.core.moments.operator import column_moments
from spark_auc.pipeline.estimators import MBASelectingEstimator
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.features.embedding import sampled, unlabelled
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.features import PreparedFeatures
from spark_auc.training import problem
from spark_auc.training.survey import Sampling
from tests.pipeline import test_folds as here
from tests.pipeline.test_folds import DRAWN, GRID, NAMES
from tests.spark.test_sampling import read


@pytest.fixture(scope="module")
def repeated(spark, tmp_path_factory):
    """The rows in files of several row groups."""
    made = spark.createDataFrame(here.repeated())
    path = str(tmp_path_factory.mktemp("repeated") / "rows")
    made.repartition(6).write.option("parquet.block.size", 1 << 15).parquet(path)
    return spark.read.parquet(path)


def test_draws_of_shuffled_rows(repeated, caplog):
    with caplog.at_level(logging.WARNING):
        model = MBAClassifier(estimator="complete", seed=3, **DRAWN).fit(repeated.repartition(5))
    here.check_draws(model, caplog)


def test_rows_of_files_are_drawn_alike_however_tasks_share_them(repeated, monkeypatch):
    """Every pass of a fit tells the rows apart alike, whatever tasks read together."""
    found = []
    for slots in (16, 1):
        monkeypatch.setattr("spark_auc.spark.data.aggregate.SOURCES_PER_SLOT", slots)
        for form in (repeated, repeated.withColumn("x0", F.col("x0") + 0)):
            given = problem.build_problem(
                read(form, weight=None, features=NAMES), Sampling("paired", 500, 2)
            )
            assert given.moments.positive.weight == 500
            found.append(given.quadratic(None).mu)
    np.testing.assert_allclose(found[0], found[2], atol=1e-12)
    np.testing.assert_allclose(found[1], found[3], atol=1e-12)


def test_a_sample_of_repeated_rows_is_of_many_kinds(repeated):
    """Rows that an embedding is made of: as many as asked for, of kinds as all rows are."""
    for form in (repeated, repeated.repartition(3)):
        rows = unlabelled(SparkTable(form), PreparedFeatures.resolve(SparkTable(form), NAMES))
        columns = column_moments(rows)
        counts = float(columns.rows.sum()), float(columns.entries.sum())
        sample = sampled(rows, *counts, 400, 1)
        assert sample.y.size == 400
        assert np.unique(sample.X[:, 0]).size > 100


def test_folds_of_the_users_own_are_those_of_one_process(repeated):
    name = F.concat(F.lit("'day "), F.pmod(F.hash("x0"), F.lit(3)).cast("string"))
    folded = repeated.withColumn("fold", name)
    model = MBASelector(foldCol="fold", **GRID).fit(folded)
    selector = MBASelectingEstimator(foldCol="fold", **GRID)
    expected = here.folds_of(selector, ArrowTable.of(folded.toArrow()))
    found = [c["folds"] for c in model.summary.selection["candidates"]]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
