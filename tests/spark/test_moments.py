"""Moments of a DataFrame: states of tasks, merged on the way to the driver."""

import itertools
from functools import partial
from types import SimpleNamespace
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StructField, StructType

from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import DataError, ResourceError
from spark_auc.spark.data import aggregate as aggregate_module
from spark_auc.spark.data import resources
from spark_auc.spark.data.spark_table import SparkTable
from tests.tables import feature_rows
from tests.tables.feature_rows import D, N, U, X, Y, assert_same


def vectors(spark):
    """Rows of dense and sparse vectors in turn."""
    schema = StructType(
        [
            StructField("features", VectorUDT()),
            StructField("label", DoubleType()),
            StructField("u", DoubleType()),
        ]
    )
    makers = [Vectors.dense, sparse_of]
    made = [(makers[i % 2](X[i]), float(Y[i]), float(U[i])) for i in range(N)]
    return spark.createDataFrame(made, schema)


def sparse_of(x):
    kept = np.flatnonzero(x)
    return Vectors.sparse(len(x), kept.tolist(), x[kept].tolist())


def moments(df, *arguments, **settings):
    return feature_rows.moments(SparkTable(df), *arguments, **settings)


def bits(state):
    return state.to_bytes()


def test_vector_columns(spark):
    found, labels = moments(vectors(spark))
    assert_same(found)
    assert labels.rows == {0.0: int((~Y).sum()), 1.0: int(Y.sum())}


@pytest.mark.parametrize(
    ("features", "dimension"),
    [("features", None), (["i", "v"], D), ([f"x.{j}" for j in range(D)], None)],
)
def test_other_forms_of_features(spark, features, dimension):
    found, _ = moments(spark.createDataFrame(feature_rows.arrays()), features, dimension)
    assert_same(found)


def test_same_files_give_the_same_bits(spark, tmp_path):
    vectors(spark).repartition(5).write.parquet(str(tmp_path / "rows"))
    found = {bits(moments(spark.read.parquet(str(tmp_path / "rows")))[0]) for _ in range(2)}
    assert len(found) == 1


def test_a_lost_executor_does_not_lower_the_number_of_slots(spark, monkeypatch):
    monkeypatch.setattr(resources, "_FRESH", -1.0)
    monkeypatch.setattr(resources, "_slots", WeakKeyDictionary())
    original, found = spark.range, []
    for slots in (5, 2, 7):
        ranged = partial(original, 0, step=1, numPartitions=slots)
        monkeypatch.setattr(spark, "range", lambda end, ranged=ranged: ranged(end=end))
        found.append(resources.task_slots(spark))
    assert found == [5, 5, 7]


@pytest.mark.parametrize(
    ("heap", "result", "limit"),
    [("2g", "100m", 100), ("2g", "1g", 512), ("2048", "0", 512), ("8g", str(2**30), 1024)],
)
def test_what_the_driver_can_gather(heap, result, limit):
    conf = {"spark.driver.memory": heap, "spark.driver.maxResultSize": result}
    memory = resources.SessionMemory(SimpleNamespace(conf=conf))
    assert memory.gather_limit == limit * 2**20
    memory.check_gathered(limit * 2**20, "sums")
    message = (
        f"found sums that take {limit + 1} MiB to gather, expected at most {limit} MiB with "
        f"spark.driver.memory={heap} .* set spark.driver.memory to {4 * (limit + 1)}m"
    )
    with pytest.raises(ResourceError, match=message):
        memory.check_gathered(limit * 2**20 + 1, "sums")


def test_one_state_per_slot_when_it_is_large(spark, monkeypatch):
    monkeypatch.setattr(aggregate_module, "LARGE_STATE", 0)
    seen = []
    original = aggregate_module._merged_by_key

    def watched(table, kinds):
        seen.append(set(table["source"].to_pylist()))
        return original(table, kinds)

    monkeypatch.setattr(aggregate_module, "_merged_by_key", watched)
    assert_same(moments(vectors(spark).repartition(12))[0])
    assert seen == [{0, 1, 2}]


def test_large_states_reach_the_driver_in_small_results(spark, monkeypatch):
    monkeypatch.setattr(aggregate_module, "LARGE_STATE", 0)
    limit = 3 * PairMoments.nbytes(D)
    monkeypatch.setattr(resources.SessionMemory, "gather_limit", limit)
    df, seen = vectors(spark), []
    original = type(df).repartition

    def watched(df, *arguments):
        seen.append(arguments)
        return original(df, *arguments)

    monkeypatch.setattr(type(df), "repartition", watched)
    expected = {bits(moments(df)[0])}
    assert seen == [(8, "key", "source")]
    monkeypatch.setattr(resources.SessionMemory, "gather_limit", 10**9)
    assert {bits(moments(df)[0])} == expected
    assert len(seen) == 1


