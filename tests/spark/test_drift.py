"""Counts of missing and extreme values of DataFrames: those of one process, in one reading."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_auc import FeatureRecipe, FeatureRecipeModel, MBAClassifier, RankerPipeline
from spark_auc.features.drift import Drift
from spark_auc.pipeline.drift import drift_of
from spark_auc.pipeline.estimators import RecipeEstimator
from spark_auc.spark.data.arrow_files import layout_rows
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.pipeline_model import RankerPipelineModel
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.layouts import Layout
from tests.pipeline.test_drift import EXPLICIT, by_pandas, table


@pytest.fixture(scope="module")
def fitted(spark: SparkSession) -> FeatureRecipeModel:
    return FeatureRecipe(**EXPLICIT).fit(spark.createDataFrame(table()))


def test_counts_are_those_of_one_process(spark: SparkSession, fitted: FeatureRecipeModel) -> None:
    here = RecipeEstimator(**EXPLICIT).fitted(ArrowTable.of(table()))
    assert fitted.recipe == here.recipe
    assert fitted.drift is not None
    assert fitted.drift.to_bytes() == here.drift.to_bytes()
    # Some partitions have no rows.
    rows = table(2, 3.0)
    drift = fitted.drift_of(spark.createDataFrame(rows).repartition(5, F.col("label")))
    assert drift.to_bytes() == drift_of(ArrowTable.of(rows), here.recipe).to_bytes()


def test_parquet_files_that_tasks_read(
    spark: SparkSession, fitted: FeatureRecipeModel, tmp_path: Path
) -> None:
    rows = table(3, 2.0)
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=100)
    read = spark.read.parquet(str(tmp_path / "rows.parquet"))
    expected = drift_of(SparkTable(spark.createDataFrame(rows)), fitted.recipe)
    assert drift_of(SparkTable(read), fitted.recipe).to_bytes() == expected.to_bytes()


def test_lines(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("1,0.5,a,7\n0,,b,07\n1,1e3,,-2\n0,nan,a,\n" * 50)
    layout = Layout(",", ("y", "x", "word", "whole"), integers=("y", "whole"), floats=("x",))
    rows = layout_rows(spark, str(path), layout)
    stage = FeatureRecipe(tokens=["word"], log=["whole"], spline=["x"], auto=False, dimension=32)
    model = stage.fit(rows)
    expected = [[200, 100, 0, 0], [200, 50, 0, 0], [200, 50, 0, 0]]
    assert drift_of(SparkTable(rows), model.recipe).counts[:, :4].tolist() == expected
    assert model.drift is not None
    assert model.drift.counts[:, :4].tolist() == expected
    path.write_text("1,9e3,,\n" * 20)
    drift = drift_of(SparkTable(layout_rows(spark, str(path), layout)), model.recipe)
    assert drift.counts[:, :4].tolist() == [[20, 0, 0, 20], [20, 20, 0, 0], [20, 20, 0, 0]]
    said = [str(excess) for excess in drift.excesses(model.drift)]
    assert [text.split(" (")[0] for text in said] == [
        "100.0% of the values of column 'x'",
        "100.0% of the values of column 'whole'",
        "100.0% of the values of column 'word'",
    ]


def test_rows_that_spark_computes_twice_count_once(
    spark: SparkSession, fitted: FeatureRecipeModel
) -> None:
    """Spark samples the rows for the ranges of the partitions, and reads them again."""
    rows = table(5)
    df = spark.createDataFrame(rows).repartitionByRange(4, "income")
    drift = drift_of(SparkTable(df), fitted.recipe)
    assert drift.counts[:, :4].tolist() == by_pandas(fitted.recipe, rows)


def test_saved_models_have_the_counts_of_their_fit(
    spark: SparkSession, fitted: FeatureRecipeModel, tmp_path: Path
) -> None:
    assert fitted.drift is not None
    fitted.save(str(tmp_path / "recipe"))
    loaded = FeatureRecipeModel.load(str(tmp_path / "recipe"))
    assert isinstance(loaded.drift, Drift)
    assert loaded.drift.to_bytes() == fitted.drift.to_bytes()
    df = spark.createDataFrame(table())
    model = RankerPipeline([fitted, MBAClassifier(regParam=0.1)]).fit(df)
    model.save(str(tmp_path / "model"))
    stage = RankerPipelineModel.load(str(tmp_path / "model")).stages[0]
    assert isinstance(stage, FeatureRecipeModel)
    assert stage.drift is not None
    assert stage.drift.to_bytes() == fitted.drift.to_bytes()
    # Models that were stored without counts.
    bare = FeatureRecipeModel(fitted.recipe)
    bare.save(str(tmp_path / "bare"))
    assert FeatureRecipeModel.load(str(tmp_path / "bare")).drift is None
    assert FeatureRecipeModel.load(str(tmp_path / "bare")).recipe == fitted.recipe
