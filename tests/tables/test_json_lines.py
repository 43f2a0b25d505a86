"""JSON Lines as tables: values of Python's reader, in ranges of any size."""

import json
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from spark_auc.errors import DataError
from spark_auc.storage.file_systems import compression_of
from spark_auc.tables import text_ranges
from spark_auc.tables.files import json_rows, open_file
from spark_auc.tables.nested import with_fields
from spark_auc.tables.text_types import inferred

TEXTS = ["plain", 'with "quotes"', "two\nlines", "", "Köln \u2028", "2024-02-29", "{[", "7"]


def records(rows=300, seed=1):
    """Records of every type; fields are absent, null, or of other types in late rows."""
    rng = np.random.default_rng(seed)
    made = []
    for k in range(rows):
        record = {
            "whole": int(rng.integers(-(2**62), 2**62)),
            "late": float(k) / 8 if k > 280 else k,
            "flag": bool(rng.random() < 0.5),
            "text": str(rng.choice(TEXTS)),
            "day": "2024-01-01" if k < 290 else "unknown",
            "never": None,
            "user": {"age": int(rng.integers(99)), "names": [str(rng.choice(TEXTS))]},
        }
        made.append({name: value for name, value in record.items() if rng.random() < 0.8})
    return [*made, {"last": [{"a": 1}, {"b": None}]}]


TYPES = {
    "whole": pa.int64(),
    "late": pa.float64(),
    "flag": pa.bool_(),
    "text": pa.string(),
    "day": pa.string(),
    "never": pa.string(),
    "user": pa.struct([("age", pa.int64()), ("names", pa.list_(pa.string()))]),
    "last": pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])),
}


def without_nulls(value):
    if isinstance(value, dict):
        return {name: without_nulls(v) for name, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


@pytest.fixture
def small_ranges(monkeypatch):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 100)


def written(path, lines, ending="\n"):
    """A file of lines, compressed by its suffix."""
    text = b"\xef\xbb\xbf" + ending.join(lines).encode()
    kind = compression_of(str(path))
    with pa.CompressedOutputStream(str(path), kind) if kind else path.open("wb") as out:
        out.write(text)
    return path


@pytest.mark.parametrize(
    ("suffix", "ending", "range_bytes"),
    [
        *product([".json"], ["\n", "\r\n", "\n \n\n"], [1, 100, 1 << 20]),
        *product([".jsonl.gz", ".ndjson.bz2", ".JSONL.zst"], ["\n", "\r\n"], [1000]),
    ],
)
def test_values_and_types_are_those_of_all_records(
    tmp_path, monkeypatch, suffix, ending, range_bytes
):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", range_bytes)
    made = records()
    path = written(tmp_path / f"rows{suffix}", map(json.dumps, made), ending)
    table = open_file(path)
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) == TYPES
    found = table.gathered()
    assert list(map(without_nulls, found.to_pylist())) == list(map(without_nulls, made))
    few = table.select(["text", "late"]).gathered()
    assert few.columns == [found["text"], found["late"]]
    uncompressed = suffix == ".json"
    assert (table.parts > 50) == (uncompressed and range_bytes <= 100)
    assert [*inferred(table)] == ["day"]


@pytest.mark.usefixtures("small_ranges")
def test_ranges_begin_after_line_feeds_of_files_in_order(tmp_path):
    made = records()
    lines = [json.dumps(record) for record in made]
    for k in range(3):
        written(tmp_path / f"{k}.jsonl", lines[100 * k : 100 * (k + 1)])
    (tmp_path / "3.jsonl").touch()
    (tmp_path / "_SUCCESS").touch()
    table = open_file(tmp_path)
    found = [without_nulls(row) for row in table.gathered().to_pylist()]
    assert found == list(map(without_nulls, made[:300]))
    places = table.select(["text"], placed=True).gathered().column(1).to_numpy()
    assert np.unique(places).size > 50
    # Columns have the order in which the files first have them, not that of the last range.
    assert table.schema.names == [*dict.fromkeys(name for record in made[:300] for name in record)]


@pytest.mark.usefixtures("small_ranges")
def test_fields_of_objects(tmp_path):
    made = records()
    table = open_file(written(tmp_path / "rows.jsonl", map(json.dumps, made)))
    found = with_fields(table, ["user.age"]).select(["user.age"]).gathered()
    expected = [record.get("user", {}).get("age") for record in made]
    assert found.column(0).to_pylist() == expected


MALFORMED = "expected one JSON object in UTF-8; correct or remove it"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"a": "x"}', r"found text in field 'a' in line 31 of .*, expected a number as in"),
        ('{"a": true}', "found true or false in field 'a' in line 31 of .*, expected a number"),
        ('{"u": {"v": [7]}}', r"found a number in field 'u\.v' in line 31 of .*, expected text"),
        ('{"u": [7]}', "found a list in field 'u' in line 31 of .*, expected an object"),
        ('{"u": {"v": null, "w": 1}', rf"""found '{{"u": .* in line 31 of .*{MALFORMED}"""),
        ("[1]", rf"found '\[1\]' in line 31 of .*{MALFORMED}"),
        ("7", rf"found '7' in line 31 of .*{MALFORMED}"),
        ('{"a": 1} {"a": 2}', rf"in line 31 of .*\(2 objects\), {MALFORMED}"),
        ('{"a":\n1}', rf"in line 31 of .*{MALFORMED}"),
        ('{"a": 1, "a": 2}', rf"in line 31 of .*specified twice\), {MALFORMED}"),
        ('{"b": "\udcff"}', rf"in line 31 of .*utf-8.*, {MALFORMED}"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("range_bytes", [10, 1 << 20])
def test_errors_name_file_and_line(tmp_path, monkeypatch, line, words, suffix, range_bytes):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", range_bytes)
    rows = ['{"a": 1, "u": {"v": ["x"]}}', '{"a": 2.5}'] * 15
    text = "\n".join([*rows, line, *rows]).encode(errors="surrogateescape")
    path = tmp_path / f"rows.jsonl{suffix}"
    with pa.CompressedOutputStream(str(path), "gzip") if suffix else path.open("wb") as out:
        out.write(text)
    with pytest.raises(DataError, match=words):
        open_file(path)


@pytest.mark.parametrize("content", ["", "\n\n", "{}\n{}"])
def test_files_without_fields(tmp_path, content):
    (tmp_path / "rows.jsonl").write_text(content)
    with pytest.raises(DataError, match=r"found no fields in .*, expected a JSON object on each"):
        open_file(tmp_path / "rows.jsonl")


def test_files_that_change_are_refused(tmp_path):
    path = written(tmp_path / "rows.jsonl", ['{"a": 1}'])
    table = json_rows([str(path)])
    path.write_text('{"a": "x"}')
    with pytest.raises(DataError, match="changed since it was listed"):
        table.gathered()
    assert open_file(path).schema.field("a").type == pa.string()
    path.write_text('{"a": {"b": 1}}')
    assert pa.types.is_struct(open_file(path).schema.field("a").type)
