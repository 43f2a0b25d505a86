"""Pairs of numeric columns of DataFrames: those of one process, and stored stages."""

import numpy as np
import pytest
from pyspark.sql import functions as F

from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, RankerPipelineModel
from spark_auc.features.contributions import contributions
from spark_auc.tables.arrow_table import ArrowTable
from tests.pipeline import test_pairs_of_columns as here


@pytest.fixture(scope="module")
def frame():
    return here.table(3000)


@pytest.fixture(scope="module")
def rows(spark, frame):
    return spark.createDataFrame(here.arrow(frame)).repartition(3)


def test_the_pairs_are_those_of_one_process(rows, frame):
    expected = here.recipe_of(pairs=3).fitted(ArrowTable.of(here.arrow(frame))).recipe
    assert FeatureRecipe(**here.settings(pairs=3)).fit(rows).recipe == expected
    assert expected.pairs


def test_models_of_named_pairs_are_saved(rows, tmp_path):
    recipe = FeatureRecipe(**here.settings(pairs=[["x2", "x1"], ["x3", "count"]]))
    model = RankerPipeline([recipe, MBAClassifier(regParam=0.01)]).fit(rows)
    model.save(str(tmp_path / "model"))
    loaded = RankerPipelineModel.load(str(tmp_path / "model"))
    assert loaded.recipe == model.recipe
    scored = loaded.transform(rows).select(*here.NAMES, F.col("rawPrediction")).toPandas()
    parts = contributions(loaded.recipe, model.ranker.coefficients, here.raw(scored))
    np.testing.assert_allclose(parts.sum(axis=1), scored["rawPrediction"], atol=1e-9)
