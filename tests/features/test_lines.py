"""Fields of lines against `str.split`."""

from __future__ import annotations

import numpy as np
import pytest

from spark_auc.errors import LineError
from spark_auc.features.lines import contiguous, split
from spark_auc.features.raw_columns import Text
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_tokens import Tokens
from tests.features.raw_rows import take, text

WORDS = ["", "", "a", "7", "-1.5", "köln", "東京", "🎉", "\0", 'a"b', " ", "\r", "x" * 100_000]


def values(column: Text) -> list[str | None]:
    valid = np.ones(column.starts.size, bool) if column.validity is None else column.validity
    rows = zip(column.starts, column.ends, valid, strict=True)
    return [column.data[a:b].tobytes().decode() if ok else None for a, b, ok in rows]


def lines_of(rng, separator, fields, rows):
    return [
        separator.join(WORDS[k].replace(separator, ";") for k in row)
        for row in rng.integers(0, len(WORDS), (rows, fields))
    ]


@pytest.mark.parametrize("offset", [np.int32, np.int64])
@pytest.mark.parametrize(("separator", "fields"), [("\t", 1), ("\t", 40), (",", 3), ("\0", 4)])
def test_random_lines(separator, fields, offset):
    lines = lines_of(np.random.default_rng(fields), separator, fields, 50)
    column = text(lines, offset, b'"skipped,\t')
    expected = [line.split(separator) for line in lines]
    columns = split(column, separator, fields)
    assert [values(c) for c in columns] == [list(c) for c in zip(*expected, strict=True)]
    assert all(c.data is column.data and c.starts.dtype == offset for c in columns)
    part = split(take(column, slice(7, 30)), separator, fields)
    assert [values(c) for c in part] == [list(c) for c in zip(*expected[7:30], strict=True)]
    for one in columns:
        own = contiguous(one)
        assert values(own) == values(one)
        assert own.data.size == (one.ends - one.starts).sum()


def test_missing_lines():
    column = text(["a,b", None, ",", None], skipped=b"1,2,3")
    columns = split(column, ",", 2)
    assert [values(c) for c in columns] == [["a", None, "", None], ["b", None, "", None]]
    # The bytes of a missing line are not split.
    filled = text(["a,b", "x"])._replace(validity=np.array([True, False]))
    second = split(filled, ",", 2)[1]
    assert values(second) == ["b", None]
    assert values(contiguous(second)) == ["b", None]
    assert contiguous(second).data.tobytes() == b"b"
    recipe = Recipe(hashed=(Tokens("c", "text"),))
    X = recipe.transform({"c": second})
    np.testing.assert_array_equal(X.indices, recipe.transform({"c": text(["b", ""])}).indices)


def test_no_lines():
    assert [values(c) for c in split(text([]), ",", 3)] == [[], [], []]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", r"found '' with 1 fields in row 2 of a batch, expected 3 fields separated by ','"),
        ("a,b", r"'a,b' with 2 fields in row 2 .* expected 3 fields .*; repair or remove the line"),
        ("a,b,c,", "with 4 fields"),
        ("a,b,c,d,e", "with 5 fields"),
        ("x" * 999, "found 'x{200}' with 1 fields"),
        ('"a",b,c', "with 3 fields .* expected fields without quotes .*; read it as format csv"),
        ('a,"b,c",d', "with 4 fields .* expected fields without quotes"),
        ('a,b,"', "expected fields without quotes"),
    ],
)
def test_malformed_lines(line, words):
    good = ["1,2,3", ",,"]
    for column in (text([*good, line, "4,5,6"]), text([*good, line], skipped=b"1,2,3,")):
        with pytest.raises(LineError, match=words):
            split(column, ",", 3)
    with pytest.raises(LineError, match="in line 9 of a file"):
        split(text([line]), ",", 3, "line 9 of a file")


@pytest.mark.parametrize("offsets", [[0, 3, 2], [0, 9, 9], [-1, 2, 3]])
def test_offsets_outside_the_data(offsets):
    with pytest.raises(LineError, match=r"row \d of a batch"):
        split(Text.of_offsets(np.array(offsets, np.int32), np.zeros(5, np.uint8)), ",", 1)
