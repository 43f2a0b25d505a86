"""Counts of missing and extreme values of DataFrames, against counts by pandas."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_auc import FeatureRecipe, FeatureRecipeModel, MBAClassifier, RankerPipeline
from spark_auc.errors import ConfigError
from spark_auc.features.drift import Drift
from spark_auc.pipeline.drift import drift_of
from spark_auc.spark.data.arrow_files import layout_rows
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.pipeline_model import RankerPipelineModel
from spark_auc.tables.layouts import Layout

ROWS = 700
EXPLICIT = FeatureRecipe(
    spline=["age", "when"],
    standard=["income"],
    tokens=["city", "flag"],
    log=["clicks"],
    hour=["when"],
    auto=False,
    numKnots=5,
    dimension=32,
)


def table(seed: int = 1, scale: float = 1.0) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.normal(40, 10 * scale, ROWS).round()
    age[rng.random(ROWS) < 0.05] = np.nan
    age[:2] = math.inf, -math.inf
    city = rng.choice(["a", "b", "", "köln"], ROWS)
    start = datetime(2026, 1, 1)
    when = [start + timedelta(hours=int(h)) for h in rng.integers(0, 99 * scale, ROWS)]
    y = rng.random(ROWS) < 0.3
    return pa.table(
        {
            "age": pa.array(age, mask=rng.random(ROWS) < 0.1),
            "income": pa.array(rng.lognormal(8, scale, ROWS), mask=rng.random(ROWS) < 0.2),
            "city": pa.array(city, mask=rng.random(ROWS) < 0.1),
            "flag": pa.array(rng.random(ROWS) < 0.3, mask=rng.random(ROWS) < 0.15),
            "clicks": pa.array(rng.integers(0, 99, ROWS), mask=rng.random(ROWS) < 0.25),
            "when": pa.array(when, pa.timestamp("us"), mask=rng.random(ROWS) < 0.02),
            "label": pa.array(y.astype(float)),
        }
    )


def by_pandas(model: FeatureRecipeModel, rows: pa.Table) -> list[list[int]]:
    """Rows, and missing, low and high values of each column of the recipe."""
    frame = rows.to_pandas()
    counts = []
    for column in model.recipe.columns:
        values = frame[column.name]
        here = values[~(values.isna() | (values.astype(object) == ""))]
        low = high = 0
        if hasattr(column, "bounds"):
            if column.type == "time":
                here = (here - pd.Timestamp(1970, 1, 1)) / pd.Timedelta(days=1)
            least, most = (
                (column.knots[0], column.knots[-1])
                if hasattr(column, "knots")
                else (column.mean - 5 * column.deviation, column.mean + 5 * column.deviation)
            )
            low, high = int((here < least).sum()), int((here > most).sum())
        counts.append([len(frame), len(frame) - len(here), low, high])
    return counts


@pytest.fixture(scope="module")
def fitted(spark: SparkSession) -> FeatureRecipeModel:
    return EXPLICIT.fit(spark.createDataFrame(table()))


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_counts_are_those_of_pandas(
    spark: SparkSession, fitted: FeatureRecipeModel, partitions: int
) -> None:
    rows = table(2, 3.0)
    # Some partitions have no rows.
    df = spark.createDataFrame(rows).repartition(partitions, F.col("label"))
    drift = fitted.drift_of(df)
    expected = by_pandas(fitted, rows)
    assert drift.counts[:, :4].tolist() == expected
    assert [row[2] + row[3] > 0 for row in expected] == [True, True, True] + [False] * 4
    assert (drift.unknown.tolist(), drift.absent.tolist()) == (["label"], [])


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


@pytest.mark.parametrize("auto", [False, True])
def test_the_fit_counts_its_rows(spark: SparkSession, auto: bool) -> None:
    rows = table(4)
    stage = FeatureRecipe(leaveOut=["label"], dimension=32) if auto else EXPLICIT
    for partitions in (1, 3):
        model = stage.fit(spark.createDataFrame(rows).repartition(partitions))
        assert model.drift is not None
        np.testing.assert_array_equal(model.drift.counts[:, :4], by_pandas(model, rows))


def test_all_values_missing(spark: SparkSession, fitted: FeatureRecipeModel) -> None:
    df = spark.createDataFrame(table())
    nulls = df.select(*(F.lit(None).cast(f.dataType).alias(f.name) for f in df.schema))
    drift = drift_of(SparkTable(nulls), fitted.recipe)
    counts = drift.counts[:, :4].tolist()
    assert counts == [[ROWS, ROWS, 0, 0]] * 7
    assert fitted.drift is not None
    assert {e.counted for e in drift.excesses(fitted.drift)} == {"missing"}
    assert len(drift.excesses(fitted.drift)) == 7
    none = drift_of(SparkTable(df.limit(0)), fitted.recipe)
    assert not none.counts.any()
    assert none.excesses(fitted.drift) == ()


def test_a_missing_column_is_refused(spark: SparkSession, fitted: FeatureRecipeModel) -> None:
    df = spark.createDataFrame(table()).drop("city")
    with pytest.raises(ConfigError, match="found no column 'city'"):
        drift_of(SparkTable(df), fitted.recipe)


def test_rows_that_spark_computes_twice_count_once(
    spark: SparkSession, fitted: FeatureRecipeModel
) -> None:
    """Spark samples the rows for the ranges of the partitions, and reads them again."""
    rows = table(5)
    df = spark.createDataFrame(rows).repartitionByRange(4, "income")
    drift = drift_of(SparkTable(df), fitted.recipe)
    assert drift.counts[:, :4].tolist() == by_pandas(fitted, rows)


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


def test_a_recipe_of_tokens_alone_needs_no_pass(spark: SparkSession) -> None:
    df = spark.createDataFrame(table())
    model = FeatureRecipe(tokens=["city"], auto=False, dimension=8).fit(df)
    assert model.drift is None
