"""Lines that tasks read from files against Spark's reader."""

from __future__ import annotations

import gzip
import logging
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline
from spark_auc.errors import DataError, LineError
from spark_auc.features.token_names import TokenCounts
from spark_auc.pipeline import token_sample
from spark_auc.pipeline.token_sample import token_names
from spark_auc.spark.data import text_files
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.layouts import Layout
from spark_auc.spark.data.lines import Lines, delimited, is_whole_source
from spark_auc.spark.data.local_paths import UnsupportedFilesError
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.data.text_files import TextScan

ONE = Layout("\t", ("word",))
SMALL = Layout(",", ("y", "x", "word"), integers=("y",), floats=("x",))
HEADED = Layout(",", ("y", "x", "word"), integers=("y",), floats=("x",), header=True)
ROWS = ["1,0.5,a", "0,,köln", ",-1e3,", "1,7,c"]


def read(scan):
    """All batches as one table, read in this process."""
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(scan)))})
    return pa.Table.from_batches(list(scan.read(iter([numbers]))))


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(text_files, "_PART_BYTES", 7)
    monkeypatch.setattr(text_files, "_REST", 3)


@pytest.mark.parametrize("ends", [b"\n", b"\r", b"\r\n", b"\r\r\n"])
def test_lines_are_those_of_spark(spark, tmp_path, small_parts, ends):
    """Files of random bytes, with a byte order mark, without an end, empty, with a long line."""
    rng = np.random.default_rng(len(ends) + ends[0])
    letters = np.frombuffer(b"abcdef" + ends, np.uint8)
    contents = [bytes(rng.choice(letters, size)) for size in rng.integers(1, 200, 6)]
    mark, long = b"\xef\xbb\xbf", b"a" * 50
    contents += [mark + contents[0], mark, b"", ends, ends + b"a", b"b" + ends]
    contents += [long, long + ends + b"b", mark + ends + mark + b"a"]
    for number, content in enumerate(contents):
        (tmp_path / f"rows {number:03}%.txt").write_bytes(content)
    scan = TextScan.of(delimited(spark, str(tmp_path), ONE))
    found = read(scan)["c0"].to_pylist()
    by_file = [
        row["value"]
        for number in range(len(contents))
        for row in spark.read.text(str(tmp_path / f"rows {number:03}%.txt")).collect()
    ]
    assert found == by_file
    assert len(scan) > len(contents)


def test_bytes_that_are_no_utf8(spark, tmp_path):
    (tmp_path / "rows").write_bytes(b"\xff\xfe\n\x00a\n\xc3")
    df = delimited(spark, str(tmp_path / "rows"), ONE)
    found = read(TextScan.of(df))["c0"].cast(pa.large_binary())
    expected = df.select(F.encode("line.text", "ISO-8859-1")).count()
    assert found.to_pylist() == [b"\xff\xfe", b"\x00a", b"\xc3"]
    assert expected == 3


@pytest.mark.parametrize("layout", [SMALL, HEADED])
def test_fields_have_the_values_and_types_of_spark(spark, tmp_path, small_parts, layout):
    path = tmp_path / "rows"
    path.mkdir()
    first = [layout.first_line] if layout.header else []
    rows = [*ROWS, "9223372036854775807,1.7976931348623157e308,x", "-7,nan,y", "007,-.5,z"]
    for name in ("a", "b"):
        (path / name).write_text("\n".join([*first, *rows]))
    df = delimited(spark, str(path), layout)
    names = ["y", "word", "x"]
    table = SparkTable(df).select(names)
    assert not table.cheap
    found, expected = table.gathered(), df.select(*names).toArrow()
    assert found["y"].type == expected["y"].type
    order = [("x", "ascending"), ("word", "ascending"), ("y", "ascending")]
    assert str(found.sort_by(order).to_pydict()) == str(expected.sort_by(order).to_pydict())


def changes(df):
    """Ways to change rows, and whether the lines are still all lines of the files."""
    return {
        "unchanged": (df, True),
        "selected": (df.select("line", "y", "x").select("y", "line"), True),
        "renamed": (df.withColumnRenamed("y", "z").withColumnRenamed("z", "y"), True),
        "filtered": (df.where("y = 1"), False),
        "always true": (df.where("y is null or y is not null"), None),
        "limited": (df.limit(2), False),
        "sampled": (df.sample(0.5, seed=1), False),
        "distinct": (df.dropDuplicates(["word"]), False),
        "united": (df.union(df), False),
        "shuffled": (df.repartition(3), False),
    }


def test_tasks_read_files_only_where_all_rows_are_wanted(spark, tmp_path, caplog):
    path = tmp_path / "rows"
    path.write_text("\n".join(ROWS))
    for name, (df, whole) in changes(delimited(spark, str(path), SMALL)).items():
        try:
            scan = TextScan.of(df)
        except UnsupportedFilesError:
            assert not whole, name
            continue
        assert whole is not False, name
        assert read(scan).num_rows == len(ROWS)
    cached = delimited(spark, str(path), SMALL).cache()
    try:
        with pytest.raises(UnsupportedFilesError, match="the rows are cached"):
            TextScan.of(cached)
    finally:
        cached.unpersist()


