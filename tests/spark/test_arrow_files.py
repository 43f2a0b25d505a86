"""Text as DataFrames: the rows of one process, read by tasks."""

import csv
import json

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from spark_auc.app.config.sources import Source
from spark_auc.errors import DataError
from spark_auc.spark.data.names import quoted
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.data.split import by_position
from spark_auc.tables import text_ranges
from spark_auc.tables.files import open_file
from spark_auc.tables.partitions import NONE

HEADER = ["id", "text", "label"]
TEXTS = ["plain", "two\nlines", 'a "word", b', "x,y", "", "\n", "é\n\nz", '",\n"', '5" pipe']


def source(path, **options):
    return Source(format="csv", path=str(path), options={"header": True, "escape": '"'} | options)


def write(path, rows, **format):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", **format)
        writer.writerow(HEADER)
        writer.writerows(rows)


def read(spark, data):
    with data.read(spark) as rows:
        return rows, [(*row[:1], row[1] or "", *row[2:]) for row in rows.orderBy("id").collect()]


def test_values_are_those_of_one_process(spark, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 97)
    rows = [(f"{k:04}", TEXTS[k % len(TEXTS)], str(k % 2)) for k in range(300)]
    (tmp_path / "many").mkdir()
    for k in range(3):
        write(tmp_path / "many" / f"{k}.csv", rows[100 * k : 100 * (k + 1)])
    assert read(spark, source(tmp_path / "many"))[1] == rows
    assert read(spark, source(tmp_path / "many" / "[0-2].csv"))[1] == rows
    write(tmp_path / "half.csv", rows, delimiter="\t")
    data = source(tmp_path / "half.csv", sep="\t")
    assert read(spark, data)[1] == rows
    with data.read(spark) as frame, caplog.at_level("INFO"):
        table = SparkTable(frame).select(["text", "id"])
        found = table.gathered()
    local = open_file(tmp_path / "half.csv").select(["text", "id"]).gathered()
    assert found.equals(local)
    assert "reader: tasks, which read" in caplog.text
    assert "ranges of 1 files of text" in caplog.text


def test_blanks_are_trimmed_by_both_options(spark, tmp_path):
    (tmp_path / "rows.csv").write_text('id , text,label\n1 , "a, b" ,0\n 2,c ,1\n')
    trims = {"ignoreLeadingWhiteSpace": True, "ignoreTrailingWhiteSpace": True}
    assert read(spark, source(tmp_path / "rows.csv", **trims))[1] == [
        ("1", "a, b", "0"),
        ("2", "c", "1"),
    ]
    one = source(tmp_path / "rows.csv", ignoreLeadingWhiteSpace=True)
    assert not one.through_arrow


def test_rows_that_spark_changed_are_read_by_spark(spark, tmp_path, caplog):
    write(tmp_path / "rows.csv", [("1", "a", "0"), ("2", "b", "1"), ("3", "c", "1")])
    data = source(tmp_path / "rows.csv").model_copy(update={"where": "label = '1'"})
    with data.read(spark) as frame, caplog.at_level("INFO"):
        assert SparkTable(frame).select(["id"]).gathered() == pa.table({"id": ["2", "3"]})
    assert "not an unchanged scan" in caplog.text


def test_patterns_of_partitions_and_other_options_are_sparks(spark, tmp_path):
    rows = [("1", "plain", "0"), ("2", "x,y", "1")]
    (tmp_path / "parts" / "day=1").mkdir(parents=True)
    write(tmp_path / "parts" / "day=1" / "rows.csv", rows)
    with source(tmp_path / "part*").read(spark) as frame:
        assert frame.columns == [*HEADER, "day"]
        assert frame.count() == 2
    (tmp_path / "rows.csv").write_text("id,text,label\n1,'a,b',0\n")
    assert read(spark, source(tmp_path / "rows.csv", quote="'"))[1] == [("1", "a,b", "0")]
    # A line of another number of fields is refused.
    (tmp_path / "rows.csv").write_text("id,text,label\n1,'a,b',0\n2,c\n")
    with pytest.raises(DataError), source(tmp_path / "rows.csv", quote="'").read(spark) as frame:
        frame.collect()


def test_a_quote_that_is_not_closed_is_refused(spark, tmp_path):
    (tmp_path / "rows.csv").write_text('id,text,label\n1,"a,0\n')
    with pytest.raises(DataError, match=r"not closed in line 2 of .*rows.csv"):
        source(tmp_path / "rows.csv").read(spark).__enter__()


def test_a_header_alone_has_no_rows(spark, tmp_path):
    (tmp_path / "rows.csv").write_text("id,text,label\n")
    with source(tmp_path / "rows.csv").read(spark) as frame:
        assert (frame.columns, frame.count()) == (HEADER, 0)


