"""Lines of text against Python's csv and str.split, as fields of tasks and as Spark's columns."""

from __future__ import annotations

import bz2
import csv
import gzip
import logging
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

from spark_auc.errors import ConfigError, DataError, LineError
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.layouts import AVAZU, CRITEO, Layout
from spark_auc.spark.data.line_faults import fault, line_errors
from spark_auc.spark.data.lines import Lines, delimited
from spark_auc.tables.arrow_columns import flat
from tests import data

pytestmark = pytest.mark.slow

SMALL = Layout(",", ("y", "x", "word"), integers=("y",), floats=("x",))
ROWS = ["1,0.5,a", "0,,köln", ",-1e3,", "1,7,c"]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def batches_of(lines: Lines, batches):
    for batch in batches:
        columns = map(flat, lines.split(batch.columns))
        yield pa.RecordBatch.from_arrays(list(columns), [f"c{k}" for k in lines.numbers])


def by_tasks(df, names):
    """Fields of the lines, split inside tasks, by name."""
    lines = Lines.of(df, names)
    assert lines is not None
    types = {"text": "string", "integer": "bigint", "float": "double"}
    kinds = [types[lines.layout.type_of(lines.layout.names[k])] for k in lines.numbers]
    schema = ", ".join(f"c{k} {kind}" for k, kind in zip(lines.numbers, kinds, strict=True))
    rows = df.select(*lines.expressions()).mapInArrow(partial(batches_of, lines), schema).toArrow()
    return dict(zip(names, (column.to_pylist() for column in rows.columns), strict=True))


def by_spark(df, names):
    return df.select(*names).toArrow().to_pydict()


def plan_of(df, capsys):
    df.explain("extended")
    return capsys.readouterr().out.split("Optimized Logical Plan")[1]


def check(df, layout, expected, capsys):
    """Both ways give the fields, and the tasks' way computes no column in Spark."""
    names = list(layout.names)
    fields, columns = by_tasks(df, names), by_spark(df, names)
    texts = zip(*expected, strict=True)
    for name, given in zip(names, texts, strict=True):
        assert str(columns[name]) == str(fields[name])
        kind = {"text": str, "integer": int, "float": float}[layout.type_of(name)]
        assert str(fields[name]) == str([kind(value) if value else None for value in given])
    lines = Lines.of(df.where("length(line.text) > 3"), names)
    plan = plan_of(df.select(*lines.expressions()), capsys)
    assert "split" not in plan.lower(), plan


def test_criteo(spark, tmp_path, capsys):
    with data.path("criteo_80k.tsv").open() as file:
        lines = [next(file).rstrip("\n") for _ in range(2_000)]
    df = delimited(spark, write(tmp_path / "rows.tsv", lines), CRITEO)
    check(df, CRITEO, [line.split("\t") for line in lines], capsys)
    packed = tmp_path / "rows.gz"
    packed.write_bytes(gzip.compress((tmp_path / "rows.tsv").read_bytes()))
    names = ["label", "I1", "C26"]
    assert by_tasks(delimited(spark, str(packed), CRITEO), names) == by_tasks(df, names)


def test_avazu(spark, capsys):
    path = data.path("avazu_9k.csv")
    with path.open(newline="") as file:
        expected = list(csv.reader(file))[1:]
    check(delimited(spark, str(path), AVAZU), AVAZU, expected, capsys)


def test_compressed_files_that_are_read_whole(spark, tmp_path, caplog):
    path = tmp_path / "rows"
    path.mkdir()
    (path / "a.bz2").write_bytes(bz2.compress("\n".join(ROWS).encode()))
    with caplog.at_level(logging.WARNING):
        plain = by_tasks(delimited(spark, str(path), SMALL), SMALL.names)
        assert not caplog.records
        (path / "b.gz").write_bytes(gzip.compress("\n".join(ROWS).encode()))
        both = by_tasks(delimited(spark, str(path), SMALL), SMALL.names)
    assert sorted(map(str, both["word"])) == sorted(map(str, 2 * plain["word"]))
    assert "found 1 compressed files that Spark cannot split (of 2)" in caplog.text
    assert "2 tasks can run at once" in caplog.text


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_ends_of_lines(spark, tmp_path, end):
    """Spark's reader leaves out the ends of lines of Windows."""
    path = tmp_path / "rows"
    path.write_bytes("".join(f"{row}{end}" for row in ROWS).encode())
    df = delimited(spark, str(path), SMALL)
    assert by_tasks(df, ["word"])["word"] == ["a", "köln", None, "c"]
    assert by_spark(df, ["word"])["word"] == ["a", "köln", None, "c"]


