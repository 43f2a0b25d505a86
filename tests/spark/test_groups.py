"""AUC by group on Spark: as in one process, whatever the batches and the partitions."""

import pandas as pd
import pytest
from pyspark.sql import functions as F

from spark_auc import evaluate
from spark_auc.pipeline import score_groups as groups_module
from tests.pipeline import measured
from tests.pipeline.test_groups import skewed


def test_groups_on_the_bounds_of_batches(spark):
    """Batches of seven rows end within groups and within ties."""
    data = spark.createDataFrame(skewed(100, 200))
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    usual = spark.conf.get(name)
    whole = evaluate(data, scoreCol="s", weightCol="u", groupCol="user").groups
    spark.conf.set(name, "7")
    try:
        cut = evaluate(data, scoreCol="s", weightCol="u", groupCol="user").groups
    finally:
        spark.conf.set(name, usual)
    frames = [pd.DataFrame(groups.arrays()) for groups in (whole, cut)]
    pd.testing.assert_frame_equal(*frames, check_exact=True)


@pytest.mark.parametrize("weight", [None, "u"])
def test_groups_are_those_of_one_process(spark, monkeypatch, weight):
    frame = skewed(300, 4000)
    expected = measured.evaluate(measured.table_of(frame), weightCol=weight, groupCol="user").groups
    data = spark.createDataFrame(frame).repartition(7).orderBy("s", F.rand(3))
    monkeypatch.setattr(groups_module, "_PART_ROWS", 301)
    found = evaluate(data, scoreCol="s", weightCol=weight, groupCol="user").groups
    frames = [pd.DataFrame(groups.arrays()) for groups in (found, expected)]
    pd.testing.assert_frame_equal(*frames, rtol=1e-12, atol=0)
