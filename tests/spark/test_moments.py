"""Moments of a DataFrame against those of the same rows in memory."""

import itertools
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StructField, StructType

from spark_auc.core.moments.operator import labelled_pair_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError, DataError, ResourceError
from spark_auc.spark.data import aggregate as aggregate_module
from spark_auc.spark.data import resources
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.features import PreparedFeatures
from spark_auc.tables.rows import TableRows

N, D = 300, 6
RNG = np.random.default_rng(5)
X = np.round(RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.7), 3)
X[:, 0] += 5
Y = RNG.random(N) < 0.3
U = RNG.uniform(0.5, 2, N)


def vectors(spark, rows=None, kind="mixed"):
    make = {"dense": [Vectors.dense], "sparse": [sparse_of], "mixed": [Vectors.dense, sparse_of]}
    makers = itertools.cycle(make[kind])
    schema = StructType(
        [
            StructField("features", VectorUDT()),
            StructField("label", DoubleType()),
            StructField("u", DoubleType()),
        ]
    )
    chosen = range(N) if rows is None else rows
    return spark.createDataFrame(
        [(next(makers)(X[i]), float(Y[i]), float(U[i])) for i in chosen], schema
    )


def sparse_of(x):
    kept = np.flatnonzero(x)
    return Vectors.sparse(len(x), kept.tolist(), x[kept].tolist())


def arrays(spark):
    kept = [np.flatnonzero(x) for x in X]
    return spark.createDataFrame(
        pa.table(
            {
                "features": list(X),
                "i": [pa.scalar(k.astype(np.int32)).as_py() for k in kept],
                "v": [X[r, k] for r, k in enumerate(kept)],
                "label": Y.astype(int),
                "u": U,
                **{f"x.{j}": X[:, j] for j in range(D)},
            }
        )
    )


def moments(df, features="features", dimension=None, weight="u", positive=None, label="label"):
    table = SparkTable(df)
    resolved = PreparedFeatures.resolve(table, features, dimension)
    rows = TableRows.of(table, TrainingColumns.resolve(table, resolved, label, positive, weight))
    return labelled_pair_moments(rows)


def bits(state):
    return state.to_bytes()


def assert_same(found, expected=None):
    expected = expected or PairMoments.of(X, Y, U)
    a, b = found.quadratic(), expected.quadratic()
    size = np.sqrt(np.outer(b.Sigma.diagonal(), b.Sigma.diagonal()))
    assert (np.abs(a.Sigma.toarray() - b.Sigma.toarray()) <= 1e-12 * size).all()
    np.testing.assert_allclose(a.mu, b.mu, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", ["dense", "sparse", "mixed"])
def test_vector_columns(spark, kind):
    found, labels = moments(vectors(spark, kind=kind))
    assert_same(found)
    assert labels.rows == {0.0: int((~Y).sum()), 1.0: int(Y.sum())}


@pytest.mark.parametrize(
    ("features", "dimension"),
    [("features", None), (["i", "v"], D), ([f"x.{j}" for j in range(D)], None)],
)
def test_other_forms_of_features(spark, features, dimension):
    found, _ = moments(arrays(spark), features, dimension)
    assert_same(found)


def test_any_partitioning_gives_the_same_moments(spark):
    df = vectors(spark).cache()
    for change in (
        df.repartition(7),
        df.repartition(60),
        df.coalesce(1),
        df.sort("label"),
        df.repartitionByRange(5, "label"),
    ):
        assert_same(moments(change)[0])


def test_empty_partitions(spark):
    assert_same(moments(vectors(spark).repartition(200))[0])


def test_same_files_give_the_same_bits(spark, tmp_path):
    vectors(spark).repartition(5).write.parquet(str(tmp_path / "rows"))
    found = {bits(moments(spark.read.parquet(str(tmp_path / "rows")))[0]) for _ in range(3)}
    assert len(found) == 1


def test_tree_of_merges(spark, monkeypatch):
    monkeypatch.setattr(aggregate_module, "_FAN_IN", 3)
    monkeypatch.setattr(resources.Gathering, "check", lambda *_: None)
    monkeypatch.setattr(resources.Gathering, "of", lambda _: resources.Gathering(1, "1g", "1g"))
    monkeypatch.setattr(aggregate_module, "SOURCES_PER_SLOT", 8)
    df = vectors(spark).repartition(16)
    assert_same(moments(df)[0])


def test_a_lost_executor_does_not_lower_the_number_of_slots(spark, monkeypatch):
    monkeypatch.setattr(resources, "_FRESH", -1.0)
    monkeypatch.setattr(resources, "_slots", WeakKeyDictionary())
    original, found = spark.range, []
    for slots in (5, 2, 7):
        ranged = partial(original, 0, step=1, numPartitions=slots)
        monkeypatch.setattr(spark, "range", lambda end, ranged=ranged: ranged(end=end))
        found.append(resources.task_slots(spark))
    assert found == [5, 5, 7]


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
    monkeypatch.setattr(resources.Gathering, "of", lambda _: resources.Gathering(limit, "1g", "1g"))
    df, seen = vectors(spark), []
    original = type(df).repartition

    def watched(df, *arguments):
        seen.append(arguments)
        return original(df, *arguments)

    monkeypatch.setattr(type(df), "repartition", watched)
    expected = {bits(moments(df)[0])}
    assert seen == [(8, "key", "source")]
    monkeypatch.setattr(resources.Gathering, "of", lambda _: resources.Gathering(10**9, "8g", "8g"))
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
        small = resources.Gathering(1, "1g", "1g")
        monkeypatch.setattr(resources.Gathering, "check", lambda *_: None)
        monkeypatch.setattr(resources.Gathering, "of", lambda _: small)
    seen, original = [], aggregate_module._merged_by_key

    def watched(table, kinds):
        seen.append({row.key: row.merged for row in aggregate_module._sorted_rows(table)}.get("\0"))
        return original(table, kinds)

    monkeypatch.setattr(aggregate_module, "_merged_by_key", watched)
    df = vectors(spark)
    limit = aggregate_module.SOURCES_PER_SLOT * 2
    for partitions in (1, limit - 1, limit, 200):
        assert_same(moments(df.repartition(partitions))[0])
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


def bad(column, value):
    return lambda df: df.withColumn(
        column, F.when(F.col("u") == U[7], F.lit(value)).otherwise(F.col(column))
    )


def replaced(vector):
    def change(df):
        row = df.sparkSession.createDataFrame([(vector, 1.0, 1.0)], df.schema)
        return df.union(row)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (bad("label", None), "1 nulls in label column"),
        (bad("label", 2.0), "found 3 label values"),
        (bad("u", 1e-200), "1 weights that are not finite and positive"),
        (bad("u", -1.0), r"the first is -1\.0"),
        (bad("u", float("nan")), "the first is nan"),
        (lambda df: df.filter("label = 0"), "found one class only: 0.0"),
        (lambda df: df.filter("label > 5"), "found no rows"),
        (lambda df: df.withColumn("label", F.col("label") + 1), "expected 0 and 1 or -1 and 1"),
        (replaced(Vectors.dense([1.0, np.nan] + [0.0] * 4)), "1 features that are NaN or infinite"),
        (replaced(Vectors.sparse(D, [1], [np.inf])), "the first is inf"),
        (replaced(Vectors.dense([1.0] * 5)), r"the first has 5 features\), expected 6"),
        (replaced(Vectors.sparse(7, [1], [1.0])), r"the first has 7 features\), expected 6"),
        (replaced(None), "1 nulls in column 'features'"),
    ],
)
def test_bad_values(spark, change, message):
    with pytest.raises(DataError, match=message):
        moments(change(vectors(spark)))