MALFORMED = [
    ("1,2", "found '1,2'", "3 fields"),
    ("", "found ''", "3 fields"),
    ("1,2,a,", "found '1,2,a,'", "3 fields"),
    ('1,2,"a', "found '1,2,\"a'", "fields without quotes"),
    ('"1",2,a', "found '\"1\",2,a'", "fields without quotes"),
    ("1.5,2,a", "found '1.5' in column 'y'", "an integer"),
    ("1,2_0,a", "found '2_0' in column 'x'", "a number"),
    ("99999999999999999999,2,a", "in column 'y'", "an integer"),
]


def fields_and_numbers(lines: Lines, batches):
    for batch in batches:
        lines.split(batch.columns)
        yield batch.select([0])


@pytest.mark.parametrize(("line", "found", "expected"), MALFORMED)
def test_malformed_line_names_file_and_number(spark, tmp_path, line, found, expected):
    write(tmp_path / "a", ROWS)
    path = write(tmp_path / "b", [*ROWS * 500, line, *ROWS, "x"])
    df = delimited(spark, str(tmp_path), SMALL)
    lines = Lines.of(df, SMALL.names)
    maximum = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(maximum)
    try:
        spark.conf.set(maximum, "2000")
        rows = df.select(*lines.expressions())
        parsed = rows.mapInArrow(partial(fields_and_numbers, lines), "text string")
        with pytest.raises(LineError) as raised, line_errors(df):
            parsed.toArrow()
    finally:
        spark.conf.set(maximum, before)
    message = str(raised.value)
    assert found in message
    assert expected in message
    assert f"in line 2001 of file:{path}" in message
    with pytest.raises(LineError) as raised, line_errors(df):
        by_spark(df, SMALL.names)
    assert str(raised.value) == message
    with pytest.raises(LineError, match="repair or remove the line") as raised, translated():
        by_spark(df, SMALL.names)
    assert f"found '{line}', expected 3 fields" in str(raised.value)


def test_header_lines(spark, tmp_path):
    layout = Layout("|", ("a", "b"), integers=("a",), header=True)
    write(tmp_path / "1", ["a|b", "1|x"])
    path = write(tmp_path / "2", ["a|b", "2|y", "a|c"])
    df = delimited(spark, str(tmp_path), layout)
    assert sorted(by_tasks(df, ["b"])["b"]) == ["c", "x", "y"]
    assert fault(df) == (
        f"found 'a' in column 'a' in line 3 of file:{path}, expected an integer; repair the row, "
        "or read the column as text"
    )
    assert fault(delimited(spark, str(tmp_path / "1"), layout)) is None


def test_filtered_and_renamed(spark, tmp_path):
    df = delimited(spark, write(tmp_path / "rows", ROWS), SMALL)
    some = df.where("y = 1").withColumnRenamed("word", "a `b`.c").withColumnRenamed("line", "text")
    some = some.withColumn("extra", F.lit(1))
    lines = Lines.of(some, ["a `b`.c", "x"])
    table = some.select(*lines.expressions()).toArrow().combine_chunks()
    columns = lines.split([column.chunk(0) for column in table.columns])
    assert [flat(column).to_pylist() for column in columns] == [["a", "c"], [0.5, 7.0]]


@pytest.mark.classic("withColumn drops the metadata of a copied column on Connect")
def test_a_copy_of_a_column_is_the_same_field(spark, tmp_path):
    df = delimited(spark, write(tmp_path / "rows", ROWS), SMALL)
    copied = df.withColumn("x", F.col("word"))
    assert by_tasks(copied, ["x"])["x"] == by_spark(copied, ["x"])["x"]


