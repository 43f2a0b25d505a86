"""CSV files with newlines in quotes: read as they were written, by one parse, or refused."""

import csv

import pytest
from pyspark import StorageLevel

from spark_auc.app.config.sources import Source
from spark_auc.errors import DataError
from spark_auc.spark.data.split import by_position

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


def test_values_are_read_as_they_were_written(spark, tmp_path):
    rows = [(f"{k:04}", TEXTS[k % len(TEXTS)], str(k % 2)) for k in range(300)]
    (tmp_path / "many").mkdir()
    for k in range(3):
        write(tmp_path / "many" / f"{k}.csv", rows[100 * k : 100 * (k + 1)])
    # Tasks read parts of files, which may begin inside of quotes.
    size = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "97")
    try:
        assert read(spark, source(tmp_path / "many"))[1] == rows
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", size)
    write(tmp_path / "half.csv", rows, delimiter="\t")
    assert read(spark, source(tmp_path / "half.csv", sep="\t"))[1] == rows


def test_files_are_parsed_once(spark, tmp_path, capsys):
    write(tmp_path / "rows.csv", [("1", "two\nlines", "1")])
    data = source(tmp_path / "rows.csv")
    with data.read(spark) as rows:
        assert rows.storageLevel != StorageLevel.NONE
        with data.model_copy(update={"select": ["id"]}).read(spark) as again:
            again.explain()
            assert "InMemoryRelation" in capsys.readouterr().out
        assert rows.storageLevel != StorageLevel.NONE
    assert rows.storageLevel == StorageLevel.NONE
    # Spark divides files of quoted values without newlines.
    write(tmp_path / "rows.csv", [("1", 'a 5" pipe', "1")], quotechar="'")
    with data.read(spark) as rows:
        assert rows.storageLevel == StorageLevel.NONE
        assert rows.collect()[0]["text"] == 'a 5" pipe'


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (['1,"a,0', "2,b,1"], 2),
        (["1,a,0", '2,b,"1'], 3),
        (['1,"a,0', '2,"b",1'], 2),
        (['1,"two', 'lines",0', '2,"b,0', "", '3,"c",1'], 4),
        (["1,a,0", '2,"b"",0', "3,c,1"], 3),
    ],
)
@pytest.mark.parametrize("size", ["7", "1000"])
def test_an_unclosed_quote_is_refused(spark, tmp_path, lines, number, size):
    (tmp_path / "good.csv").write_text('id,text,label\n1,"a\nb",0\n')
    (tmp_path / "wrong.csv").write_text("\n".join(["id,text,label", *lines, ""]))
    default = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", size)
    message = f"found a quote that is not closed in line {number} of file:.*/wrong.csv, expected"
    try:
        with pytest.raises(DataError, match=message), source(tmp_path).read(spark):
            pass
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", default)


@pytest.mark.parametrize("options", [{"multiLine": False}, {"quote": "'"}, {"comment": "#"}])
def test_options_of_the_user_take_precedence(spark, tmp_path, options):
    (tmp_path / "rows.csv").write_text('id,text,label\n1,"a,0\n')
    with source(tmp_path / "rows.csv", **options).read(spark) as rows:
        assert rows.count() == 1


def test_a_quote_after_spaces_is_text(spark, tmp_path):
    """Spark reads it as text unless it ignores the spaces."""
    (tmp_path / "rows.csv").write_text('id,text,label\n1, "a,0\n2,b,1\n')
    data = source(tmp_path / "rows.csv")
    assert read(spark, data)[1] == [("1", ' "a', "0"), ("2", "b", "1")]
    (tmp_path / "rows.csv").write_text('id,text,label\n1, "a\nb",0\n')
    data = source(tmp_path / "rows.csv", ignoreLeadingWhiteSpace=True)
    assert read(spark, data)[1] == [("1", "a\nb", "0")]


def test_files_and_separators_are_those_of_the_options(spark, tmp_path):
    rows = [("1", "two\nlines", "0"), ("2", "plain", "1")]
    (tmp_path / "parts" / "deep").mkdir(parents=True)
    write(tmp_path / "parts" / "deep" / "rows.csv", rows, delimiter="\t")
    (tmp_path / "parts" / "notes.txt").write_text('an "unclosed\t"quote')
    data = source(tmp_path / "parts", sep=r"\t", pathGlobFilter="*.csv", recursiveFileLookup=True)
    assert read(spark, data)[1] == rows


def test_rows_that_are_parsed_once_keep_their_positions(spark, tmp_path):
    rows = [(str(k), "two\nlines", str(k % 2)) for k in range(10)]
    write(tmp_path / "rows.csv", rows)
    with source(tmp_path / "rows.csv").read(spark) as df:
        assert df.count() == 10
        parts = by_position(df, 0.6).where("part = 'train'").collect()
    assert sorted(row["id"] for row in parts) == [row[0] for row in rows[:6]]
