"""Random Parquet files: what tasks read themselves is what Spark reads, to the bit."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_auc.spark.data.arrow_files import scan_of
from tests.fuzz.inputs import inputs

pytestmark = pytest.mark.fuzz

KINDS = [
    *[pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()],
    *[pa.string(), pa.large_string(), pa.uint16(), pa.decimal128(9, 2), pa.decimal128(30, 3)],
    *[pa.list_(pa.float64()), pa.list_(pa.float32()), pa.large_list(pa.int32())],
    *[pa.list_(pa.float64(), 3), pa.dictionary(pa.int32(), pa.string())],
    pa.struct({"x": pa.int32(), "y": pa.list_(pa.float64())}),
]


def values(kind, count, rng, nulls):
    missing = rng.random(count) < nulls
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        sizes = (
            np.full(count, 3) if pa.types.is_fixed_size_list(kind) else rng.integers(0, 4, count)
        )
        inner = values(kind.value_type, int(sizes.sum()), rng, nulls).to_pylist()
        ends = np.cumsum(sizes)
        made = [inner[b - a : b] for a, b in zip(sizes, ends, strict=True)]
    elif pa.types.is_struct(kind):
        fields = {f.name: values(f.type, count, rng, nulls).to_pylist() for f in kind}
        made = [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]
    elif pa.types.is_floating(kind):
        wild = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1e-40, 1.7e308])
        drawn = np.where(rng.random(count) < 0.2, rng.choice(wild, count), rng.normal(size=count))
        with np.errstate(over="ignore"):
            made = drawn.astype(kind.to_pandas_dtype()).tolist()
    elif pa.types.is_boolean(kind):
        made = (rng.random(count) < 0.5).tolist()
    elif pa.types.is_integer(kind):
        bounds = np.iinfo(kind.to_pandas_dtype())
        made = rng.integers(bounds.min, bounds.max, count, kind.to_pandas_dtype()).tolist()
    elif pa.types.is_decimal(kind):
        made = pa.array(rng.integers(-(10**6), 10**6, count)).cast(pa.decimal128(38, 3))
        return pa.array(made.to_pylist(), mask=missing).cast(kind, safe=False)
    else:
        made = rng.choice(["", "a", "\u00fc\0", "abc" * 9], count).tolist()
        plain = pa.array([None if m else v for v, m in zip(made, missing, strict=True)])
        return plain.cast(pa.string()).cast(kind)
    made = [None if gone else value for value, gone in zip(made, missing, strict=True)]
    return pa.array(made, kind)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    return (root / str(k) for k in itertools.count())


def shown(table, order):
    """The rows as text, in which every bit of a number shows."""
    columns = [column.to_pylist() for column in table.columns]
    rows = sorted(zip(*columns, strict=True), key=lambda row: row[order])
    return repr(rows)


@inputs(400)
@given(
    seed=st.integers(0, 2**32),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    files=st.integers(1, 4),
    change=st.sampled_from([None, None, "type", "drop", "case", "order", "empty"]),
    nulls=st.sampled_from([0.0, 0.3]),
    compression=st.sampled_from(["snappy", "none", "zstd", "gzip"]),
    dictionary=st.booleans(),
    version=st.sampled_from(["1.0", "2.0"]),
    group=st.integers(1, 40),
    compliant=st.booleans(),
    stored=st.booleans(),
)
def test_tasks_read_what_spark_reads(
    spark, places, seed, kinds, files, change, nulls, compression, dictionary, version, group,
    compliant, stored
):  # fmt: skip
    rng, where = np.random.default_rng(seed), next(places)
    where.mkdir()
    names = ["id", *(f"c{k}" for k in range(len(kinds)))]
    start = 0
    for k in range(files):
        count = 0 if k and change == "empty" else int(rng.integers(1, 60))
        types, here = list(kinds), list(names)
        if k and change == "type":
            types[rng.integers(len(types))] = KINDS[rng.integers(len(KINDS))]
        columns = [pa.array(range(start, start + count), pa.int64())]
        columns += [values(kind, count, rng, nulls) for kind in types]
        if k and change == "case":
            here[-1] = here[-1].upper()
        table = pa.table(columns, here)
        if k and change == "drop":
            table = table.drop_columns(here[-1:])
        if k and change == "order":
            table = table.select(here[::-1])
        pq.write_table(
            table,
            where / f"{k}.parquet",
            row_group_size=group,
            compression=compression,
            use_dictionary=dictionary,
            data_page_version=version,
            data_page_size=64,
            use_compliant_nested_type=compliant,
            store_schema=stored,
            write_page_checksum=True,
        )
        start += count
    df = spark.read.parquet(str(where))
    selected = df.select(*names)
    scan = scan_of(df, names)
    plain = change in (None, "order", "empty")
    others = [pa.types.is_decimal, pa.types.is_unsigned_integer]
    if nulls:
        # Arrow does not read them where they are missing.
        others.append(pa.types.is_fixed_size_list)
    if plain and not any(test(kind) for kind in kinds for test in others):
        assert scan is not None
    if scan is not None:
        numbers = pa.RecordBatch.from_pydict({"id": range(len(scan.parts))})
        found = pa.Table.from_batches(list(scan.read(iter([numbers]))))
        assert shown(found.drop(["place"]), 0) == shown(selected.toArrow(), 0)