def test_replaced_columns(spark, tmp_path, caplog):
    df = delimited(spark, write(tmp_path / "rows", ROWS), SMALL)
    replaced = df.withColumn("word", F.upper("word"))
    assert Lines.of(replaced, ["x", "y"]) is not None
    assert not caplog.records
    assert Lines.of(replaced, ["x", "word"]) is None
    assert "because columns ['word'] are not fields of it" in caplog.text
    assert Lines.of(df.drop("line"), ["x"]) is None
    assert Lines.of(df.drop("x"), ["x"]) is None
    assert Lines.of(df.fillna("", ["word"]), ["word"]) is None
    joined = df.join(df.select("y", "word"), "y")
    assert Lines.of(joined, ["word"]) is None
    with pytest.raises(LineError), line_errors(df.drop("line")):
        raise LineError("another")


def test_unions_are_left_to_spark(spark, tmp_path, caplog):
    """A union has the metadata of its first part, whose columns another may not have."""
    df = delimited(spark, write(tmp_path / "rows", ROWS), SMALL)
    other = df.withColumn("word", F.upper("word"))
    assert Lines.of(df.union(other), ["y", "word"]) is None
    assert "because of the steps ['Union'] to the rows" in caplog.text
    assert Lines.of(df.union(other).where("y = 1"), ["y"]) is None


def test_joins_are_left_to_spark(spark, tmp_path, caplog):
    """The lines of one side and a column of the other, both with the marks of one layout."""
    df = delimited(spark, write(tmp_path / "rows", ROWS), SMALL)
    other = df.select("y", F.col("word")).orderBy("x")
    joined = df.select("line", "y", "x").join(other, "y")
    assert Lines.of(joined, ["word", "x"]) is None
    assert "Join" in caplog.text


def test_steps_that_keep_rows(spark, tmp_path, caplog):
    df = delimited(spark, write(tmp_path / "rows", ROWS), SMALL)
    kept = df.where("y is not null").repartition(3).orderBy("x").limit(3).sample(0.9).coalesce(1)
    assert Lines.of(kept, ["y", "word"]) is not None
    cached = df.cache()
    assert Lines.of(cached.where("y = 1"), ["y", "word"]) is not None
    cached.unpersist()
    union = df.union(df.withColumn("word", F.upper("word"))).cache()
    assert Lines.of(union, ["y", "word"]) is None
    union.unpersist()


def test_rows_of_another_layout(spark, tmp_path):
    df = delimited(spark, write(tmp_path / "rows", ROWS), SMALL)
    lines = Lines.of(df, ["y"])
    arrays = df.select(*lines.expressions()).toArrow().columns
    text, marks = (array.combine_chunks() for array in arrays)
    assert lines.split([text, marks])[0].to_pylist() == [1, 0, None, 1]
    for wrong in (pc.add(marks, 1), pa.nulls(len(marks), marks.type)):
        with pytest.raises(DataError, match="rows without a line of this layout"):
            lines.split([text, wrong])


def test_rows_after_a_shuffle(spark, tmp_path):
    df = delimited(spark, write(tmp_path / "rows", ROWS), SMALL)
    rows = by_tasks(df.repartition(3).orderBy("x"), ["x"])
    assert rows == {"x": [None, -1000.0, 0.5, 7.0]}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"separator": "::"}, "found separator '::', expected one ASCII character"),
        ({"separator": '"'}, "expected one ASCII character other than a quote"),
        ({"separator": "·"}, "expected one ASCII character"),
        ({"names": ()}, "expected one or more different names"),
        ({"names": ("a", "a")}, "expected one or more different names"),
        ({"names": ("a", "line")}, "names other than 'line'"),
        ({"names": ("a",), "floats": ("b",)}, r"found numbers \['b'\]"),
        ({"names": ("a",), "floats": ("a",), "integers": ("a",)}, r"found numbers \['a', 'a'\]"),
    ],
)
def test_layouts(settings, words):
    with pytest.raises(ConfigError, match=words):
        Layout(**{"separator": ",", "names": ("a", "b")} | settings)