def test_other_files_and_columns_are_read_by_spark(spark, tmp_path, caplog):
    path = tmp_path / "rows"
    path.write_text("\n".join(ROWS))
    packed = tmp_path / "rows.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    df = delimited(spark, str(path), SMALL)
    with pytest.raises(UnsupportedFilesError, match=r"rows.gz is compressed"):
        TextScan.of(delimited(spark, str(packed), SMALL))
    table = SparkTable(df.withColumn("sum", F.col("x") + 1))
    with caplog.at_level(logging.INFO):
        found = table.select(["sum", "word"]).gathered()
    assert sorted(found["sum"].drop_null().to_pylist()) == [-999.0, 1.5, 8.0]
    assert "columns ['sum'] are not fields of it" in caplog.text
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(UnsupportedFilesError, match="ignoreMissingFiles is set"):
            TextScan.of(df)
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_a_file_that_changed_or_is_gone(spark, tmp_path):
    path = tmp_path / "rows"
    path.write_text("\n".join(ROWS))
    scan = TextScan.of(delimited(spark, str(path), SMALL))
    path.write_text("\n".join(ROWS[1:]))
    with pytest.raises(DataError, match="changed since it was listed"):
        read(scan)
    os.remove(path)
    with pytest.raises(DataError, match=r"found the unreadable file .*rows"):
        read(scan)


def test_a_label_that_is_no_number(spark, tmp_path):
    path = tmp_path / "rows"
    path.write_text("\n".join([*ROWS, "yes,1,a"]))
    table = SparkTable(delimited(spark, str(path), SMALL)).select(["y"])
    with pytest.raises(LineError, match="found 'yes' in column 'y'"):
        table.gathered()


def test_training_is_the_same_from_files_and_through_spark(spark, tmp_path, small_parts, caplog):
    """Equal weights and rows, from two files of parts of a few bytes and from rows of Spark."""
    rng = np.random.default_rng(5)
    path = tmp_path / "rows"
    path.mkdir()
    lines = [f"{rng.integers(2)},{rng.normal():.3f},{rng.choice(list('abc'))}" for _ in range(300)]
    (path / "a").write_text("\r\n".join(lines[:100]))
    (path / "b").write_text("\n".join(lines[100:]) + "\n")
    df = delimited(spark, str(path), SMALL)
    recipe = FeatureRecipe(spline=["x"], tokens=["word"], auto=False, dimension=16, numKnots=4)
    pipeline = RankerPipeline([recipe, MBAClassifier(labelCol="y", regParam=0.1)])
    with caplog.at_level(logging.INFO):
        by_tasks = pipeline.fit(df).ranker
    assert "reader: tasks, which read" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO):
        by_spark = pipeline.fit(df.where("length(line.text) > 0")).ranker
    assert "reader: tasks, which read" not in caplog.text
    assert by_tasks.summary.rows == by_spark.summary.rows
    weights, expected = by_tasks.coefficients.toArray(), by_spark.coefficients.toArray()
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-12)


def test_a_malformed_line_names_its_file_and_number(spark, tmp_path):
    path = tmp_path / "rows"
    path.write_text("\n".join([*ROWS, "1,2", *ROWS]))
    df = delimited(spark, str(path), SMALL)
    assert Lines.of(df, ["x"]) is not None
    recipe = FeatureRecipe(spline=["x"], auto=False, numKnots=2)
    with pytest.raises(LineError, match="found '1,2' with 2 fields"), translated():
        recipe.fit(df)


def test_names_of_tokens_come_from_a_sample_that_parts_do_not_change(spark, tmp_path, monkeypatch):
    """A tenth of the rows names a feature, the same for one part and for hundreds."""
    path = tmp_path / "rows"
    path.write_text("".join(f"{k % 2},{k},{'ab'[k % 2]}\n" for k in range(2_000)))
    df = delimited(spark, str(path), SMALL)
    recipe = FeatureRecipe(tokens=["word"], auto=False, dimension=16).fit(df)
    features = recipe.input_features(SparkTable(df))
    monkeypatch.setattr(token_sample, "_ROWS", 200)
    drawn = []
    names_of = TokenCounts.names

    def noted(counts):
        drawn.append(counts.counts)
        return names_of(counts)

    monkeypatch.setattr(TokenCounts, "names", noted)
    names = [f"token {k}" for k in range(16)]
    found = [token_names(SparkTable(df), features, names, 2_000)]
    monkeypatch.setattr(text_files, "_PART_BYTES", 997)
    found.append(token_names(SparkTable(df), features, names, 2_000))
    assert drawn[0] == drawn[1]
    assert found[0] == found[1]
    assert {token for _, token in drawn[0]} == {"word=a", "word=b"}
    assert all(name.partition(": mostly ")[2] for name in found[0].values())
    assert 140 < sum(drawn[0].values()) < 260


def test_plans_of_several_threads(spark, tmp_path):
    """Spark prints plans to the standard output of all threads."""
    path = tmp_path / "rows"
    path.write_text("\n".join(ROWS))
    df = delimited(spark, str(path), SMALL)
    frames = [df, df.where("y = 1")] * 4
    before = sys.stdout
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(is_whole_source, frames)) == [True, False] * 4
    assert sys.stdout is before


def test_a_plan_that_is_not_printed_is_not_that_of_whole_files(spark, tmp_path, monkeypatch):
    path = tmp_path / "rows"
    path.write_text("\n".join(ROWS))
    df = delimited(spark, str(path), SMALL)
    monkeypatch.setattr(type(df), "explain", lambda self: None)
    assert not is_whole_source(df)
    assert Lines.of(df, ["y"]) is None
