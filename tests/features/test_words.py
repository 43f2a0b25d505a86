"""Words of text, against features worked out row by row."""

import tracemalloc

import numpy as np
import pytest

from spark_auc.errors import ConfigError, DataError
from spark_auc.features.contributions import contributions, part_columns
from spark_auc.features.crosses import Crosses
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.kinds.words import MOST_WORDS, Words
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.features.seen import Seen
from spark_auc.features.single_row import SingleRow
from spark_auc.features.token_names import TokenCounts
from spark_auc.features.watched import Watched
from tests.features.raw_rows import features, numbers, text

NOTE = Words("note", "text")
TEXTS = [
    "Red, red APPLE!",
    "red",
    None,
    "",
    "-- ! --",
    "a\tb\u00a0c",
    "Äpfel und ÄPFEL",
    " ".join(f"w{k}" for k in range(40)),
    "7-7",
    "x",
]


@pytest.mark.parametrize("missing", ["indicator", "ignore"])
@pytest.mark.parametrize("dimension", [5, 2**12])
def test_features_are_those_of_each_row(missing, dimension):
    recipe = Recipe(hashed=(NOTE, Tokens("note", "text")), dimension=dimension, missing=missing)
    assert from_json(to_json(recipe)) == recipe
    X = recipe.transform({"note": text(TEXTS)})
    single = SingleRow.of(recipe)
    for row, value in enumerate(TEXTS):
        expected = features(recipe, {"note": value})
        place = slice(X.indptr[row], X.indptr[row + 1])
        assert X.indices[place].tolist() == list(expected)
        np.testing.assert_allclose(X.data[place], list(expected.values()), rtol=1e-13)
        data, indices = single({"note": value})
        assert indices.tolist() == X.indices[place].tolist()
        assert data.tobytes() == X.data[place].tobytes()


def test_order_case_and_punctuation_do_not_matter_and_later_words_do_not_count():
    recipe = Recipe(hashed=(NOTE,), dimension=2**16)
    first = [f"w{k}" for k in range(MOST_WORDS)]
    same = ["b a", "A, B.", " ".join(first), " ".join([*first, "more"])]
    X = recipe.transform({"note": text(same)}).toarray()
    np.testing.assert_array_equal(X[0], X[1])
    np.testing.assert_array_equal(X[2], X[3])
    assert np.count_nonzero(X[2]) == MOST_WORDS


def test_bytes_outside_of_the_data_are_refused():
    column = text(["a b", "c d"])
    broken = column._replace(ends=column.ends + np.array([0, 99], np.int32))
    with pytest.raises(DataError, match="row 1 of a batch"):
        Recipe(hashed=(NOTE,)).transform({"note": broken})


def test_values_that_are_no_text():
    single = SingleRow.of(Recipe(hashed=(NOTE,)))
    for value in (7, "\ud800"):
        with pytest.raises(DataError, match="column 'note'"):
            single({"note": value})
    with pytest.raises(ConfigError, match="found column 'note' of type integer as words"):
        Words("note", "integer")


def test_a_column_is_one_contribution_and_words_have_names():
    recipe = Recipe(hashed=(NOTE,), dimension=2**12, unit=False)
    columns = {"note": text(["red apple"] * 12 + ["apple green"] * 11)}
    w = np.random.default_rng(0).normal(size=recipe.size)
    parts = contributions(recipe, w, columns)
    assert part_columns(recipe) == (("note",),)
    np.testing.assert_allclose(parts[:, 0], recipe.transform(columns) @ w)
    names = TokenCounts.of(recipe, np.arange(recipe.size), columns).names()
    assert sorted(names.values()) == [
        "mostly note: word=apple (23)",
        "mostly note: word=green (11)",
        "mostly note: word=red (12)",
    ]


def test_a_word_is_counted_once_a_row():
    """A word that one text repeats may name a person."""
    crosses = Crosses((("note", "x"),), 12)
    recipe = Recipe((Spline("x", "float", (0.0,)),), (NOTE,), 2**12, crosses)
    columns = {"note": text(["name " * 16] + ["a b"] * 12), "x": numbers([1.0] * 13)}
    counts = TokenCounts.of(recipe, np.arange(recipe.size), columns)
    rows = {token: count for (_, token), count in counts.counts.items()}
    assert rows["note: word=name"] == 1
    assert rows["note: word=a"] == 12
    assert all(count <= 12 for count in rows.values())
    assert not any("name" in name for name in counts.names().values())


def test_few_bytes_of_a_large_column_are_copied():
    recipe = Recipe(hashed=(NOTE,), dimension=2**12)
    columns = {"note": text([f"{k} {'word ' * 400}" for k in range(4_000)])}
    size = columns["note"].data.size
    recipe.transform({"note": text(["a"])})
    tracemalloc.start()
    recipe.transform(columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < size / 2


def test_new_words_are_not_counted_and_missing_texts_are():
    recipe = Recipe(hashed=(NOTE,), dimension=2**12)
    fit = {"note": text(["red apple", "green"])}
    seen = Seen.of(recipe, recipe.transform(fit))
    _, drift = Watched(recipe, seen).transform({"note": text(["blue", None, "", "red pear"])})
    assert drift.counts[:, :2].tolist() == [[4, 2]]
    assert drift.counts[0, 5] == 0
