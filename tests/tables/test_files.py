"""Files as tables: records and types by other readers, in parts of any size."""

import csv
import datetime
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_auc.errors import ConfigError, DataError
from spark_auc.features.readings import Reading
from spark_auc.tables import parquet_files, text_ranges
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.files import open_file
from spark_auc.tables.partitions import NONE
from spark_auc.tables.split import by_time, time_at
from spark_auc.tables.text_types import inferred, typed
from spark_auc.tables.types import METADATA

TEXTS = ["plain", "with, separator", 'with "quotes"', "two\nlines", "", " blanks ", "Köln", "NA"]


def read(path):
    table = open_file(path)
    return typed(table, [found.reading for found in inferred(table).values()]).gathered()


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("bytes_of_part", [60, 10_000])
def test_records_are_those_of_pythons_reader(
    tmp_path, monkeypatch, separator, ending, bytes_of_part
):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", bytes_of_part)
    rng = np.random.default_rng(1)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator=ending)
    writer.writerow(["a", 'b "c"', "d e"])
    for k in range(200):
        writer.writerow([f"x{k}", *rng.choice(TEXTS, 2)])
    (tmp_path / "rows.csv").write_bytes(b"\xef\xbb\xbf" + out.getvalue().encode())
    expected = list(csv.DictReader(io.StringIO(out.getvalue()), delimiter=separator))
    table = open_file(tmp_path / "rows.csv")
    assert table.parts == 1 or bytes_of_part == 60
    found = table.gathered()
    for name in ("a", 'b "c"', "d e"):
        texts = [value or "" for value in found[name].to_pylist()]
        assert texts == [row[name] for row in expected]
    few = table.select(["d e", "a"]).gathered()
    assert few.column(0) == found["d e"]


def test_types_that_all_values_fit(tmp_path):
    columns = {
        "whole": (["1", "+20", "", "NA", " -3 "], [1, 20, None, None, -3]),
        "float": (["1", "2.5", "-1e3", ".5", "?"], [1.0, 2.5, -1000.0, 0.5, None]),
        "code": (["007", "1", "2", "3", "4"], ["007", "1", "2", "3", "4"]),
        "flag": (["true", "FALSE", "True", "", "false"], [True, False, True, None, False]),
        "day": (["2024-02-29", "", "1999-12-31", "2000-01-01", "2001-01-01"], None),
        "no day": (["2024-02-30", "", "x", "2000-01-01", "2001-01-01"], None),
        "at": (["2024-02-29 12:30", "2024-02-29", "2024-02-29T01:02:03.123456789", "", ""], None),
        "zoned": (["2024-02-29 12:30Z", "2024-02-29T12:30:01+01:00", "", "", ""], None),
        "text": (["a", "1", "", "NA", " b"], ["a", "1", None, "NA", " b"]),
        "none": (["", "", "", "", ""], [None] * 5),
    }
    lines = [",".join(columns)]
    lines += [",".join(values[k] for values, _ in columns.values()) for k in range(5)]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    found = read(tmp_path / "rows.csv")
    for name, (_, expected) in columns.items():
        if expected is not None:
            assert found[name].to_pylist() == expected, name
    assert found.schema.field("day").type == pa.date32()
    assert found["day"][0].as_py() == datetime.date(2024, 2, 29)
    assert found.schema.field("no day").type == pa.string()
    assert found["at"].to_pylist()[:3] == [
        datetime.datetime(2024, 2, 29, 12, 30),
        datetime.datetime(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 1, 2, 3, 123456),
    ]
    assert found["zoned"][1].as_py() == datetime.datetime(
        2024, 2, 29, 11, 30, 1, tzinfo=datetime.UTC
    )


def test_types_do_not_depend_on_parts(tmp_path, monkeypatch):
    rows = ["n,x,y", *(f"{k},{k / 8},{k / 8}" for k in range(500)), "12,maybe,maybe"]
    rows += [f"1,2,no {k}" for k in range(9)]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    whole = open_file(tmp_path / "rows.csv")
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 100)
    parts = open_file(tmp_path / "rows.csv")
    assert parts.parts > 10
    assert parts.schema == whole.schema
    assert parts.schema.field("x").type == pa.string()
    assert parts.gathered().equals(whole.gathered())
    found = inferred(whole)
    assert found == inferred(parts)
    assert {name: one.reading for name, one in found.items()} == {
        "n": Reading("n", "integer"),
        "x": Reading("x", "float", ("maybe",)),
    }
    assert found["x"].odd == 1


def test_parquet_files_by_row_group(tmp_path):
    made = pa.table({"a": range(100), "b": [f"t{k % 7}" for k in range(100)]})
    pq.write_table(made[:60], tmp_path / "1.parquet", row_group_size=25)
    pq.write_table(made[60:], tmp_path / "2.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    table = open_file(tmp_path)
    assert table.parts == 4
    assert table.gathered() == made
    assert table.select(["b"], placed=True).gathered().column(1).to_pylist()[-1] == 3
    pq.write_table(made.select(["a"]), tmp_path / "3.parquet")
    with pytest.raises(DataError, match=r"other columns or types in .*3.parquet"):
        open_file(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "found no lines"),
        (b"a,b\n1,2,3\n", "expected 2; correct or remove it"),
        (b"a,b\n1\n", "expected 2; correct or remove it"),
        (b'a,b\n1,"2\n', "a quote that is not closed in line 2"),
        (b"a,\xff\n1,2\n", "another encoding than UTF-8"),
        (b"a,b\n1,\xff\n", "in UTF-8"),
    ],
)
def test_malformed_files_are_one_sentence(tmp_path, content, words):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(DataError, match=words):
        read(tmp_path / "rows.csv")