def test_tasks_read_json_lines_as_one_process_does(spark, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 60)
    rows = [{"id": k, "text": "two\nlines", "none": None, "a b.c": k > 3} for k in range(20)]
    rows += [{"id": 0.5, "user": {"ages": [1, 2], "none": {}, "list": []}}, {"last": [{"a": 1}]}]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    mine = open_file(path)
    data = Source.model_validate({"format": "json", "path": str(path)})
    with data.read(spark) as frame, caplog.at_level("INFO"):
        table = SparkTable(frame)
        assert table.schema.names == mine.schema.names
        expected = mine.gathered()
        assert [row.asDict(recursive=True) for row in frame.collect()] == expected.to_pylist()
        found = table.select(["last", "ID", "a b.c"]).gathered()
        assert found.to_pylist() == expected.select(["last", "id", "a b.c"]).to_pylist()
        assert f"reader: tasks, which read {mine.parts} ranges of 1 files of text" in caplog.text
    path.write_text(path.read_text() + "\n7")
    with pytest.raises(DataError, match=r"found '7' in line 23 of .*rows.jsonl"):
        data.read(spark).__enter__()
    # Arrays are of Spark's reader, as are mixed values that it takes for text.
    for text, option in (
        ('[{"a": 1}]', "multiLine"),
        ('{"a": 1}\n{"a": "x"}', "primitivesAsString"),
    ):
        path.write_text(text)
        with data.model_copy(update={"options": {option: True}}).read(spark) as frame:
            assert str(frame.collect()[0]["a"]) == "1"


@pytest.mark.parametrize("share", [0.6, 7])
def test_rows_keep_their_positions(spark, tmp_path, monkeypatch, share):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 30)
    rows = [(str(k), "two\nlines", str(k % 2)) for k in range(10)]
    write(tmp_path / "rows.csv", rows)
    with source(tmp_path / "rows.csv").read(spark) as df:
        assert df.select(F.spark_partition_id()).distinct().count() > 2
        found = by_position(df, share).where("part = 'train'").select(*map(quoted, HEADER))
        count = round(10 * share) if share < 1 else share
        assert [row["id"] for row in found.collect()] == [row[0] for row in rows[:count]]


# Values of one column of directories each, by which Spark's reader finds a type.
VALUES = {
    "codes": ["07", "+8", "-3"],
    "large": ["1", "3000000000", NONE],
    "largest": ["9223372036854775807", "-2147483649", "0"],
    "numbers": ["1", "2.5", ".5"],
    "java": ["10d", "1e-5F", "NaN"],
    "beyond": ["Infinity", "-Infinity", "1e400"],
    "words": ["inf", "1", "2"],
    "days": ["2024-01-01", NONE, "2024-02-29"],
    "no days": ["2024-02-30", "2024-01-01", "2024-01-02"],
    "months": ["2024-01", "2024-02", "2024-03"],
    "short": ["2024-1-1", "2024-1-2", "2024-1-3"],
    "mixed": ["2024-01-01", "5", "6"],
    "times": ["2024-01-01 10%3A00%3A00", "2024-01-02", "2024-01-01 10%3A00%3A00.5"],
    "other times": ["2024-01-01T10%3A00%3A00", "2024-01-01 10%3A00", "2024-01-01 25%3A00%3A00"],
    "text": ["a%2Fb", "a b", "5%"],
    "escaped": ["1%2E5", "1", "2"],
    "flags": ["true", "false", "true"],
    "some text": ["07", "1.50", "x"],
    "a%20name": ["x", "y", NONE],
}
WRITERS = {
    "parquet": lambda rows, path: rows.to_parquet(path),
    "csv": lambda rows, path: rows.to_csv(path, index=False),
    "json": lambda rows, path: rows.to_json(path, orient="records", lines=True),
}


def in_partitions(root, form):
    """Three files of two rows, with a column that directories have too."""
    for k in range(3):
        place = root.joinpath(*(f"{name}={texts[k]}" for name, texts in VALUES.items()))
        place.mkdir(parents=True)
        rows = pd.DataFrame({"id": [f"i{k}", f"i{k}"], "Months": ["no", "no"]})
        WRITERS[form](rows, place / f"rows.{form}")


@pytest.mark.parametrize("form", WRITERS)
def test_partitions_have_the_values_and_types_of_sparks_reader(spark, tmp_path, form):
    """The oracle is Spark's reader of Parquet."""
    in_partitions(tmp_path / "parquet", "parquet")
    expected = spark.read.parquet(str(tmp_path / "parquet")).toArrow().sort_by("id")
    place = expected.schema.get_field_index("times")
    times = expected["times"].cast(pa.timestamp("us"))
    expected = expected.set_column(place, "times", times)
    if form != "parquet":
        in_partitions(tmp_path / form, form)
    tables = [open_file(tmp_path / form)]
    data = {"format": form, "path": str(tmp_path / form)}
    if form == "csv":
        data["options"] = {"header": True}
    with Source.model_validate(data).read(spark) as frame:
        if form != "parquet":
            tables.append(SparkTable(frame))
        for table in tables:
            # As text: NaN is not equal to itself.
            assert str(table.gathered().sort_by("id").to_pydict()) == str(expected.to_pydict())
            found = {field.name: field.type for field in table.schema}
            assert found == {field.name: field.type for field in expected.schema}
            # Columns of directories alone have the number of rows.
            assert table.select(["days"]).gathered().num_rows == 6


def test_files_in_different_directories_are_refused(tmp_path):
    (tmp_path / "day=1").mkdir()
    for place in ("a.csv", "day=1/b.csv"):
        (tmp_path / place).write_text("x,y\n1,0\n")
    with pytest.raises(DataError, match=r"day=1/b.csv' in directories of \['day'\], expected \[\]"):
        open_file(tmp_path)
