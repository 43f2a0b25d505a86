"""Pipelines of raw rows: the same numbers as stage by stage, and refusals of other columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml import Pipeline
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_auc import (
    FeatureCrosses,
    FeatureRecipe,
    FeatureRecipeModel,
    MBAClassifier,
    NystroemEmbedding,
    RankerPipeline,
    RankerPipelineModel,
    ScoreCalibrator,
    SOLAMClassifier,
)
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.spark.data.arrow_files import layout_rows
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.raw import criteo
from spark_auc.tables.layouts import CRITEO, CRITEO_INTEGERS, CRITEO_TOKENS, Layout
from tests import data
from tests.pipeline.test_pipeline import fitted, rows, settings
from tests.pipeline.test_pipeline import mba as here_mba
from tests.pipeline.test_pipeline import recipe as here_recipe


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return rows()


@pytest.fixture(scope="module")
def raw(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table)


def recipe(**params: object) -> FeatureRecipe:
    return FeatureRecipe(**settings(**params))


def scores(df: DataFrame) -> np.ndarray:
    return df.select("rawPrediction").toArrow()["rawPrediction"].to_numpy()


def mba(**params: object) -> MBAClassifier:
    return MBAClassifier(standardization=False, regParam=0.01, **params)


@pytest.fixture(scope="module")
def fused(raw: DataFrame) -> RankerPipelineModel:
    return RankerPipeline([recipe(), mba()]).fit(raw)


@pytest.fixture(scope="module")
def stage(raw: DataFrame) -> FeatureRecipeModel:
    return recipe().fit(raw)


def test_a_pipeline_gives_the_bits_of_its_stages(
    raw: DataFrame, table: pa.Table, fused: RankerPipelineModel, stage: FeatureRecipeModel
) -> None:
    here = fitted(table, here_recipe(), here_mba())
    assert fused.recipe == stage.recipe == here.recipe
    np.testing.assert_allclose(fused.ranker.coefficients, here.ranker.scorer.w, atol=1e-12)
    rows = stage.transform(raw)
    alone = mba().fit(rows)
    np.testing.assert_array_equal(fused.ranker.coefficients, alone.coefficients)
    np.testing.assert_array_equal(scores(fused.transform(raw)), scores(alone.transform(rows)))
    sparks_own = Pipeline(stages=[recipe(), mba()]).fit(raw)
    np.testing.assert_array_equal(scores(fused.transform(raw)), scores(sparks_own.transform(raw)))


def test_rows_read_from_parquet_by_tasks_give_the_same_bits(
    raw: DataFrame, table: pa.Table, spark: SparkSession, tmp_path: Path
) -> None:
    raw.coalesce(1).write.parquet(str(tmp_path / "rows"))
    read = spark.read.parquet(str(tmp_path / "rows"))
    first = RankerPipeline([recipe(), mba()]).fit(read)
    second = RankerPipeline([recipe(), mba()]).fit(read.where("true"))
    np.testing.assert_array_equal(first.ranker.coefficients, second.ranker.coefficients)


def test_a_learner_of_several_passes(raw: DataFrame) -> None:
    learner = SOLAMClassifier(orderCol="order")
    raw = raw.coalesce(1).withColumn("order", F.monotonically_increasing_id())
    stage = recipe(leaveOut=["label", "order"])
    fused = RankerPipeline([stage, learner]).fit(raw)
    # Rows of unit length are trained as they are, unless the learner says otherwise.
    alone = learner.copy({learner.standardization: False}).fit(stage.fit(raw).transform(raw))
    assert fused.ranker.getStandardization() is False
    assert fused.ranker.summary.rows == alone.summary.rows
    np.testing.assert_allclose(fused.ranker.coefficients, alone.coefficients, rtol=1e-9)


@pytest.mark.slow
def test_embeddings_between_recipe_and_ranker(raw: DataFrame, tmp_path: Path) -> None:
    # Which copies of a row are sampled depends on their place.
    raw = raw.dropDuplicates(["age", "income", "city", "flag"]).coalesce(1).cache()
    nystroem = NystroemEmbedding(
        inputCol="features", numLandmarks=20, landmarks="sample", bandwidth=20.0
    )
    fused = RankerPipeline([recipe(), nystroem, mba()]).fit(raw)
    rows = recipe().fit(raw).transform(raw)
    rows = nystroem.fit(rows).transform(rows)
    alone = mba(featuresCol="embedded").fit(rows)
    assert fused.ranker.numFeatures == 20
    # Both samples of landmarks are of the same rows.
    np.testing.assert_allclose(scores(fused.transform(raw)), scores(alone.transform(rows)), 1e-6)
    fused.save(str(tmp_path / "model"))
    loaded = RankerPipelineModel.load(str(tmp_path / "model"))
    np.testing.assert_array_equal(scores(loaded.transform(raw)), scores(fused.transform(raw)))


def test_a_pipeline_without_a_recipe_takes_the_columns_of_its_first_stage(raw: DataFrame) -> None:
    numbers = raw.where("income is not null")
    crosses = FeatureCrosses(inputCol=["age", "income"])
    fused = RankerPipeline([crosses, mba()]).fit(numbers)
    rows = crosses.fit(numbers).transform(numbers)
    alone = mba(featuresCol="embedded").fit(rows)
    np.testing.assert_array_equal(scores(fused.transform(numbers)), scores(alone.transform(rows)))


def test_a_saved_pipeline_is_whole(
    raw: DataFrame, fused: RankerPipelineModel, stage: FeatureRecipeModel, tmp_path: Path
) -> None:
    path = str(tmp_path / "model")
    model = fused
    calibrator = ScoreCalibrator(method="platt")
    calibrated = model.calibrated(calibrator.fit(model.transform(raw)))
    calibrated.save(path)
    loaded = RankerPipelineModel.load(path)
    assert [type(stage) for stage in loaded.stages] == [type(s) for s in calibrated.stages]
    assert loaded.recipe == model.recipe
    expected = calibrated.transform(raw).drop(*raw.columns).toArrow()
    assert loaded.transform(raw).drop(*raw.columns).toArrow().equals(expected)
    fused.write().overwrite().save(path + "/recipe")
    with pytest.raises(ModelFormatError, match="FeatureRecipeModel"):
        RankerPipelineModel.load(path)
    stage.write().overwrite().save(path + "/recipe")
    with pytest.raises(ModelFormatError, match="its recipe was not saved with it"):
        RankerPipelineModel.load(path)


def test_other_columns_are_ignored_and_changed_ones_refused(
    raw: DataFrame, fused: RankerPipelineModel
) -> None:
    model = fused
    more = raw.drop("label").withColumn("more", F.lit("x"))
    np.testing.assert_array_equal(scores(model.transform(more)), scores(model.transform(raw)))
    with pytest.raises(ConfigError, match="'city'"):
        model.transform(raw.drop("city"))
    with pytest.raises(DataError, match=r"'age' of type text, expected integer"):
        model.transform(raw.withColumn("age", F.col("age").cast("string")))
    with pytest.raises(DataError, match=r"'city' of type float, expected type text"), translated():
        scores(model.transform(raw.withColumn("city", F.lit(7.5))))
    whole = [scores(model.transform(raw.withColumn("city", F.lit(seven)))) for seven in (7, 7.0)]
    np.testing.assert_array_equal(*whole)


def test_a_vector_beside_raw_columns(raw: DataFrame, stage: FeatureRecipeModel) -> None:
    """Spark hands columnar batches with vectors to Arrow functions in a form they cannot take."""
    rows = stage.transform(raw).cache()
    model = RankerPipeline([recipe(leaveOut=["label", "features"]), mba()]).fit(rows)
    assert np.isfinite(scores(model.transform(rows))).all()
    rows.unpersist()


@pytest.mark.parametrize(
    "stages", [[], [recipe()], [mba(), recipe()], [recipe(), recipe(), mba()], [mba(), mba()]]
)
def test_stages_in_another_order(stages: list[object]) -> None:
    with pytest.raises(ConfigError, match="found stages"):
        RankerPipeline(stages)


def test_a_recipe_alone_is_saved(stage: FeatureRecipeModel, tmp_path: Path) -> None:
    stage.save(str(tmp_path / "recipe"))
    assert FeatureRecipeModel.load(str(tmp_path / "recipe")).recipe == stage.recipe


@pytest.mark.slow
def test_lines_of_click_logs_train_the_model_of_prepared_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "rows.tsv"
    with data.path("criteo_80k.tsv").open() as file:
        path.write_text("".join(line for line, _ in zip(file, range(3000), strict=False)))
    stage = FeatureRecipe(log=CRITEO_INTEGERS, tokens=CRITEO_TOKENS, auto=False, dimension=1024)
    rows = layout_rows(spark, str(path), CRITEO)
    fused = RankerPipeline([stage, mba()]).fit(rows)
    prepared = criteo(spark, str(path), 1024)
    alone = mba().fit(prepared)
    np.testing.assert_array_equal(fused.ranker.coefficients, alone.coefficients)
    scored = scores(fused.transform(rows))
    np.testing.assert_array_equal(scored, scores(alone.transform(prepared)))
    # Spark computes the columns of a changed frame.
    changed = rows.withColumn("C1", F.coalesce("C1", F.lit("")))
    np.testing.assert_array_equal(scores(fused.transform(changed)), scored)
    np.testing.assert_array_equal(scores(fused.transform(rows.union(rows)))[:3000], scored)


def test_numbers_in_lines(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("1,0.5,a,7\n0,,b,07\n1,1e3,,-2\n0,-inf,a,\n" * 50)
    layout = Layout(",", ("y", "x", "word", "whole"), integers=("y", "whole"), floats=("x",))
    rows = layout_rows(spark, str(path), layout)
    stage = FeatureRecipe(tokens=["whole"], numKnots=4, dimension=32)
    fused = RankerPipeline([stage, mba(labelCol="y")]).fit(rows)
    plain = rows.where("y is not null")
    alone = RankerPipeline([stage, mba(labelCol="y")]).fit(plain)
    assert fused.recipe == alone.recipe
    np.testing.assert_array_equal(fused.ranker.coefficients, alone.ranker.coefficients)
    np.testing.assert_array_equal(scores(fused.transform(rows)), scores(fused.transform(plain)))