def test_order_of_arrival_changes_no_bit():
    tiles = [PairMoments.of(X[p], Y[p]).positive.tiles[0] for p in np.split(np.arange(N), 6)]
    rows = [aggregate_module._state_row("+/0/0", k, 1, t.to_bytes()) for k, t in enumerate(tiles)]
    present = [aggregate_module._row("", k, 1, 1) for k in range(6)]
    planned = aggregate_module._row("\0", 6, 6, 0)
    kinds = {"MomentsTile": type(tiles[0])}
    found = set()
    for order in itertools.islice(itertools.permutations(range(6)), 0, 720, 37):
        table = pa.Table.from_batches([planned, *(r for k in order for r in (rows[k], present[k]))])
        found.add(bits(aggregate_module._merged_by_key(table, kinds)[0]["+/0/0"]))
        merged = aggregate_module._merging(kinds)(
            table.filter(pa.compute.equal(table["key"], "+/0/0"))
        )
        found.add(bits(aggregate_module._merged(aggregate_module._sorted_rows(merged), kinds)))
    assert len(found) == 1


def test_lost_rows_are_noticed():
    tile = PairMoments.of(X, Y).positive.tiles[0]
    kinds = {"MomentsTile": type(tile)}
    # Three partitions, of which the second has no rows; each followed by its control row.
    rows = [
        *(aggregate_module._state_row(key, 0, 1, tile.to_bytes()) for key in "ab"),
        aggregate_module._row("", 0, 1, 2),
        aggregate_module._row("", 1, 1, 0),
        *(aggregate_module._state_row(key, 2, 1, tile.to_bytes()) for key in "ab"),
        aggregate_module._row("", 2, 1, 2),
        aggregate_module._row("\0", 3, 3, 0),
    ]
    states, partitions = aggregate_module._merged_by_key(pa.Table.from_batches(rows), kinds)
    assert (set(states), partitions) == ({"a", "b"}, 3)
    whole = range(len(rows))
    subsets = (kept for size in whole for kept in itertools.combinations(whole, size))
    for kept in subsets:
        table = pa.Table.from_batches([rows[k] for k in kept], rows[0].schema)
        with pytest.raises(aggregate_module.SparkAUCError, match="expected all; raise"):
            aggregate_module._merged_by_key(table, kinds)


@pytest.mark.parametrize("fan_in", [2, 32])
def test_all_partitions_are_counted(spark, monkeypatch, fan_in):
    monkeypatch.setattr(aggregate_module, "_FAN_IN", fan_in)
    if fan_in == 2:
        monkeypatch.setattr(resources.SessionMemory, "check_gathered", lambda *_: None)
        monkeypatch.setattr(resources.SessionMemory, "gather_limit", 1)
    seen, original = [], aggregate_module._merged_by_key

    def watched(table, kinds):
        seen.append({row.key: row.merged for row in aggregate_module._sorted_rows(table)}.get("\0"))
        return original(table, kinds)

    monkeypatch.setattr(aggregate_module, "_merged_by_key", watched)
    df = vectors(spark)
    limit = aggregate_module.SOURCES_PER_SLOT * 2
    for partitions in (1, limit - 1, limit):
        assert_same(moments(df.repartition(partitions))[0])
    # Most of them are empty.
    assert_same(moments(df.repartition(40, "label"))[0])
    assert seen == [1, limit - 1, limit, limit]


@pytest.mark.parametrize("empty", ["no partitions", "filtered", "shuffled"])
def test_no_rows_are_named_so(spark, empty):
    df = vectors(spark)
    made = {
        "no partitions": lambda: spark.createDataFrame([], df.schema),
        "filtered": lambda: df.filter("label > 5"),
        "shuffled": lambda: df.filter("label > 5").repartition(3),
    }[empty]()
    with pytest.raises(DataError, match="found no rows"):
        moments(made)


def test_values_that_fail_tasks(spark):
    spoilt = vectors(spark).withColumn("u", F.when(F.col("u") != U[7], F.col("u")).otherwise(-1.0))
    with pytest.raises(DataError, match=r"the first is -1\.0"):
        moments(spoilt)


def test_too_large_a_dimension_is_refused_before_the_job(spark):
    df = spark.createDataFrame(feature_rows.arrays())
    with pytest.raises(ResourceError, match=r"spark\.driver\.memory to \d+m"):
        moments(df, ["i", "v"], 20_000)
    with pytest.raises(ResourceError, match="MiB"):
        moments(df, ["i", "v"], 2_000_000)
