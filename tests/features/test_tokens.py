"""Hashes of tokens against MurmurHash3 in plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from spark_auc.errors import DataError
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.murmur import hash_of, prefix_of
from spark_auc.features.raw_columns import Numbers, Text
from spark_auc.features.recipe import Recipe
from tests.features.raw_rows import murmur3, numbers, take, text, token

SPECIAL = [
    "",
    "\0",
    "\0\0\0\0",
    "a",
    "ab",
    "abc",
    "abcd",
    "abcde",
    "köln",
    "東京",
    "🎉",
    "x" * 100_000,
]


def indices(column, recipe):
    """The index of each row's token, -1 for none."""
    X = recipe.transform({"c": column})
    assert X.indices.dtype == np.int32
    found = np.full(X.shape[0], -1)
    found[np.diff(X.indptr) > 0] = X.indices
    return found


def expected(words, dimension, name="c"):
    return [murmur3(f"{name}=".encode() + word) % dimension for word in words]


def test_known_hashes():
    """Published values of MurmurHash3_x86_32 check the oracle."""
    assert murmur3(b"", 0) == 0
    assert murmur3(b"test", 0) == 0xBA6BD213 - 2**32
    assert murmur3(b"Hello, world!", 0) == 0xC0363E43 - 2**32
    for name in ("", "c=", "länge=", "word="):
        for value in SPECIAL:
            assert hash_of(prefix_of(name), value) == murmur3((name + value).encode())


@pytest.mark.parametrize("dimension", [1, 2, 10_000, 2**20, 2**31 - 2])
@pytest.mark.parametrize("offset", [np.int32, np.int64])
def test_random_bytes(dimension, offset):
    rng = np.random.default_rng(dimension)
    words = [rng.bytes(int(n)) for n in rng.integers(0, 24, 10_000)]
    words += [word.encode() for word in SPECIAL]
    recipe = Recipe(hashed=(Tokens("c", "text"),), dimension=dimension)
    column = text(words, offset, b"skipped")
    np.testing.assert_array_equal(indices(column, recipe), expected(words, dimension))
    part = take(column, slice(3, 5_000))
    np.testing.assert_array_equal(indices(part, recipe), expected(words[3:5000], dimension))


@pytest.mark.parametrize("name", ["c", "ab", "abc", "abcd", "ö"])
def test_prefixes_of_any_length(name):
    words = [b"v" * k for k in range(12)]
    X = Recipe(hashed=(Tokens(name, "text"),)).transform({name: text(words)})
    np.testing.assert_array_equal(X.indices, expected(words, 2**18, name))


def test_missing_and_empty_values():
    values = [None, "", "a", None, "b"]
    made = Recipe(hashed=(Tokens("c", "text"),))
    empty = murmur3(b"c=") % made.dimension
    found = indices(text(values), made)
    np.testing.assert_array_equal(found[[0, 1, 3]], empty)
    np.testing.assert_array_equal(indices(text([None] * 9), made), [empty] * 9)
    # The bytes of a null value do not count.
    filled = text(["junk", "a"])._replace(validity=np.array([False, True]))
    assert indices(filled, made)[0] == empty
    ignoring = Recipe(hashed=(Tokens("c", "text"),), missing="ignore")
    np.testing.assert_array_equal(indices(text(values), ignoring)[[0, 1, 3]], -1)
    np.testing.assert_array_equal(indices(text([None] * 9), ignoring), [-1] * 9)
    np.testing.assert_array_equal(indices(text([]), made), [])


