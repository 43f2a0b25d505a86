"""Text of a layout as DataFrames: the rows of one process, read by tasks."""

from __future__ import annotations

import gzip
import logging
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline
from spark_auc.errors import DataError
from spark_auc.features.token_names import TokenCounts
from spark_auc.pipeline import token_sample
from spark_auc.pipeline.token_sample import token_names
from spark_auc.spark.data.arrow_files import Location, layout_rows, plan_of, scan_of
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables import text_ranges
from spark_auc.tables.files import text_rows
from spark_auc.tables.layouts import CRITEO, Layout

SMALL = Layout(",", ("y", "x", "word"), integers=("y",), floats=("x",))
HEADED = Layout(",", ("y", "x", "word"), integers=("y",), floats=("x",), header=True)
ROWS = ["1,0.5,a", "0,,köln", ",-1e3,", "1,7,c"]
ORDER = [("x", "ascending"), ("word", "ascending"), ("y", "ascending")]


def write(path, rows=ROWS):
    path.write_text("".join(f"{row}\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("layout", [SMALL, HEADED])
def test_values_are_those_of_one_process_and_of_spark(spark, tmp_path, monkeypatch, caplog, layout):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 20)
    first = ["y,x,word"] if layout.header else []
    rows = [*first, *ROWS, "9223372036854775807,1.7976931348623157e308,x", "007,-.5,z"]
    (tmp_path / "rows").mkdir()
    paths = [write(tmp_path / "rows" / name, rows) for name in ("a", "b")]
    df = layout_rows(spark, tmp_path / "rows", layout)
    with caplog.at_level(logging.INFO):
        table = SparkTable(df).select(["y", "word", "x"])
        found = table.gathered()
    assert "reader: tasks, which read" in caplog.text
    assert not table.cheap
    local = text_rows(paths, layout=layout).select(["y", "word", "x"]).gathered()
    assert found.equals(local)
    through_spark = df.select("y", "word", "x").toArrow().sort_by(ORDER)
    assert through_spark.to_pydict() == local.sort_by(ORDER).to_pydict()
    # A pattern of the same files, and files of a codec that Spark alone reads.
    pattern = layout_rows(spark, f"{tmp_path}/rows/[ab]", layout)
    assert pattern.select("y", "word", "x").toArrow().sort_by(ORDER) == through_spark


@pytest.mark.parametrize("layout", [SMALL, HEADED])
def test_files_that_spark_reads(spark, tmp_path, layout):
    """Values of Spark's reader, by a pattern of directories of partitions."""
    first = ["y,x,word"] if layout.header else []
    (tmp_path / "rows" / "day=1").mkdir(parents=True)
    path = tmp_path / "rows" / "day=1" / "a"
    write(path, [*first, *ROWS, '1,2,5" pipe', '1,3,"'])
    df = layout_rows(spark, f"{tmp_path}/row*", layout)
    found = df.select(*layout.names).toArrow()
    local = text_rows([write(tmp_path / "b", [*ROWS, '1,2,5" pipe'])], layout=SMALL).gathered()
    assert found.slice(0, 5).to_pydict() == local.to_pydict()
    for line in ("1,2", "1.5,2,a", "1,2_0,a"):
        write(path, [*first, *ROWS, line])
        with pytest.raises(DataError), translated():
            layout_rows(spark, f"{tmp_path}/row*", layout).toArrow()


def changes(df):
    """Ways to change rows, and whether they are still all rows of the files."""
    return {
        "unchanged": (df, True),
        "selected": (df.select("word", "y", "x").select("y", "x"), True),
        "filtered": (df.where("y = 1"), False),
        "limited": (df.limit(2), False),
        "united": (df.union(df), False),
        "shuffled": (df.repartition(3), False),
        "replaced": (df.withColumn("x", df.x + 1), False),
    }


def test_tasks_read_files_only_where_all_rows_are_wanted(spark, tmp_path, caplog):
    df = layout_rows(spark, write(tmp_path / "rows"), SMALL)
    for name, (changed, whole) in changes(df).items():
        caplog.clear()
        with caplog.at_level(logging.INFO):
            scan_of(changed, ["y", "x"])
        assert ("reader: tasks, which read" in caplog.text) == whole, name


def test_a_file_that_changed_or_is_gone(spark, tmp_path):
    path = tmp_path / "rows"
    table = SparkTable(layout_rows(spark, write(path), SMALL)).select(["y"])
    write(path, ROWS[1:])
    with pytest.raises(DataError, match="changed since it was listed"):
        table.gathered()
    os.remove(path)
    with pytest.raises(DataError, match=r"found the unreadable file .*rows"):
        table.gathered()


@pytest.mark.parametrize(
    ("line", "words"),
    [("1,2", "with 2 fields"), ("yes,1,a", "'yes' in column 'y'"), ('1,2,"a"', "without quotes")],
)
def test_a_malformed_line_names_its_file_and_line(spark, tmp_path, line, words):
    path = write(tmp_path / "rows", [*ROWS, line, *ROWS])
    df = layout_rows(spark, path, SMALL)
    for read in (SparkTable(df).select(["y"]).gathered, df.toArrow):
        with pytest.raises(DataError, match=rf"in line 5 of \S*{path} .*{words}"), translated():
            read()


def test_training_is_the_same_from_files_and_through_spark(spark, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 100)
    rng = np.random.default_rng(5)
    lines = [f"{rng.integers(2)},{rng.normal():.3f},{rng.choice(list('abc'))}" for _ in range(300)]
    df = layout_rows(spark, write(tmp_path / "rows", lines), SMALL)
    recipe = FeatureRecipe(spline=["x"], tokens=["word"], auto=False, dimension=16, numKnots=4)
    pipeline = RankerPipeline([recipe, MBAClassifier(labelCol="y", regParam=0.1)])
    with caplog.at_level(logging.INFO):
        by_tasks = pipeline.fit(df).ranker
    assert "reader: tasks, which read" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO):
        by_spark = pipeline.fit(df.where("x is not null")).ranker
    assert "reader: tasks, which read" not in caplog.text
    assert by_tasks.summary.rows == by_spark.summary.rows
    weights, expected = by_tasks.coefficients.toArray(), by_spark.coefficients.toArray()
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-12)


