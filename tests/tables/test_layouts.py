"""Text of a layout: given columns and types, without quotes, in any division."""

from __future__ import annotations

import csv
import math
import os

import numpy as np
import pyarrow as pa
import pytest

from spark_auc.errors import ConfigError, DataError
from spark_auc.storage.file_systems import COMPRESSED, compression_of
from spark_auc.tables import text_ranges
from spark_auc.tables.delimited import DelimitedFiles
from spark_auc.tables.files import text_rows
from spark_auc.tables.layouts import AVAZU, CRITEO, Layout, layout_of
from tests import data

SMALL = Layout(",", ("y", "x", "word"), integers=("y",), floats=("x",))
HEADED = Layout(",", ("y", "x", "word"), integers=("y",), floats=("x",), header=True)
ROWS = ["1,0.5,a", "0,,köln", ",-1e3,", "1,7,c"]
VALUES = {"y": [1, 0, None, 1], "x": [0.5, None, -1e3, 7.0], "word": ["a", "köln", None, "c"]}
MARK = b"\xef\xbb\xbf"


def write(path, lines, end="\n"):
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
    return str(path)


def packed(path, content):
    """Write a file, which its suffix compresses."""
    kind = compression_of(str(path))
    with pa.output_stream(str(path), compression=kind) as stream:
        stream.write(content)


@pytest.mark.parametrize(("name", "layout"), [("criteo_80k.tsv", CRITEO), ("avazu_9k.csv", AVAZU)])
def test_click_logs(tmp_path, monkeypatch, name, layout):
    with data.path(name).open(newline="") as file:
        lines = [next(file).rstrip("\r\n") for _ in range(2_000)]
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 50_000)
    table = text_rows([write(tmp_path / "rows", lines)], layout=layout)
    assert table.parts > 1
    found = table.gathered()
    rows = list(csv.reader(lines, delimiter=layout.separator))[layout.header :]
    for field, texts in zip(layout.names, zip(*rows, strict=True), strict=True):
        kind = int if field in layout.integers else str
        assert found[field].to_pylist() == [kind(text) if text else None for text in texts]


@pytest.mark.parametrize(
    ("layout", "end"),
    # A header ends at a line feed.
    [(SMALL, "\n"), (SMALL, "\r\n"), (SMALL, "\r"), (HEADED, "\n"), (HEADED, "\r\n")],
)
@pytest.mark.parametrize("mark", [b"", MARK])
@pytest.mark.parametrize("size", [1, 7, 20, 10_000])
def test_values_and_types_in_any_division(tmp_path, monkeypatch, layout, end, mark, size):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", size)
    paths = []
    for name in ("a", "b"):
        path = tmp_path / name
        head = ["y,x,word"] if layout.header else []
        path.write_bytes(mark + end.join([*head, *ROWS]).encode())
        paths.append(str(path))
    found = text_rows(paths, layout=layout).gathered()
    assert found.schema == layout.schema
    assert found.to_pydict() == {name: 2 * values for name, values in VALUES.items()}


def test_numbers(tmp_path):
    lines = ["9223372036854775807,1.7976931348623157e308,0x1", "-7,-inf,y", "007,-.5,NA", "1,nan,z"]
    found = text_rows([write(tmp_path / "rows", lines)], layout=SMALL).gathered().to_pydict()
    assert found["y"] == [2**63 - 1, -7, 7, 1]
    assert found["x"][:3] == [1.7976931348623157e308, -math.inf, -0.5]
    assert math.isnan(found["x"][3])
    assert found["word"] == ["0x1", "y", "NA", "z"]


@pytest.mark.parametrize("suffix", sorted(COMPRESSED))
@pytest.mark.parametrize("layout", [SMALL, HEADED])
def test_compressed_files(tmp_path, monkeypatch, suffix, layout):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 100)
    lines = (["y,x,word"] if layout.header else []) + 500 * ROWS
    packed(tmp_path / f"rows{suffix}", MARK + "\n".join(lines).encode())
    table = text_rows([str(tmp_path / f"rows{suffix}")], layout=layout)
    assert table.gathered()["word"].to_pylist() == 500 * VALUES["word"]
    packed(tmp_path / f"rows{suffix}", "\n".join([*lines, "1,a,b", "1,2"]).encode())
    table = text_rows([str(tmp_path / f"rows{suffix}")], layout=layout)
    with pytest.raises(DataError, match=f"in line {len(lines) + 1} of .*'a' in column 'x'"):
        table.gathered()


MALFORMED = [
    ("1,2", "with 2 fields, expected 3"),
    ("1,2,a,", "with 4 fields, expected 3"),
    ('1,2,"a', "with quotes, expected fields without quotes; read the file as csv"),
    ('"1",2,a', "with quotes, expected fields without quotes"),
    ("1.5,2,a", "with '1.5' in column 'y', expected an integer"),
    ("1,2_0,a", "with '2_0' in column 'x', expected a number"),
    ("99999999999999999999,2,a", "in column 'y', expected an integer"),
    ("0x1F,2,0x1F", "with '0x1F' in column 'y', expected an integer"),
    (" -0X1f,2,a", "in column 'y', expected an integer"),
    (" ,2,a", "with ' ' in column 'y', expected an integer"),
    ("1, ,a", "with ' ' in column 'x', expected a number"),
]


