"""Quotes of CSV lines against the reader of the standard library, and in every division."""

import contextlib
import csv
import io
import itertools

import numpy as np
import pytest

from spark_auc.features.quotes import Quotes
from spark_auc.features.raw_columns import Text


def text(lines):
    data = [line.encode() for line in lines]
    offsets = np.cumsum([0, *map(len, data)])
    return Text.of_offsets(offsets, np.frombuffer(b"".join(data), np.uint8))


def scanned(content, cuts=(), escape='"', spaced=False):
    """The quotes after all lines of a file, which are given in several parts."""
    lines = content.split("\n")
    quotes, bounds = Quotes(is_open=False), [0, *cuts, len(lines)]
    for first, end in itertools.pairwise(bounds):
        quotes = quotes.after(text(lines[first:end]), first, ",", escape, spaced=spaced)
    return quotes


VALUES = ["", "a", '"', "\n", ",", 'x"y', '"\n"', "\n\n", 'a "b"\nc', '",\n', "é\n"]


def test_of_written_values():
    """What a CSV writer quotes is closed, and spans lines exactly where values do."""
    drawn = np.random.default_rng(0)
    for _ in range(300):
        rows = drawn.choice(VALUES, (drawn.integers(1, 5), 3)).tolist()
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(rows)
        content = out.getvalue().removesuffix("\n")
        cuts = sorted(drawn.integers(0, content.count("\n") + 2, 2).tolist())
        quotes = scanned(content, cuts)
        assert not quotes.is_open, content
        assert not quotes.is_broken, content
        assert quotes.spans == any("\n" in value for row in rows for value in row), content


def test_of_written_values_without_a_closing_quote():
    """Without one closing quote, the reader of the standard library has other rows or an error."""
    drawn = np.random.default_rng(1)
    for _ in range(300):
        rows = [["a", "b", "c"] for _ in range(6)]
        place, column = drawn.integers(0, 5), drawn.integers(0, 3)
        rows[place][column] = "M,"
        rows[5][drawn.integers(0, 3)] = str(drawn.choice(["x,y", "plain", 'q"']))
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(rows)
        content = out.getvalue().removesuffix("\n").replace('"M,"', '"M,', 1)
        with contextlib.suppress(csv.Error):
            assert list(csv.reader(io.StringIO(content), strict=True)) != rows
        quotes = scanned(content)
        assert quotes.is_open or quotes.is_broken, content
        assert quotes.opened == place, content


@pytest.mark.parametrize(
    ("content", "escape", "expected"),
    [
        # A quote inside a value without quotes is text.
        ('5" pipe,1\n6" pipe,2', '"', Quotes(False, -1)),
        ('5" pipe,"a\nb"', '"', Quotes(False, 0, True)),
        ("", '"', Quotes(False, -1)),
        # Spaces after a quote; a quote after spaces is text.
        ('a,"b\nc" ,d', '"', Quotes(False, 0, True)),
        ('a, "b\nc" ,d', '"', Quotes(False, -1)),
        ('1, "a,0', '"', Quotes(False, -1)),
        # In one line, text after a closing quote concerns this line only.
        ('"a" b,c\n"d\ne"', '"', Quotes(False, 1, True)),
        ('"a\nb" c', '"', Quotes(False, 0, True, True)),
        ('a\n"b', '"', Quotes(True, 1, True)),
        ('"a\n""",b', '"', Quotes(False, 0, True)),
        ('"a\\"\nb",c', "\\", Quotes(False, 0, True)),
        ('"a\\\\"\nb,c', "\\", Quotes(False, 0)),
    ],
)
def test_of_files(content, escape, expected):
    assert scanned(content, escape=escape) == expected
    for cut in range(content.count("\n") + 2):
        assert scanned(content, [cut], escape) == expected


def test_spaces_before_quotes_that_are_ignored():
    for content in ('a, "b\nc" ,d', ' \t"a\nb",c'):
        assert scanned(content, spaced=True) == Quotes(False, 0, True)
    assert scanned('1, "a,0', spaced=True) == Quotes(True, 0, True)


def test_lines_that_are_missing():
    lines = text(['a,"b', 'c"'])._replace(validity=np.array([False, True]))
    assert Quotes(is_open=False).after(lines, 0, ",", '"') == Quotes(is_open=False)
