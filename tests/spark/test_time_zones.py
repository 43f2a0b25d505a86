"""The zone of a session at the fit holds wherever a ranker scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sklearn.metrics import roc_auc_score

import spark_auc
from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, RankerPipelineModel
from spark_auc.features.recipe_json import to_json

ZONE = "spark.sql.session.timeZone"
NEW_YORK = "America/New_York"
N = 1500


@contextmanager
def session_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, zone)
    try:
        yield
    finally:
        spark.conf.set(ZONE, before)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Rows of a year, most of whose positives have office hours on the clock."""
    rng = np.random.default_rng(0)
    t = pd.Timestamp("2024-01-05") + pd.to_timedelta(rng.integers(0, 9_000, N), unit="h")
    # The hour that clocks skip is no time of this zone.
    t = t.where(t != pd.Timestamp("2024-03-10 02:00"), t + pd.Timedelta(hours=1))
    office = (t.hour >= 9) & (t.hour < 17)
    label = (rng.random(N) < np.where(office, 0.6, 0.1)).astype(float)
    return pd.DataFrame({"t": t, "id": np.arange(N), "label": label})


@pytest.fixture(scope="module")
def saved(
    spark: SparkSession, frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str, np.ndarray]:
    """Where the ranker and its rows are, and its scores in the session of its fit."""
    place = str(tmp_path_factory.mktemp("zones"))
    with session_zone(spark, NEW_YORK):
        rows = spark.createDataFrame(frame)
        recipe = FeatureRecipe(auto=False, hour=["t"], weekday=["t"])
        model = RankerPipeline([recipe, MBAClassifier(regParam=1e-3)]).fit(rows)
        model.save(f"{place}/model")
        rows.write.parquet(f"{place}/rows")
        return f"{place}/model", f"{place}/rows", scores(model, rows)


def scores(model: RankerPipelineModel, rows: DataFrame) -> np.ndarray:
    found = model.transform(rows).select("id", "rawPrediction").collect()
    return np.array([score for _, score in sorted(map(tuple, found))])


def test_served_without_spark(frame: pd.DataFrame, saved: tuple[str, str, np.ndarray]) -> None:
    path, _, expected = saved
    # Hours of the zone's clocks follow office hours in summer too.
    assert roc_auc_score(frame["label"], expected) > 0.79
    ranker = spark_auc.load(path)
    assert ranker.recipe is not None
    assert ranker.recipe.zone == NEW_YORK
    zoned = frame.assign(t=frame["t"].dt.tz_localize(NEW_YORK, ambiguous=True))
    tables = [frame, zoned, zoned.assign(t=zoned["t"].dt.tz_convert("Asia/Tokyo"))]
    for table in tables:
        np.testing.assert_array_equal(ranker.score(table), expected)
    for k in range(0, N, 150):
        for table in tables:
            row = {"t": table["t"].iloc[k].to_pydatetime()}
            assert ranker.score(row) == expected[k]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", NEW_YORK])
def test_sessions_of_other_zones(
    spark: SparkSession, frame: pd.DataFrame, saved: tuple[str, str, np.ndarray], zone: str
) -> None:
    path, rows, expected = saved
    with session_zone(spark, zone):
        model = RankerPipelineModel.load(path)
        read = spark.read.parquet(rows)
        np.testing.assert_array_equal(scores(model, read), expected)
        # Times without a zone are read on the clocks of the fit, and not of the session.
        text = frame.assign(t=frame["t"].astype(str))
        plain = spark.createDataFrame(text).withColumn("t", F.col("t").cast("timestamp_ntz"))
        np.testing.assert_array_equal(scores(model, plain), expected)


def test_recipes_without_times_do_not_depend_on_the_session(spark: SparkSession) -> None:
    rows = spark.range(20).selectExpr("id % 5 AS x", "id")
    texts = set()
    for zone in ("UTC", NEW_YORK):
        with session_zone(spark, zone):
            texts.add(to_json(FeatureRecipe(auto=False, spline=["x"]).fit(rows).recipe))
    assert len(texts) == 1


def test_drift_and_tokens_count_on_the_same_clocks(spark: SparkSession) -> None:
    """Near midnight: the day of New York is not that of UTC."""
    night = datetime(2024, 6, 7, 23, 30, tzinfo=ZoneInfo(NEW_YORK))
    moments = [night + timedelta(days=7 * k) for k in range(40)]
    with session_zone(spark, NEW_YORK):
        rows = spark.createDataFrame(
            [(m, k % 2) for k, m in enumerate(moments)], "t timestamp, y int"
        )
        model = FeatureRecipe(spline=["t"], weekday=["t"], auto=False).fit(rows)
        assert model.drift is not None
        assert not model.drift_of(rows).excesses(model.drift)
    recipe = model.recipe
    assert recipe.numeric[0].knot_texts()[0].startswith("2024-06-07")
    with session_zone(spark, "Asia/Tokyo"):
        found = {tuple(row.features.indices[-1:]) for row in model.transform(rows).collect()}
    assert len(found) == 1
