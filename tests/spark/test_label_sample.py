"""Samples of raw rows with labels on the driver, against the same draw from a table in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError, DataError, ResourceError
from spark_auc.features.raw_columns import Text
from spark_auc.features.row_groups import row_groups
from spark_auc.pipeline.label_sample import LabelSample, label_sample
from spark_auc.spark.data.arrow_files import layout_rows
from spark_auc.spark.data.resources import SessionMemory
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.layouts import Layout
from spark_auc.tables.raw_columns import RawColumns

ROWS, NAMES = 3000, ("age", "income", "city")
SAMPLE = KeySample(0.3, 5)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(8)
    half = ROWS // 2
    made = pa.table(
        {
            "age": pa.array(rng.integers(18, 80, half), mask=rng.random(half) < 0.1),
            "income": pa.array(rng.normal(size=half), mask=rng.random(half) < 0.2),
            "city": pa.array(rng.choice(["a", "b", "köln"], half), mask=rng.random(half) < 0.1),
            "user": pa.array(rng.integers(0, 200, half)),
        }
    )
    # Each row twice, so that groups of equal values have rows of both labels.
    made = pa.concat_tables([made, made]).combine_chunks()
    made = made.append_column("label", pa.array((rng.random(ROWS) < 0.4).astype(float)))
    return made.append_column("weight", pa.array(rng.uniform(0.5, 2.0, ROWS)))


@pytest.fixture(scope="module")
def sources(spark: SparkSession, table: pa.Table, tmp_path_factory) -> dict[str, DataFrame]:
    path = tmp_path_factory.mktemp("rows")
    shuffled = table.take(np.random.default_rng(1).permutation(ROWS))
    pq.write_table(shuffled, path / "rows.parquet", row_group_size=700)
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    pyarrow.csv.write_csv(table, path / "rows.csv", options)
    columns = tuple(table.column_names)
    layout = Layout(",", columns, ("age", "user"), ("income", "label", "weight"))
    frame = spark.createDataFrame(table)
    frame.createOrReplaceTempView("label_sample_rows")
    return {
        "one": frame.coalesce(1),
        "shuffled": spark.createDataFrame(shuffled).repartition(5),
        "parquet": spark.read.parquet(str(path / "rows.parquet")),
        "lines": layout_rows(spark, str(path / "rows.csv"), layout),
        "table": spark.table("label_sample_rows"),
    }


def drawn(df: DataFrame, **settings) -> LabelSample:
    raw = RawColumns.of(SparkTable(df), NAMES)
    settings = {"sample": SAMPLE, "weight": "weight"} | settings
    return label_sample(SparkTable(df), raw, ("label", None), **settings)


def plain(made: LabelSample) -> list[tuple]:
    """The rows as tuples of Python values."""
    values = []
    for column in made.columns.values():
        if isinstance(column, Text):
            bounds = zip(column.starts.tolist(), column.ends.tolist(), strict=True)
            some = [column.data[a:b].tobytes().decode() for a, b in bounds]
        else:
            some = column.values.tolist()
        there = column.validity
        # Lines have empty text for missing values.
        known = [there is None or bool(there[k]) for k in range(len(some))]
        values.append([v if ok and v != "" else None for ok, v in zip(known, some, strict=True)])
    return list(zip(*values, made.y.tolist(), made.weight.tolist(), strict=True))


def expected(table: pa.Table, groups: np.ndarray) -> list[tuple]:
    rows = table.filter(pa.array(SAMPLE.of(groups))).to_pylist()
    names = (*NAMES, "label", "weight")
    return [tuple(bool(r[n]) if n == "label" else r[n] for n in names) for r in rows]


def by_text(rows: list[tuple]) -> list[tuple]:
    return sorted(rows, key=str)


def test_all_sources_give_the_same_rows_in_the_same_order(table, sources):
    columns = {name: raw_column(name, table[name].combine_chunks()) for name in NAMES}
    groups = row_groups(columns)
    oracle = expected(table, groups)
    assert 0.2 * ROWS < len(oracle) < 0.4 * ROWS
    made = {name: drawn(df) for name, df in sources.items()}
    first = plain(made["one"])
    assert by_text(first) == by_text(oracle)
    assert (np.diff(made["one"].groups.astype(object)) >= 0).all()
    for sample in made.values():
        assert plain(sample) == first
        assert sample.rows == ROWS
        np.testing.assert_array_equal(sample.groups, made["one"].groups)
    # The other copy of a row is in the sample too, even with another label.
    assert (np.unique(made["one"].groups, return_counts=True)[1] >= 2).all()


@pytest.mark.parametrize("name", ["shuffled", "lines"])
def test_rows_of_a_key_share_a_fate(name, table, sources):
    made = drawn(sources[name], key="user")
    hashed = sources["one"].select(F.xxhash64("user").alias("key")).toArrow()["key"]
    groups = hashed.combine_chunks().to_numpy().view(np.uint64)
    assert by_text(plain(made)) == by_text(expected(table, groups))
    assert set(made.groups.tolist()) == set(groups[SAMPLE.of(groups)].tolist())


def test_a_limit_takes_a_part_of_the_sample(sources):
    whole, some = drawn(sources["one"]), drawn(sources["one"], most=300)
    assert some.sample == KeySample(0.1, 5)
    assert 200 < some.y.size < 400
    assert set(some.groups.tolist()) < set(whole.groups.tolist())


def test_refusals(spark, sources, monkeypatch):
    df = sources["shuffled"]
    with pytest.raises(ConfigError, match="found no column 'labels'"):
        label_sample(
            SparkTable(df), RawColumns.of(SparkTable(df), NAMES), ("labels", None), sample=SAMPLE
        )
    with pytest.raises(DataError, match="weights that are NaN, negative or out of range"):
        drawn(df.withColumn("weight", F.col("weight") - 1))
    with pytest.raises(DataError, match="found no row in a sample of some 0 of 3000 rows"):
        drawn(df, sample=KeySample(1e-9))
    monkeypatch.setattr(SessionMemory, "gather_limit", 2000)
    with pytest.raises(ResourceError, match="or raise spark"):
        drawn(df)


def test_rows_of_weight_0_are_left_out(table, sources):
    """The sample is that of the table without these rows, for groups do not depend on weights."""
    for name in ("shuffled", "parquet"):
        df = sources[name]
        zero = F.when(F.col("income") > 0, 0.0).otherwise(F.col("weight"))
        found = drawn(df.withColumn("weight", zero))
        rows = table.filter(pc.fill_null(pc.less_equal(table["income"], 0.0), True))
        groups = row_groups({name: raw_column(name, rows[name].combine_chunks()) for name in NAMES})
        assert by_text(plain(found)) == by_text(expected(rows, groups))