def test_integers_are_their_digits():
    values = [0, 7, -7, 10, None, 2**63 - 1, -(2**63), 123456789]
    words = [b"" if v is None else str(v).encode() for v in values]
    made = Recipe(hashed=(Tokens("c", "integer"),))
    found = indices(numbers(values, np.int64), made)
    np.testing.assert_array_equal(found, expected(words, made.dimension))
    np.testing.assert_array_equal(found, indices(text(words), made))
    small = numbers([3, None, 255], np.uint8)
    assert list(indices(small, made)) == expected([b"3", b"", b"255"], made.dimension)
    with pytest.raises(
        DataError, match=r"found 9223372036854775808 in column 'c', expected .*2\^63"
    ):
        made.transform({"c": Numbers(np.array([2**63], np.uint64))})


@pytest.mark.parametrize("missing", ["indicator", "ignore"])
def test_values_that_are_listed(missing):
    """Others share a token, and missing values have theirs or none."""
    listed = ("-5", "0", "12", str(2**60), str(2**60 + 1))
    made = Recipe(hashed=(Tokens("c", "integer", listed),), missing=missing)
    values = [-5, 0, 12, 2**60, 2**60 + 1, None, 5, -12, 2**60 + 2, 2**63 - 1, -(2**63)]
    words = [*listed, "", *["other"] * 5]
    known = [k for k, word in enumerate(words) if word or missing == "indicator"]
    hashed = expected([words[k].encode() for k in known], made.dimension)
    of_text = [None if v is None else str(v) for v in values]
    for column in (numbers(values, np.int64), text(of_text), text([t or "" for t in of_text])):
        X = made.transform({"c": column})
        assert np.flatnonzero(np.diff(X.indptr)).tolist() == known
        assert X.indices.tolist() == hashed
    odd = text(["012", "+12", " 12", "12.0", "x", "other"])
    assert set(made.transform({"c": odd}).indices) == set(hashed[-1:])
    (column,) = made.hashed
    tokens = [column.token(numbers(values, np.int64), row) for row in range(len(values))]
    assert tokens == [f"c={word}" if word else "c missing" for word in words]
    assert column.unknown(numbers(values, np.int64)) == column.unknown(text(of_text)) == 5


def test_booleans():
    made = Recipe(hashed=(Tokens("c", "boolean"),))
    found = indices(numbers([True, False, None], bool), made)
    assert list(found) == expected([b"true", b"false", b""], made.dimension)


def test_logarithms():
    rng = np.random.default_rng(0)
    values = [*range(-3, 60), None, *(10 ** rng.uniform(0, 18, 500)).astype(np.int64).tolist()]
    log = Log("c", "integer")
    words = [token(log, value).encode() for value in values]
    made = Recipe(hashed=(log,))
    found = indices(numbers(values, np.int64), made)
    np.testing.assert_array_equal(found, expected(words, made.dimension))
    of_text = Recipe(hashed=(Log("c", "text"),))
    column = text([None if v is None else str(v) for v in values], skipped=b"123")
    np.testing.assert_array_equal(indices(column, of_text), found)
    # Text has the token of the integer that it writes.
    odd = ["02", "+2", "+5", "-9", "-09", "-0", "+0", "000", "0007", "0", "", None]
    whole = [None if not word else int(word) for word in odd]
    assert list(indices(text(odd), of_text)) == list(indices(numbers(whole, np.int64), made))


@pytest.mark.parametrize("wrong", ["x", "1.5", "-", " 3", "3 ", "1" * 19, "--1", "1e3"])
def test_text_that_is_no_integer(wrong):
    made = Recipe(hashed=(Log("c", "text"),))
    with pytest.raises(DataError, match=r"row 1 of a batch\), expected an integer of at most 18"):
        made.transform({"c": text(["7", wrong, "8"])})


@pytest.mark.parametrize("offsets", [[0, 3, 2], [0, 9, 9], [-1, 2, 3], [0, 2, 99]])
def test_offsets_outside_the_data(offsets):
    made = Recipe(hashed=(Tokens("c", "text"),))
    column = Text.of_offsets(np.array(offsets, np.int32), np.zeros(5, np.uint8))
    with pytest.raises(DataError, match="expected starts and ends within"):
        made.transform({"c": column})