def test_columns_without_a_name_or_of_one_name(tmp_path):
    (tmp_path / "rows.csv").write_text(",a,A,b\n1,2,3,4\n")
    found = {"_c0": [1], "a": [2], "A": [3], "b": [4]}
    assert read(tmp_path / "rows.csv").to_pydict() == found
    (tmp_path / "rows.csv").write_text("a,a,b,a.1,a\n1,2,3,4,5\n")
    assert read(tmp_path / "rows.csv").column_names == ["a", "a.2", "b", "a.1", "a.3"]


def test_other_paths_are_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match="found no file"):
        open_file(tmp_path / "none.csv")
    (tmp_path / "rows.xlsx").write_text("")
    with pytest.raises(ConfigError, match=r"files of \['.xlsx'\]"):
        open_file(tmp_path / "rows.xlsx")


@pytest.mark.parametrize("spread", [10, 10**6, 10**13])
def test_the_time_of_a_share_is_exact(spread):
    rng = np.random.default_rng(4)
    times = rng.integers(-spread, spread, 999).astype("datetime64[us]")
    table = ArrowTable.of(pa.table({"at": times}), 70)
    for share in (0.01, 0.5, 0.8, 1.0):
        expected = np.sort(times)[int(np.ceil(share * times.size)) - 1]
        cut = time_at(table, "at", share)
        assert cut == (expected, (times < expected).sum(), (times <= expected).sum(), times.size)
    before, after = by_time(table, "at", time_at(table, "at", 0.8).time.item())
    assert before.gathered().num_rows == (times < np.sort(times)[799]).sum()
    assert before.gathered().num_rows + after.gathered().num_rows == times.size


def test_parquet_files_of_a_table_with_partitions(tmp_path):
    """Files that an evolving table has: without a column, with narrower types, in directories."""
    old = pa.table({"a": pa.array([1, 2], pa.int32()), "x": [0.5, 1.5]})
    new = pa.table({"a": [3, 4], "x": [2.5, None], "city": ["Köln", "Oslo"]})
    places = ["day=2026-03-01/site=a%2Fb", f"day=2026-03-02/site={NONE}"]
    found = []
    for place, rows in zip(places, (old, new), strict=True):
        (tmp_path / place).mkdir(parents=True)
        found.append(str(tmp_path / place / "part-0.parquet"))
        pq.write_table(rows, found[-1], row_group_size=1)
    types = {"a": pa.int64(), "x": pa.float64(), "city": pa.string()}
    schema = pa.schema(types | {"day": pa.date32(), "site": pa.string()})
    partitions = pa.schema([schema.field(name) for name in ("day", "site")])
    table = parquet_files.parquet_rows(found, schema, partitions)
    assert (table.parts, table.schema) == (4, schema)
    days = [datetime.date(2026, 3, 1 + k // 2) for k in range(4)]
    assert table.gathered().to_pydict() == {
        "a": [1, 2, 3, 4],
        "x": [0.5, 1.5, 2.5, None],
        "city": [None, None, "Köln", "Oslo"],
        "day": days,
        "site": ["a/b", "a/b", None, None],
    }
    # Columns of which a file has none.
    assert table.select(["day"]).gathered()["day"].to_pylist() == days
    assert table.select(["city"]).gathered()["city"].to_pylist() == [None, None, "Köln", "Oslo"]


def test_parquet_that_cannot_be_read(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 no rows PAR1")
    with pytest.raises(DataError, match=r"unreadable Parquet file .*rows\.parquet"):
        open_file(tmp_path / "rows.parquet")
    rows = pa.table({"a": np.arange(1000.0)})
    pq.write_table(rows, tmp_path / "rows.parquet", compression="none", use_dictionary=False)
    content = bytearray((tmp_path / "rows.parquet").read_bytes())
    content[4:40] = b"\xff" * 36
    (tmp_path / "rows.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"unreadable Parquet file .*rows\.parquet"):
        open_file(tmp_path / "rows.parquet").gathered()


def test_times_and_notes_of_spark(tmp_path):
    """Times of 96 bits are instants, and vectors keep the notes of Spark ML."""
    at = pa.array([0, 1_700_000_000_123_456], pa.timestamp("us"))
    noted = {"fields": [{"name": "at", "metadata": {"ml_attr": {"num_attrs": 3}}}]}
    key = b"org.apache.spark.sql.parquet.row.metadata"
    rows = pa.table({"at": at}).replace_schema_metadata({key: json.dumps(noted)})
    pq.write_table(rows, tmp_path / "rows.parquet", use_deprecated_int96_timestamps=True)
    table = open_file(tmp_path / "rows.parquet")
    assert table.schema.field("at").type == pa.timestamp("us", "UTC")
    assert table.gathered()["at"].cast(pa.timestamp("us")).to_pylist() == at.to_pylist()
    metadata = table.schema.field("at").metadata
    assert json.loads(metadata[METADATA]) == {"ml_attr": {"num_attrs": 3}}


@pytest.mark.parametrize("is_stated", [True, False])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_separator_beside_names_with_lines_and_quotes(tmp_path, separator, is_stated):
    """Quotes enclose a name at the start of a field alone, and may hold ends of lines."""
    path = tmp_path / "rows.csv"
    blanks = "\t " if is_stated and separator != "\t" else " "
    header = f"{separator}{blanks}".join(['"two\n|lines;,"', '"a ""b"""', '1"', '"\n"'])
    stated = f"sep={separator}\n" * is_stated
    path.write_text(f"{stated}{header}\n{separator.join('1234')}\n")
    assert open_file(path, trimmed=True).schema.names == ["two\n|lines;,", 'a "b"', '1"', "\n"]
