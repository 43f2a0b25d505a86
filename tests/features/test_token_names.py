"""Tokens of hashed features against counts in Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from spark_auc.errors import DataError, ModelFormatError
from spark_auc.features import recipe as recipe_module
from spark_auc.features import token_hits
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.recipe import Recipe
from spark_auc.features.token_names import FeatureNames, TokenCounts, printable
from spark_auc.features.tokens import Slots
from tests.features.raw_rows import entries, murmur3, text, token
from tests.features.watched_rows import RECIPE, N, columns_of, rows_of, table
from tests.laws import Case, check_laws

LISTS = table()
FIRST, CROSSES, SIZE = RECIPE.starts[-3:]
ALL = np.arange(FIRST, SIZE)
SOME = np.array([FIRST + 1, FIRST + 6, CROSSES - 1, CROSSES + 3, CROSSES + 17])


def name_of(recipe, part, row):
    """The name of a feature of a column."""
    column, index = part
    if index < recipe.starts[-3]:
        return recipe.names()[index]
    word = token(column, row[column.name])
    title = f"{column.name}{column.PART}"
    return f"{title}={word}" if word else f"{title} missing"


def counted(recipe, rows):
    """Rows by hashed feature and token."""
    counts = Counter()
    for row in rows:
        for index, _, parts in entries(recipe, row):
            if index >= recipe.starts[-3]:
                counts[index, " x ".join(name_of(recipe, part, row) for part in parts)] += 1
    return counts


@pytest.mark.parametrize("features", [ALL, SOME, SOME[:0]])
@pytest.mark.parametrize("missing", ["indicator", "ignore"])
def test_counts(features, missing, monkeypatch):
    monkeypatch.setattr(token_hits, "_HITS", 100)
    monkeypatch.setattr(recipe_module, "_CHUNK", 64)
    recipe = replace(RECIPE, missing=missing)
    features = features - RECIPE.starts[-3] + recipe.starts[-3]
    expected = counted(recipe, rows_of(LISTS))
    state = TokenCounts.of(recipe, features, columns_of(LISTS))
    assert state.counts == {key: rows for key, rows in expected.items() if key[0] in features}


def test_tokens_that_are_shown():
    state = TokenCounts.of(RECIPE, SOME, columns_of(LISTS))
    counts = counted(RECIPE, rows_of(LISTS))
    shown = state.tokens()
    for feature in SOME.tolist():
        all_of = sorted((-n, word) for (f, word), n in counts.items() if f == feature and n >= 10)
        expected = [(printable(word), -n) for n, word in all_of[:5]]
        assert shown.get(feature, []) == expected
    # A feature has more tokens than are shown, and a token fewer rows.
    assert len(shown[SOME[0]]) == 5 < sum(feature == SOME[0] for feature, _ in counts)
    assert min(counts.values()) < 10
    for feature, tokens in shown.items():
        listed = ", ".join(f"{word} ({rows})" for word, rows in tokens)
        assert state.names()[feature] == f"mostly {listed}"


def test_rare_tokens_are_not_shown():
    recipe = Recipe(hashed=(Tokens("mail", "text"),), dimension=1)
    mails = ["a@b.c"] * 9 + ["b@b.c"] * 10 + [f"{k}@b.c" for k in range(50)]
    state = TokenCounts.of(recipe, np.array([0]), {"mail": text(mails)})
    assert state.names() == {0: "mostly mail=b@b.c (10)"}
    # Nine rows and one in different states are ten.
    more = TokenCounts.of(recipe, np.array([0]), {"mail": text(["a@b.c"])})
    assert state.merge(more).tokens() == {0: [("mail=a@b.c", 10), ("mail=b@b.c", 10)]}


def test_tokens_with_equal_hashes_are_counted_apart():
    made, column = [f"{v:x}" for v in np.random.default_rng(0).integers(2**60, size=200_000)], "a"
    hashes, indices = np.empty(len(made), np.uint32), np.empty(len(made), np.int32)
    Tokens(column, "text").filler(text(made), True)(0, Slots(indices, hashes, 0, 1))
    values, counts = np.unique(hashes, return_counts=True)
    words = [made[k] for k in np.flatnonzero(hashes == values[counts > 1][0])]
    assert len({murmur3(f"a={word}".encode()) for word in words}) == 1 < len(set(words))
    recipe = Recipe(hashed=(Tokens(column, "text"),), dimension=64)
    feature = murmur3(f"a={words[0]}".encode()) % 64
    state = TokenCounts.of(recipe, np.array([feature]), {"a": text(words * 3)})
    assert state.counts == {(feature, f"a={word}"): 3 for word in words}


def test_names_of_features():
    names = FeatureNames(RECIPE, {FIRST + 2: "mostly city=a (12)"})
    assert len(names) == SIZE
    assert tuple(names[:FIRST]) == RECIPE.names()
    assert names[FIRST : FIRST + 3] == ["token 0", "token 1", "mostly city=a (12)"]
    assert (names[CROSSES - 1], names[CROSSES], names[-1]) == ("token 15", "cross 0", "cross 31")
    with pytest.raises(IndexError):
        names[SIZE]


def test_printable():
    assert printable("mail=ä\n\x1b[1m") == "mail=ä\\x0a\\x1b[1m"
    assert printable("x" * 99) == "x" * 59 + "…"
    assert printable("x" * 60) == "x" * 60


def test_counts_of_other_features():
    with pytest.raises(DataError, match="found counts of 5 and 4 features, expected the same"):
        TokenCounts(SOME).merge(TokenCounts(SOME[:4]))


def test_damaged_counts():
    state = TokenCounts(SOME, {(int(SOME[0]), "a"): 2, (int(SOME[0]), "b"): 3})
    assert TokenCounts.from_bytes(state.to_bytes()).counts == state.counts
    for damaged in (
        TokenCounts(SOME, {(0, "a"): 2}),
        TokenCounts(SOME, {(int(SOME[0]), "a"): 0}),
        TokenCounts(SOME[::-1], {(int(SOME[0]), "a"): 1}),
    ):
        with pytest.raises(ModelFormatError):
            TokenCounts.from_bytes(damaged.to_bytes())


def test_a_recipe_of_many_tokens_without_crosses():
    recipe = Recipe(hashed=(Tokens("city", "text"), Log("clicks", "integer")), dimension=2**20)
    rows = [{"city": row["city"], "clicks": row["clicks"]} for row in rows_of(LISTS)]
    expected = counted(recipe, rows)
    features = np.array(sorted({feature for feature, _ in expected}))
    assert TokenCounts.of(recipe, features, columns_of(LISTS)).counts == expected


KEYS = sorted(counted(RECIPE, rows_of(LISTS)))


def test_laws():
    case = Case(
        TokenCounts(SOME),
        lambda i: TokenCounts.of(RECIPE, SOME, columns_of(LISTS, i)),
        lambda state: np.array([state.counts.get(key, 0) for key in KEYS]) / N,
        N,
    )
    check_laws(case)
