"""Parquet files of which tasks and Spark might read other rows: equal bits, or Spark reads them."""

import base64
import datetime
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption

from spark_auc.errors import DataError
from spark_auc.spark.data.arrow_files import scan_of

N = 50


def table(start=0, n=N, **others):
    rng = np.random.default_rng(start)
    id = np.arange(start, start + n)
    return pa.table({"id": id, "a": rng.normal(size=n)} | {k: v(rng) for k, v in others.items()})


def read_directly(df, names):
    """What tasks read, sorted by id and without the row group's number; None where Spark does."""
    scan = scan_of(df, names)
    if scan is None:
        return None
    numbers = pa.RecordBatch.from_pydict({"id": range(len(scan.parts))})
    found = pa.Table.from_batches(list(scan.read(iter([numbers]))))
    return found.drop(["place"]).sort_by(names[0])


def assert_same_rows(found, expected):
    """Equal bits, where NaN is NaN."""
    assert found.schema.types == expected.schema.types
    for ours, theirs in zip(found.columns, expected.columns, strict=True):
        # Tells -0.0 from 0.0, and each number from its neighbours.
        assert repr(ours.to_pylist()) == repr(theirs.to_pylist())


def check(df, names, direct, selected=None):
    found = read_directly(df, names)
    assert (found is not None) is direct
    if direct:
        expected = (df.select(*names) if selected is None else selected).toArrow()
        assert_same_rows(found, expected.sort_by(names[0]))


def some(kind):
    """Values of a type, some of which are missing."""
    return lambda rng: pa.array(rng.integers(0, 100, N), mask=rng.random(N) < 0.2).cast(kind)


