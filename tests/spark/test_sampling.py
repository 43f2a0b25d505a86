"""Training on drawn rows of a DataFrame: the draws of one process, wherever the rows lie."""

import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F

from spark_auc import LinearRankerModel, MBAClassifier
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.training.problem import build_problem
from spark_auc.training.survey import Sampling
from tests.pipeline import test_sampling as here
from tests.pipeline.test_sampling import N, U, X, Y


@pytest.fixture(scope="module")
def rows(spark):
    made = [(k, Vectors.dense(X[k]), float(Y[k]), float(U[k])) for k in range(N)]
    return spark.createDataFrame(made, ["id", "features", "label", "u"]).cache()


def read(df, *arguments, **settings):
    return here.read(SparkTable(df), *arguments, **settings)


@pytest.mark.parametrize("estimator", ["paired", pytest.param("complete", marks=pytest.mark.slow)])
def test_the_draws_are_those_of_one_process(rows, estimator):
    sampling, key = Sampling(estimator, 200, seed=3), "id" if estimator == "complete" else None
    local = here.table(here.vectors(X, Y, u=U))
    expected = build_problem(here.read(local, key), sampling).quadratic(None)
    arrangements = {
        "by label": rows.repartitionByRange(4, "label", "id").sortWithinPartitions("label"),
        "nearly all empty": rows.repartition(30, (F.col("id") % 5).alias("k")),
    }
    for name, df in arrangements.items():
        found = build_problem(read(df, key), sampling).quadratic(None)
        here.assert_same_quadratic(found, expected, name)


def test_the_model_tells_how_it_was_made(rows, tmp_path):
    drawn = {"numPairs": 3000, "batchSize": 500, "seed": 4, "keyCol": "id", "estimator": "paired"}
    model = MBAClassifier(regParam=0.05, weightCol="u", **drawn).fit(rows)
    assert (model.summary.estimator, model.summary.pairs) == ("paired", 3000)
    model.save(str(tmp_path / "m"))
    assert LinearRankerModel.load(str(tmp_path / "m")).summary == model.summary