@pytest.mark.parametrize(
    ("indices", "values", "message"),
    [
        ([0, 6], [1.0, 1.0], "feature index 6, expected 0 to 5"),
        ([-1, 2], [1.0, 1.0], "feature index -1"),
        ([3, 2], [1.0, 1.0], "index 2 after 3 in one row"),
        ([2, 2], [1.0, 1.0], "index 2 after 2 in one row"),
        ([1, 2], [1.0], "2 indices with 1 values"),
        ([1, None], [1.0, 1.0], "1 nulls in elements of column 'i'"),
        (None, [1.0], "1 nulls in column 'i'"),
    ],
)
def test_bad_indices(spark, indices, values, message):
    df = spark.createDataFrame(
        [([0, 1], [1.0, 2.0], 0.0), (indices, values, 1.0)],
        "i array<int>, v array<double>, label double",
    )
    with pytest.raises(DataError, match=message):
        moments(df, ["i", "v"], D, weight=None)


@pytest.mark.parametrize(
    ("value", "message"),
    [(None, "1 nulls in column 'high'"), (float("nan"), r"the first is nan of column 'high'\)")],
)
def test_bad_values_of_numeric_columns_name_them(spark, value, message):
    rows = [(1.0, 2.0, 0.0), (1.0, value, 1.0)]
    df = spark.createDataFrame(rows, "low double, high double, label double")
    with pytest.raises(DataError, match=message):
        moments(df, ["low", "high"], weight=None)


def test_labels_of_any_kind(spark):
    df = vectors(spark)
    expected = moments(df)[0]
    text = df.withColumn("label", F.when(F.col("label") == 1, "yes").otherwise("no"))
    assert bits(moments(text, positive="yes")[0]) == bits(expected)
    with pytest.raises(ConfigError, match="set positiveLabel"):
        moments(text)
    with pytest.raises(DataError, match="expected one to be positiveLabel 'maybe'"):
        moments(text, positive="maybe")
    signs = df.withColumn("label", F.col("label") * 2 - 1)
    assert bits(moments(signs)[0]) == bits(expected)
    other = df.withColumn("label", F.lit(2) - F.col("label"))
    assert bits(moments(other, positive=1)[0]) == bits(expected)
    assert bits(moments(df.withColumn("label", F.col("label") == 1))[0]) == bits(expected)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("feature", "did you mean 'features'"),
        (["features", "label"], "expected one vector column"),
        (["i", "v"], "set numFeatures"),
    ],
)
def test_unusable_feature_columns(spark, features, message):
    df = vectors(spark) if "i" not in features else arrays(spark)
    with pytest.raises(ConfigError, match=message):
        PreparedFeatures.resolve(SparkTable(df), features)


def test_too_large_a_dimension_is_refused_before_the_job(spark):
    df = arrays(spark)
    with pytest.raises(ResourceError, match=r"spark\.driver\.memory to \d+m"):
        moments(df, ["i", "v"], 20_000)
    with pytest.raises(ResourceError, match="MiB"):
        moments(df, ["i", "v"], 2_000_000)