@pytest.mark.parametrize("size", [50, 2_000, 10**6])
@pytest.mark.parametrize(("line", "words"), MALFORMED)
def test_a_malformed_line_names_file_and_line(tmp_path, monkeypatch, line, words, size):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", size)
    good = write(tmp_path / "a", ROWS)
    path = write(tmp_path / "b", [*ROWS * 100, "", line, *ROWS, "x"])
    table = text_rows([good, path], layout=SMALL)
    with pytest.raises(DataError) as raised:
        table.gathered()
    message = str(raised.value)
    assert message.startswith(f"found the row {line!r} in line 402 of {path} with ")
    assert words in message


def test_columns_that_are_not_read_may_have_text(tmp_path):
    path = write(tmp_path / "rows", ["1,a,b"])
    assert text_rows([path], layout=SMALL).select(["y", "word"]).gathered().num_rows == 1


def test_quotes_inside_of_fields_are_text(tmp_path):
    path = write(tmp_path / "rows", ['1,2,5" pipe', '0,1,a"b"'])
    found = text_rows([path], layout=SMALL).gathered()
    assert found["word"].to_pylist() == ['5" pipe', 'a"b"']


def test_files_are_listed_without_a_pass_over_them(tmp_path, monkeypatch):
    """Only quotes need one."""
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 1_000_000)
    path = write(tmp_path / "rows", 600_000 * ["1,2,a"])
    read = []
    bytes_of = text_ranges._bytes

    def noted(part):
        read.append(part.end - part.start)
        return bytes_of(part)

    monkeypatch.setattr(text_ranges, "_bytes", noted)
    files = DelimitedFiles.of([path], layout=SMALL)
    assert len(files.ranges) == 4
    assert sum(read) < os.path.getsize(path) / 2


def test_ranges_are_at_most_so_many(tmp_path, monkeypatch):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", 1)
    monkeypatch.setattr(text_ranges, "_MOST_RANGES", 7)
    path = write(tmp_path / "rows", 100 * ROWS)
    files = DelimitedFiles.of([path], layout=SMALL)
    assert 5 <= len(files.ranges) <= 7
    rows = [b.num_rows for k in range(len(files.ranges)) for b in files.read(k, ["y"])]
    assert sum(rows) == 400


def test_random_lines(tmp_path, monkeypatch):
    words = ["", "a", "7", "köln", "東京", "🎉", 'a"b', " ", "x" * 5_000]
    drawn = np.random.default_rng(3)
    layout = Layout("|", tuple(f"c{k}" for k in range(5)))
    rows = [["r", *(words[k] for k in row)] for row in drawn.integers(0, len(words), (200, 4))]
    path = write(tmp_path / "rows", map("|".join, rows))
    for size in (1, 1_000, 10**6):
        monkeypatch.setattr(text_ranges, "_RANGE_BYTES", size)
        found = text_rows([path], layout=layout).gathered().to_pylist()
        assert [[value or "" for value in row.values()] for row in found] == rows


def test_headers(tmp_path):
    path = write(tmp_path / "a", ["y,x,word", *ROWS])
    other = write(tmp_path / "b", ["y,word,x", *ROWS])
    with pytest.raises(DataError, match=r"found the header .* in .*b', expected .* the layout"):
        text_rows([path, other], layout=HEADED)
    with pytest.raises(DataError, match="'y' in column 'y'"):
        text_rows([path], layout=SMALL).gathered()


def test_files_without_lines(tmp_path):
    path = write(tmp_path / "rows", [])
    assert text_rows([path], layout=SMALL).gathered().num_rows == 0
    with pytest.raises(DataError, match="found no lines"):
        text_rows([path], layout=HEADED)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"separator": "::"}, "found separator '::', expected one ASCII character"),
        ({"separator": '"'}, "expected one ASCII character other than a quote"),
        ({"separator": "·"}, "expected one ASCII character"),
        ({"names": ()}, "expected one or more different names"),
        ({"names": ("a", "a")}, "expected one or more different names"),
        ({"names": ("a",), "floats": ("b",)}, r"found numbers \['b'\]"),
        ({"names": ("a",), "floats": ("a",), "integers": ("a",)}, r"found numbers \['a', 'a'\]"),
    ],
)
def test_layouts_that_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        Layout(**{"separator": ",", "names": ("a", "b")} | settings)


def test_layouts_of_formats():
    options = {"separator": "tab", "columns": "y integer, price float, site", "header": "true"}
    made = Layout("\t", ("y", "price", "site"), ("y",), ("price",), header=True)
    assert layout_of("delimited", options) == made
    assert layout_of("criteo", {}) is CRITEO
    assert layout_of("csv", {"sep": ","}) is None