ALIKE = {
    "nulls": {"b": some(pa.float64()), "c": some(pa.int64()), "d": some(pa.string())},
    "small": {"b": some(pa.int8()), "c": some(pa.int16()), "d": some(pa.bool_())},
    "floats": {"b": some(pa.float32()), "c": lambda _: pa.array([np.nan, -0.0] * (N // 2))},
    "lists": {"b": lambda _: pa.array([[1.5, None], None, [], [2.0, 3.0], [0.0]] * (N // 5))},
    "categories": {"b": lambda _: pa.array(["x", "y"] * (N // 2)).dictionary_encode()},
    "large": {"b": lambda _: pa.array([["x"], ["y"]] * (N // 2), pa.large_list(pa.large_string()))},
    "dots": {"b.c": some(pa.int32()), "b": some(pa.int64())},
    "spaces": {"b, `c` (%20)": some(pa.int32())},
}


@pytest.mark.parametrize("case", ALIKE)
def test_the_same_bits(spark, tmp_path, case):
    for k in range(3):
        at = tmp_path / f"{k}.parquet"
        pq.write_table(table(N * k, **ALIKE[case]), at, row_group_size=20, data_page_size=100)
    df = spark.read.parquet(str(tmp_path))
    names = df.columns
    check(df, names, True, df.select(*[f"`{n.replace('`', '``')}`" for n in names]))


@pytest.mark.parametrize("kind", ["long", "int", "short", "byte", "boolean", "float"])
def test_the_same_extremes(spark, tmp_path, kind):
    extremes = [2**62 + 1, -(2**62) - 513, 16777217, -1, 0] * (N // 5)
    arrow = {"long": "int64", "int": "int32", "short": "int16", "byte": "int8", "boolean": "bool"}
    given = pa.array(extremes).cast(arrow.get(kind, kind), safe=False)
    pq.write_table(table(b=lambda _: given), tmp_path / "x.parquet")
    df = spark.read.parquet(str(tmp_path))
    assert dict(df.dtypes)["b"] == {"long": "bigint", "short": "smallint", "byte": "tinyint"}.get(
        kind, kind
    )
    check(df, ["id", "b"], True)


OTHER = {
    "int64 among int32": ({"b": some(pa.int32())}, {"b": some(pa.int64())}, "int64"),
    "int32 among int64": ({"b": some(pa.int64())}, {"b": some(pa.int32())}, "int32"),
    "double among float": ({"b": some(pa.float32())}, {"b": some(pa.float64())}, "double"),
    "missing column": ({"b": some(pa.int32())}, {}, "no column"),
    "column in capitals": ({"b": some(pa.int32())}, {"B": some(pa.int32())}, "no column"),
    "lists in capitals": (
        {"b": lambda _: pa.array([[1.0]] * N)},
        {"B": lambda _: pa.array([[1.0]] * N)},
        "no column",
    ),
    "decimals": ({"b": some(pa.decimal128(30, 3))},) * 2 + ("decimal128",),
    "unsigned": ({"b": some(pa.uint32())},) * 2 + ("uint32",),
    "durations": ({"b": some(pa.duration("ns"))},) * 2 + ("duration",),
    "dates": ({"b": lambda _: [datetime.date(1500, 1, 1)] * N},) * 2 + ("date32",),
    "bytes": ({"b": lambda _: [b"x"] * N},) * 2 + ("binary",),
    "nested otherwise": (
        {"b": lambda _: pa.array([{"x": 1, "y": 2}] * N)},
        {"b": lambda _: pa.array([{"y": 1, "x": 2}] * N)},
        "struct",
    ),
}


@pytest.mark.parametrize("case", OTHER)
def test_files_of_other_types_are_left_to_spark(spark, tmp_path, caplog, case):
    first, second, why = OTHER[case]
    pq.write_table(table(0, **first), tmp_path / "0.parquet")
    pq.write_table(table(N, **second), tmp_path / "1.parquet")
    df = spark.read.parquet(str(tmp_path))
    with caplog.at_level(logging.INFO, "spark_auc"):
        check(df, ["id", "b"], False)
    assert "reader: Spark, because /" in caplog.text
    assert why in caplog.text


def test_a_column_of_other_types_that_is_not_read_does_no_harm(spark, tmp_path):
    pq.write_table(table(0, b=some(pa.int32())), tmp_path / "0.parquet")
    pq.write_table(table(N, b=some(pa.decimal128(30, 1))), tmp_path / "1.parquet")
    check(spark.read.parquet(str(tmp_path)), ["id", "a"], True)


def test_lists_of_an_older_form_are_left_to_spark(spark, tmp_path, caplog):
    with_lists = spark.sql("select id, array(cast(id as double)) a from range(9)")
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    try:
        with_lists.coalesce(1).write.parquet(str(tmp_path / "x"))
    finally:
        spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
    df = spark.read.parquet(str(tmp_path / "x"))
    with caplog.at_level(logging.INFO, "spark_auc"):
        check(df, ["id", "a"], False)
    assert "old format" in caplog.text


def with_ids(name, number):
    return pa.field(name, pa.float64(), metadata={b"PARQUET:field_id": str(number).encode()})


@pytest.mark.parametrize(
    ("setting", "direct"),
    [
        ("spark.sql.parquet.fieldId.read.enabled", False),
        ("spark.sql.files.ignoreCorruptFiles", False),
        ("spark.sql.files.ignoreMissingFiles", False),
        ("spark.sql.parquet.mergeSchema", True),
        ("spark.sql.caseSensitive", True),
        ("spark.sql.parquet.binaryAsString", True),
        ("spark.sql.parquet.enableVectorizedReader", True),
    ],
)
def test_settings(spark, tmp_path, caplog, setting, direct):
    schema = pa.schema([pa.field("id", pa.int64()), with_ids("a", 1), with_ids("b", 2)])
    other = pa.schema([pa.field("id", pa.int64()), with_ids("b", 1), with_ids("a", 2)])
    values = table(b=some(pa.float64()))
    pq.write_table(values.cast(schema), tmp_path / "0.parquet")
    pq.write_table(values.select(["id", "b", "a"]).cast(other), tmp_path / "1.parquet")
    before = spark.conf.get(setting)
    spark.conf.set(setting, "false" if before == "true" else "true")
    try:
        with caplog.at_level(logging.INFO, "spark_auc"):
            check(spark.read.parquet(str(tmp_path)), ["id", "a", "b"], direct)
    finally:
        spark.conf.set(setting, before)
    assert direct or f"{setting} is set" in caplog.text


@pytest.mark.parametrize(
    "option",
    [
        {"ignoreCorruptFiles": True},
        {"ignoreMissingFiles": True},
        {"mergeSchema": True},
        {"pathGlobFilter": "0*"},
        {"recursiveFileLookup": True},
        {"modifiedBefore": "2300-01-01T00:00:00"},
        {"datetimeRebaseMode": "LEGACY"},
    ],
)
def test_options_of_the_reader(spark, tmp_path, option):
    pq.write_table(table(), tmp_path / "0.parquet")
    check(spark.read.options(**option).parquet(str(tmp_path)), ["id", "a"], False)


def test_more_than_the_files(spark, tmp_path):
    (tmp_path / "label=1").mkdir()
    pq.write_table(table(), tmp_path / "label=1" / "0.parquet")
    whole = spark.read.parquet(str(tmp_path))
    check(whole, ["id", "label"], False)
    check(whole.select("id", "a"), ["id", "a"], False)
    one = spark.read.parquet(str(tmp_path / "label=1"))
    check(one, ["id", "a"], True)
    base = spark.read.option("basePath", str(tmp_path)).parquet(str(tmp_path / "label=1"))
    check(base, ["id", "label"], False)
    check(one.select("id", "_metadata.file_size"), ["id", "file_size"], False)
    check(spark.read.schema("id int, a double").parquet(str(tmp_path / "label=1")), ["id"], False)


@pytest.mark.parametrize(
    "name",
    ["a b", "50%", "%41", "%20%25", "\u00fc#?&=+;", "a[1]{b,c}*", "back\\slash", "a,b"],
)
def test_odd_paths(spark, tmp_path, name):
    """Whoever reads them, they are the same rows."""
    (tmp_path / name).mkdir()
    pq.write_table(table(), tmp_path / name / f"{name}.parquet")
    # What would be read where the name is decoded once too often.
    if name == "%41":
        (tmp_path / "A").mkdir()
        pq.write_table(table(N), tmp_path / "A" / "A.parquet")
    path = str(tmp_path / name)
    for special in "\\*[]{}?":
        path = path.replace(special, f"\\{special}")
    df = spark.read.parquet(path)
    check(df, ["id", "a"], not any(c in name for c in "\\*[]{}?"))


def test_hidden_files_links_and_empty_ones(spark, tmp_path):
    inside = tmp_path / "rows"
    inside.mkdir()
    pq.write_table(table(), inside / "0.parquet")
    pq.write_table(table(N), tmp_path / "elsewhere")
    (inside / "1.parquet").symlink_to(tmp_path / "elsewhere")
    pq.write_table(table(2 * N), inside / "_hidden.parquet")
    pq.write_table(table(3 * N), inside / ".hidden.parquet")
    pq.write_table(table(4 * N, 0), inside / "no_rows.parquet")
    pq.ParquetWriter(inside / "no_groups.parquet", table().schema).close()
    df = spark.read.parquet(str(inside))
    check(df, ["id", "a"], True)
    assert df.count() == 2 * N
    (tmp_path / "link").symlink_to(inside)
    check(spark.read.parquet(str(tmp_path / "link")), ["id", "a"], True)
    # A file of no bytes counts for nothing with Spark.
    (inside / "nothing.parquet").touch()
    check(spark.read.parquet(str(inside)), ["id", "a"], False)


def test_no_rows_at_all(spark, tmp_path, caplog):
    pq.write_table(table(0, 0), tmp_path / "0.parquet")
    with caplog.at_level(logging.INFO, "spark_auc"):
        check(spark.read.parquet(str(tmp_path)), ["id", "a"], False)
    assert "the files have no rows" in caplog.text


class _Keys(encryption.KmsClient):
    def wrap_key(self, key_bytes, master_key_identifier):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("plain_footer", [True, False])
def test_encrypted_files_are_left_to_spark(spark, tmp_path, caplog, plain_footer):
    pq.write_table(table(), tmp_path / "0.parquet")
    # Connect reads the footers anew for each action, if the schema is not given.
    schema = spark.read.parquet(str(tmp_path)).schema
    df = spark.read.schema(schema).parquet(str(tmp_path))
    settings = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["a"]}, plaintext_footer=plain_footer
    )
    factory = encryption.CryptoFactory(lambda _: _Keys())
    made = factory.file_encryption_properties(encryption.KmsConnectionConfig(), settings)
    pq.write_table(table(N), tmp_path / "0.parquet", encryption_properties=made)
    with caplog.at_level(logging.INFO, "spark_auc"):
        check(df, ["id", "a"], False)
    assert "encrypted" in caplog.text


def test_a_broken_file_is_left_to_spark(spark, tmp_path, caplog):
    for k in range(2):
        pq.write_table(table(N * k), tmp_path / f"{k}.parquet")
    whole = (tmp_path / "1.parquet").read_bytes()
    df = spark.read.parquet(str(tmp_path))
    for broken in (whole[:-9], whole[:3], b"", whole[:-8] + b"\xff" * 4 + b"PAR1"):
        (tmp_path / "1.parquet").write_bytes(broken)
        with caplog.at_level(logging.INFO, "spark_auc"):
            check(df, ["id", "a"], False)
        assert "1.parquet is unreadable" in caplog.text
        caplog.clear()


def overwritten(path, content):
    """In place, and dated back."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_files_changed_between_plan_and_task(spark, tmp_path):
    path = tmp_path / "x.parquet"
    first = table()
    pq.write_table(first, path, compression="none", use_dictionary=False)
    df = spark.read.parquet(str(path))
    read = scan_of(df, ["id", "a"]).read
    numbers = [pa.RecordBatch.from_pydict({"id": [0]})]
    assert next(read(iter(numbers))).num_rows == N
    whole = path.read_bytes()
    # As many rows, of the same size, and values that are neither the least nor the greatest.
    a = first["a"].to_numpy().copy()
    inner = np.argsort(a)[[20, 30]]
    a[inner] = a[inner[::-1]]
    pq.write_table(first.set_column(1, "a", [a]), path, compression="none", use_dictionary=False)
    assert len(path.read_bytes()) == len(whole)
    with pytest.raises(DataError, match="changed since it was listed"):
        list(read(iter(numbers)))
    # The same time of change, but another footer.
    pq.write_table(first, path, compression="none", use_dictionary=False)
    read = scan_of(df, ["id", "a"]).read
    a[0] = 99.0
    pq.write_table(first.set_column(1, "a", [a]), tmp_path / "y", compression="none")
    overwritten(path, (tmp_path / "y").read_bytes())
    with pytest.raises(DataError, match="changed since it was listed"):
        list(read(iter(numbers)))
    # While it is read.
    pq.write_table(first, path, compression="none", use_dictionary=False)
    read = scan_of(df, ["id", "a"]).read
    reading = read(iter(numbers))
    next(reading)
    path.write_bytes(whole)
    with pytest.raises(DataError, match="changed since it was listed"):
        list(reading)
    path.unlink()
    with pytest.raises(DataError, match="unreadable file"):
        list(read(iter(numbers)))


def test_a_damaged_page_is_no_row(spark, tmp_path):
    """Spark's files hold checksums of their pages."""
    values = spark.createDataFrame(table().to_pandas()).coalesce(1)
    values.write.option("compression", "none").parquet(str(tmp_path / "x"))
    (path,) = (tmp_path / "x").glob("*.parquet")
    df = spark.read.parquet(str(tmp_path / "x"))
    read = scan_of(df, ["id", "a"]).read
    content = bytearray(path.read_bytes())
    at = content.find(table()["a"].to_numpy()[N // 2].tobytes())
    content[at + 6] ^= 1
    overwritten(path, content)
    with pytest.raises(DataError, match="unreadable file"):
        list(read(iter([pa.RecordBatch.from_pydict({"id": [0]})])))


QUIET = """
import sys
from spark_auc.spark.data.arrow_files import scan_of
from spark_auc.spark.data.session import session
conf = {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.driver.memory": "512m"}
with session("quiet", conf) as spark:
    df = spark.read.parquet(sys.argv[1])
    print("STARTED", file=sys.stderr, flush=True)
    assert scan_of(df, ["id", "a"]) is not None
    print("ENDED", file=sys.stderr, flush=True)
"""


@pytest.mark.slow
def test_one_file_among_others_is_read_in_silence(tmp_path):
    pq.write_table(table(), tmp_path / "x.parquet")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n" * 10)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 torn")
    command = [sys.executable, "-c", QUIET, str(tmp_path / "x.parquet")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    between = done.stderr.split("STARTED\n")[1].split("ENDED\n")[0]
    assert between.strip() == ""