def test_names_of_tokens_come_from_a_sample_that_ranges_do_not_change(spark, tmp_path, monkeypatch):
    """A tenth of the rows names a feature, the same for one range and for hundreds."""
    path = write(tmp_path / "rows", [f"{k % 2},{k},{'ab'[k % 2]}" for k in range(2_000)])
    df = layout_rows(spark, path, SMALL)
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
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 997)
    df = layout_rows(spark, path, SMALL)
    found.append(token_names(SparkTable(df), features, names, 2_000))
    assert drawn[0] == drawn[1]
    assert found[0] == found[1]
    assert {token for _, token in drawn[0]} == {"word=a", "word=b"}
    assert all(name.partition(": mostly ")[2] for name in found[0].values())
    assert 140 < sum(drawn[0].values()) < 260


def test_compressed_files(spark, tmp_path):
    (tmp_path / "rows.gz").write_bytes(gzip.compress("\n".join(ROWS).encode()))
    table = SparkTable(layout_rows(spark, str(tmp_path / "rows.gz"), SMALL))
    assert table.gathered()["word"].to_pylist() == ["a", "köln", None, "c"]


def test_plans_of_several_threads(spark, tmp_path):
    """Spark prints plans to the standard output of all threads."""
    df = layout_rows(spark, write(tmp_path / "rows"), SMALL)
    frames = [df, df.where("y = 1")] * 4
    before = sys.stdout
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(plan_of, frames)]
    assert len({*found}) == 2
    assert ["Filter" in plan for plan in found] == [False, True] * 4
    assert sys.stdout is before


@pytest.mark.parametrize(
    "location", [Location("a", "\t", trimmed=True), Location("b", layout=CRITEO), Location("c")]
)
def test_locations_are_stored(location):
    assert Location.restored(location.stored()) == location
