"""Rows as Parquet files of a file system."""

import pytest

from spark_auc.errors import ConfigError
from spark_auc.publication.directory import Directory
from spark_auc.spark.data import part_files
from spark_auc.spark.data.part_files import read_parquet, write_parquet


def test_the_rows_that_tasks_wrote_are_counted(spark, tmp_path):
    rows = spark.range(20).selectExpr("id", "id % 3 AS part")
    for name, by in (("plain", []), ("parts", ["part"])):
        place = Directory.of(str(tmp_path / name))
        assert write_parquet(rows, place, by) == 20
        assert read_parquet(spark, place).count() == 20
    empty = Directory.of(str(tmp_path / "empty"))
    assert write_parquet(rows.where("id < 0"), empty) == 0


def test_files_that_only_workers_see_are_missed(spark, tmp_path, monkeypatch):
    # On Connect, an Observation is of another class.
    kind = type(part_files.Observation())
    counted = kind.get.fget
    more = property(lambda observed: {"rows": counted(observed)["rows"] + 7})
    monkeypatch.setattr(kind, "get", more)
    with pytest.raises(ConfigError, match=r"found 20 of the 27 rows.*all workers share"):
        write_parquet(spark.range(20), Directory.of(str(tmp_path / "rows")))
