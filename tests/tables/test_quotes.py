"""Ranges of quoted text against the reader of the standard library, in blocks of any size."""

import csv
import io

import numpy as np
import pytest

from spark_auc.errors import DataError
from spark_auc.storage.file_systems import COMPRESSED
from spark_auc.tables import text_ranges
from spark_auc.tables.delimited import DelimitedFiles

VALUES = ["", "a", '"', "\n", ",", 'x"y', '"\n"', "\n\n", 'a "b"\nc', '",\n', "é\n", "\r\n"]
HEADER = "a,b,c\n"


def read(path, size, monkeypatch, **dialect):
    monkeypatch.setattr(text_ranges, "_RANGE_BYTES", size)
    files = DelimitedFiles.of([str(path)], **{"separator": ","} | dialect)
    batches = [batch for k in range(len(files.ranges)) for batch in files.read(k, files.names)]
    return [tuple(value or "" for value in row.values()) for b in batches for row in b.to_pylist()]


@pytest.mark.parametrize("seed", range(40))
def test_written_values_are_read_in_any_division(tmp_path, monkeypatch, seed):
    drawn = np.random.default_rng(seed)
    rows = [("r", *row) for row in drawn.choice(VALUES, (drawn.integers(1, 20), 2)).tolist()]
    out = io.StringIO()
    csv.writer(out, lineterminator=str(drawn.choice(["\n", "\r\n"]))).writerows(rows)
    path = tmp_path / "rows.csv"
    path.write_bytes((HEADER + out.getvalue()).encode())
    for size in (1, 2, 3, 7, 20, 10_000):
        assert read(path, size, monkeypatch) == rows


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # A quote inside of a field without quotes is text.
        (['5" pipe,1,2', '6" pipe,"a,b",3'], [('5" pipe', "1", "2"), ('6" pipe', "a,b", "3")]),
        (['5" pipe,"a', 'b",1', "c,d,e"], [('5" pipe', "a\nb", "1"), ("c", "d", "e")]),
        # After the quotes of a field, further text belongs to it.
        (['"a" b,1,2', '"c",d,e'], [("a b", "1", "2"), ("c", "d", "e")]),
        (['1, 5",2', "c,d,e"], [("1", ' 5"', "2"), ("c", "d", "e")]),
    ],
)
def test_quotes_elsewhere_are_text(tmp_path, monkeypatch, size, lines, expected):
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([HEADER.strip(), *lines]))
    assert read(path, size, monkeypatch) == expected


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (['1,"a,0', "2,b,1"], 2),
        (["1,a,0", '2,b,"1'], 3),
        (['1,"two', 'lines",0', '2,"b,0', "", "3,c,1"], 4),
        (["1,a,0", '2,"b"",0', "3,c,1"], 3),
    ],
)
def test_a_quote_that_is_not_closed_is_refused(tmp_path, monkeypatch, size, lines, number):
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([HEADER.strip(), *lines, ""]))
    with pytest.raises(DataError, match=f"not closed in line {number} of .*rows.csv, expected"):
        read(path, size, monkeypatch)


@pytest.mark.parametrize("separator", [",", "\t", "|"])
@pytest.mark.parametrize("seed", range(20))
def test_blanks_around_fields_are_no_part_of_them(tmp_path, monkeypatch, seed, separator):
    """Written before and after fields, and inside of quotes."""
    drawn = np.random.default_rng(seed)
    blanks = ["", "", " ", "  "] + ["\t"] * (separator != "\t")
    values = ["a", "b c", f"x{separator}y", "two\nlines", 'q"q', "", "é"]
    rows, lines = [], []
    for _ in range(drawn.integers(1, 30)):
        row, fields = ("r", *drawn.choice(values, 2)), []
        for value in row:
            field = value
            if any(c in value for c in (separator, "\n", '"')) or drawn.random() < 0.2:
                inner = "".join(drawn.choice(blanks, 2)) if value else ""
                field = '"' + inner + value.replace('"', '""') + '"'
            fields.append("".join([drawn.choice(blanks), field, drawn.choice(blanks)]))
        rows.append(tuple(map(str, row)))
        lines.append(separator.join(fields))
    end = str(drawn.choice(["\n", "\r\n"]))
    header = separator.join([" a", '"b" ', "c "])
    path = tmp_path / "rows.csv"
    path.write_bytes(end.join([header, *lines]).encode())
    for size in (1, 3, 20, 10_000):
        assert read(path, size, monkeypatch, separator=separator, trimmed=True) == rows
    files = DelimitedFiles.of([str(path)], separator, trimmed=True)
    assert files.names == ("a", "b", "c")


@pytest.mark.parametrize("more", ["", " "])
def test_a_separator_in_quotes_is_no_blank(tmp_path, monkeypatch, more):
    """Also where blanks of other fields are trimmed."""
    path = tmp_path / "rows.tsv"
    path.write_text('a\t"b\t"\tc\n' + f'x{more}\t"\ty \t"\t"\t"\n')
    for size in (1, 10_000):
        found = read(path, size, monkeypatch, separator="\t", trimmed=True)
        assert found == [("x", "\ty \t", "\t")]
    assert DelimitedFiles.of([str(path)], "\t", trimmed=True).names == ("a", "b\t", "c")


def test_blanks_are_part_of_fields_unless_they_are_trimmed(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + ' x,y ," z"\n')
    assert read(path, 100, monkeypatch) == [(" x", "y ", " z")]
    assert read(path, 100, monkeypatch, trimmed=True) == [("x", "y", "z")]


@pytest.mark.parametrize("suffix", sorted(COMPRESSED))
def test_compressed_files(tmp_path, monkeypatch, suffix):
    import pyarrow as pa

    path = str(tmp_path / f"rows.csv{suffix}")
    rows = [(f"{k}", "two\nlines" if k % 3 else "x", "é") for k in range(2000)]
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    with (
        pa.OSFile(path, "w") as file,
        pa.CompressedOutputStream(file, COMPRESSED[suffix]) as stream,
    ):
        stream.write(b"\xef\xbb\xbf" + (HEADER + out.getvalue()).encode())
    assert read(path, 4096, monkeypatch) == rows
    with (
        pa.OSFile(path, "w") as file,
        pa.CompressedOutputStream(file, COMPRESSED[suffix]) as stream,
    ):
        stream.write(f'{HEADER}1,2,"3\n4,5,6\n'.encode())
    with pytest.raises(DataError, match=r"a quote that is not closed in .*rows\.csv"):
        read(path, 4096, monkeypatch)
    with open(path, "rb+") as file:
        file.truncate(20)
    with pytest.raises(DataError, match=r"found .*rows\.csv"):
        read(path, 4096, monkeypatch)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_quotes_of_the_header(tmp_path, monkeypatch, mark):
    path = tmp_path / "rows.csv"
    path.write_bytes(mark + b'"a\nb",5" pipe,"c,d"\n1,2,3\n')
    assert read(path, 10, monkeypatch) == [("1", "2", "3")]
    assert DelimitedFiles.of([str(path)]).names == ("a\nb", '5" pipe', "c,d")


def test_a_file_that_changes_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + "1,2,3\n")
    files = DelimitedFiles.of([str(path)], ",")
    path.write_text(HEADER + "1,2,3\n4,5,6\n")
    with pytest.raises(DataError, match="changed since it was listed"):
        list(files.read(0, ["a"]))
