"""Splits against plain Python, over files cut and packed by Spark in awkward ways."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, date, datetime

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F

from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data import raw
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.split import by_key, by_position, by_time

SIZES = {"a": 20, "b b": 3, "c": 36, "d": 1}


@contextmanager
def reading(spark, **settings):
    """Settings of file reads, for the actions inside."""
    names = {f"spark.sql.files.{name}": str(value) for name, value in settings.items()}
    before = {name: spark.conf.get(name) for name in names}
    try:
        for name, value in names.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def tiny_blocks(spark):
    """About five lines a block, and several blocks a task."""
    return reading(spark, maxPartitionBytes=100, openCostInBytes=0)


@pytest.fixture
def files(tmp_path):
    """Lines of uneven length in several files: where they lie, and all lines in order."""
    lines = []
    for name, size in SIZES.items():
        written = [f"{name}{i}" + "." * (i * 7 % 30) for i in range(size)]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in written))
        lines += written
    return str(tmp_path), lines


def train(df):
    assert {row.part for row in df.select("part").distinct().collect()} == {"train", "test"}
    return df.where("part = 'train'")


def values(df):
    return sorted(row.value for row in df.select("value").collect())


def test_the_files_are_cut_and_packed_awkwardly(spark, files):
    path, lines = files
    with tiny_blocks(spark):
        read = spark.read.text(path).select(
            F.spark_partition_id().alias("task"),
            "_metadata.file_path",
            "_metadata.file_block_start",
        )
        blocks = read.distinct().groupBy("task").count().collect()
        first = spark.read.text(path).withColumn("id", F.monotonically_increasing_id())
        naive = first.orderBy("id").limit(30)
        assert len(blocks) > 5
        assert max(row["count"] for row in blocks) > 1
        assert values(naive) != sorted(lines[:30])


@pytest.mark.parametrize("rows", [20, 41, 59])
def test_first_rows_of_many_blocks(spark, files, rows):
    path, lines = files
    with tiny_blocks(spark):
        df = by_position(spark.read.text(path), rows)
        assert df.columns == ["value", "part"]
        assert values(train(df)) == sorted(lines[:rows])


@pytest.mark.parametrize(("share", "rows"), [(0.5, 30), (0.99, 59)])
def test_share_of_all_rows(spark, files, share, rows):
    path, lines = files
    assert values(train(by_position(spark.read.text(path), share))) == sorted(lines[:rows])


def test_position_after_derived_columns_filters_and_coalesce(spark, files):
    path, lines = files
    kept = [line for line in lines if "1" not in line]
    with tiny_blocks(spark):
        df = spark.read.text(path).where("value not like '%1%'").select("value", F.length("value"))
        assert values(train(by_position(df.coalesce(2), 30))) == sorted(kept[:30])
        assert values(train(by_position(df, 30)).coalesce(1)) == sorted(kept[:30])


def test_position_in_parquet(spark, files, tmp_path):
    _, lines = files
    target = str(tmp_path / "parquet")
    rows = [(i, line) for i, line in enumerate(lines)]
    spark.createDataFrame(rows, "i int, value string").coalesce(1).write.parquet(target)
    assert values(train(by_position(spark.read.parquet(target), 50))) == sorted(lines[:50])


def test_position_after_hashing(spark, tmp_path):
    line = "\t".join(["{}", *["1"] * 39])
    text = "".join(line.format(int(i < 30)) + "\n" for i in range(100))
    (tmp_path / "day").write_text(text)
    with tiny_blocks(spark):
        df = by_position(raw.criteo(spark, str(tmp_path), 64), 30)
        assert {(row.label, row.part) for row in df.collect()} == {(1.0, "train"), (0.0, "test")}


@pytest.mark.parametrize("rows", [0, 60, -1, 0.001, 1.0])
def test_position_leaves_rows_for_both(spark, files, rows):
    with pytest.raises(ConfigError, match=rf"train = {rows} of 60 rows; .* 1\.\.59 or a share"):
        by_position(spark.read.text(files[0]), rows)


def test_position_needs_files_in_their_order(spark, files):
    df = spark.read.text(files[0])
    with pytest.raises(ConfigError, match="without file positions"):
        by_position(spark.range(10), 5)
    with pytest.raises(ConfigError, match="shuffled since"):
        by_position(df.repartition(3), 5)
    with pytest.raises(DataError, match="found no rows"):
        by_position(df.where("value = 'x'"), 5)
    with pytest.raises(PySparkException, match="no_such_column"):
        by_position(df.select("no_such_column"), 5)


def test_position_refuses_blocks_other_than_counted(spark, files):
    with tiny_blocks(spark):
        df = by_position(spark.read.text(files[0]), 30)
    with (
        reading(spark, maxPartitionBytes=150, openCostInBytes=0),
        pytest.raises(DataError, match="other blocks than when they were counted"),
        translated(),
    ):
        df.toArrow()


@pytest.fixture
def people(spark):
    return spark.range(2000).selectExpr("id", "id % 300 as person", "string(id % 7) as town")


def test_key_shares_a_fate_whatever_the_partitions(people):
    df = by_key(people, 0.7, seed=1, key="person")
    fates = {tuple(row) for row in df.select("person", "part").distinct().collect()}
    assert len(fates) == 300
    assert 300 * 0.7 - 40 < sum(part == "train" for _, part in fates) < 300 * 0.7 + 40
    again = by_key(people.repartition(7, "town").orderBy(F.desc("id")), 0.7, 1, "person")
    assert_df_equality(again, df, ignore_row_order=True)


def test_smaller_fractions_nest_and_seeds_differ(people):
    def kept(fraction, seed):
        return {row.id for row in train(by_key(people, fraction, seed, "id")).collect()}

    assert kept(0.2, 5) < kept(0.6, 5)
    assert not kept(0.2, 5) <= kept(0.6, 6)
    assert 1200 - 110 < len(kept(0.6, 5)) < 1200 + 110  # 5 standard deviations


def test_duplicates_share_a_fate_without_a_key(spark):
    vectors = [Vectors.sparse(5, [i % 5], [i % 3 + 1.0]) for i in range(90)]
    df = spark.createDataFrame([(i % 2, v) for i, v in enumerate(vectors)], ["y", "v"])
    rows = [(row.y, str(row.v), row.part) for row in by_key(df, 0.5, 3).collect()]
    assert len(set(rows)) == 30
    assert len({part for *_, part in rows}) == 2


def test_labels_of_one_kind_of_row_share_a_fate(spark):
    df = spark.range(400).selectExpr("id % 2 as y", "(id div 2) % 60 as v", "'w' as w")
    parted = by_key(df, 0.5, 3, label="y").select("y", "v", "part").distinct().collect()
    assert len(parted) == 120
    assert len({(row.v, row.part) for row in parted}) == 60
    with pytest.raises(ConfigError, match="'z'"):
        by_key(df, 0.5, 3, label="z")


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1, 2])
def test_key_fractions_out_of_range(people, fraction):
    with pytest.raises(ConfigError, match=r"found fraction = .* in \(0, 1\)"):
        by_key(people, fraction, 1)


def test_unknown_names_and_a_taken_one(people):
    with pytest.raises(ConfigError, match=r"'persn'.*'person'"):
        by_key(people, 0.5, 1, key="persn")
    with pytest.raises(ConfigError, match=r"'idd'.*'id'"):
        by_time(people, "idd", datetime(2014, 1, 1))
    with pytest.raises(ConfigError, match="found a column 'part'"):
        by_key(people.withColumnRenamed("town", "part"), 0.5, 1)


TIMES = [datetime(2014, 10, 21, 5), datetime(2014, 10, 21, 6), datetime(2014, 10, 22)]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_time_puts_the_moment_itself_into_test(spark, kind):
    df = spark.createDataFrame([(t,) for t in TIMES], f"t {kind}")
    parts = [row.part for row in by_time(df, "t", TIMES[1]).collect()]
    assert parts == ["train", "test", "test"]


def test_dates_begin_at_midnight(spark):
    df = spark.createDataFrame([(date(2014, 10, d),) for d in (20, 21, 22)], "t date")
    parts = [row.part for row in by_time(df, "t", TIMES[0]).collect()]
    assert parts == ["train", "train", "test"]


def test_time_with_a_zone(spark):
    moment = datetime(2014, 10, 21, 6, tzinfo=UTC)
    df = spark.sql(
        "select timestamp'2014-10-21 05:59:59Z' t union all select timestamp'2014-10-21 06:00:00Z'"
    )
    assert [row.part for row in by_time(df, "t", moment).collect()] == ["train", "test"]
    with pytest.raises(ConfigError, match="expected a time without time zone"):
        by_time(df.select(F.col("t").cast("timestamp_ntz")), "t", moment)


def test_times_that_cannot_be_placed(spark):
    df = spark.createDataFrame([(TIMES[0],), (None,)], "t timestamp")
    with pytest.raises(DataError, match="found a null in time column 't'"), translated():
        by_time(df, "t", TIMES[1]).toArrow()
    with pytest.raises(ConfigError, match="found string in column 't'"):
        by_time(df.select(F.col("t").cast("string")), "t", TIMES[1])
