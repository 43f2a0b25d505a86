"""Contributions of columns against scores without the features of a column."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from spark_auc.core.products import settled_scores
from spark_auc.errors import DataError
from spark_auc.features import recipe as recipe_module
from spark_auc.features.contributions import contributions, largest, parts
from spark_auc.features.crosses import Crosses
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.recipe import Recipe
from spark_auc.features.token_names import printable
from tests.features.raw_rows import entries, numbers, text
from tests.features.watched_rows import RECIPE, columns_of, rows_of, table

LISTS = table()
SURFACES = (
    Pair(Spline("when", "time", (9.0, 11.0, 13.0)), Spline("age", "float", (-2.0, 0.0, 3.0))),
    Pair(Spline("age", "float", (-1.0, 1.0)), Spline("income", "float", (0.0, 0.5, 1.0))),
)
RNG = np.random.default_rng(4)


def part_of(owners):
    """Name of the part of a recipe to which a feature belongs."""
    return " x ".join(sorted((column.name for column, _ in owners), key=parts(RECIPE).index))


def score(w, some, norm):
    """The score of a row of these features, divided by a norm."""
    added = defaultdict(float)
    for index, value, _ in some:
        added[index] += value
    return math.fsum(w[index] * value / norm for index, value in added.items())


def norm_of(some):
    added = defaultdict(float)
    for index, value, _ in some:
        added[index] += value
    return math.sqrt(math.fsum(v * v for v in added.values())) or 1.0


def named(recipe, columns, row, values, count=5):
    """Names and values of the largest contributions ``(p,)`` to the score of a row."""

    def shown(name):
        own = [column for column in recipe.columns if column.name == name]
        tokens = [column for column in recipe.hashed if column.name == name]
        return printable(tokens[0].token(columns[name], row)) if own == tokens[:1] else name

    words = [" x ".join(map(shown, part.split(" x "))) for part in parts(recipe)]
    order = sorted(range(len(words)), key=lambda k: -abs(values[k]))[:count]
    return [(words[k], float(values[k])) for k in order if values[k]]


@pytest.mark.parametrize("count", [1, 3, 50])
def test_places_of_the_largest(count):
    values = np.round(RNG.normal(size=(200, 9)), 1) * (RNG.random((200, 9)) < 0.7)
    for row, places in zip(values.tolist(), largest(values, count).tolist(), strict=True):
        nonzero = [k for k in range(9) if row[k]]
        order = sorted(nonzero, key=lambda k: -abs(row[k]))[:count]
        assert places == order + [-1] * (count - len(order))


@pytest.mark.parametrize("missing", ["indicator", "ignore"])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("crosses", [RECIPE.crosses, Crosses(None, 9), None])
@pytest.mark.parametrize("pairs", [SURFACES, ()])
def test_contributions(pairs, crosses, unit, missing, monkeypatch):
    monkeypatch.setattr(recipe_module, "_CHUNK", 64)
    recipe = replace(RECIPE, unit=unit, missing=missing, crosses=crosses, pairs=pairs)
    w = RNG.normal(size=recipe.size)
    columns, names = columns_of(LISTS), parts(recipe)
    found = contributions(recipe, w, columns)
    assert found.shape == (len(rows_of(LISTS)), len(names))
    scale = np.abs(found).sum(axis=1)
    scores = settled_scores(recipe.transform(columns), w)
    assert (np.abs(found.sum(axis=1) - scores) <= 1e-12 * scale).all()
    for i, row in enumerate(rows_of(LISTS)[:5]):
        some = entries(recipe, row)
        norm = norm_of(some) if unit else 1.0
        for name, value in zip(names, found[i], strict=True):
            others = [entry for entry in some if part_of(entry[2]) != name]
            removed = score(w, some, norm) - score(w, others, norm)
            assert abs(value - removed) <= 1e-12 * max(scale[i], 1e-300)


def test_names_of_parts():
    columns = ("age", "income", "when", "clicks", "visits", "city", "code", "few", "flag")
    pairs = ("age x income", "age x city", "when x flag", "clicks x code", "city x flag")
    assert parts(RECIPE) == columns + pairs
    assert parts(replace(RECIPE, crosses=None)) == columns
    surfaces = ("age x income", "age x when")
    assert parts(replace(RECIPE, crosses=None, pairs=SURFACES)) == columns + surfaces
    assert set(parts(replace(RECIPE, pairs=SURFACES))) == {*columns, *pairs, "age x when"}


def test_the_largest_contributions():
    recipe = Recipe(
        (Standard("age", "float", 40.0, 10.0),),
        (Tokens("C3", "text"), Tokens("C4", "text")),
        64,
        Crosses((("C3", "C4"), ("age", "C4")), 4),
        unit=False,
    )
    columns = {
        "age": numbers([50.0, 40.0]),
        "C3": text(["68fd1e64", "a"]),
        "C4": text([None, "b"]),
        "other": text(["", ""]),
    }
    w = np.zeros(recipe.size)
    w[0] = 0.31
    values = np.array([0.31, 0.12, -0.5, 0.0, 0.2])
    assert parts(recipe) == ("age", "C3", "C4", "age x C4", "C3 x C4")
    found = named(recipe, columns, 0, values)
    expected = [("C4 missing", -0.5), ("age", 0.31), ("C3=68fd1e64 x C4 missing", 0.2)]
    assert found == [*expected, ("C3=68fd1e64", 0.12)]
    assert len(named(recipe, columns, 1, values, 2)) == 2
    assert contributions(recipe, w, columns)[:, 0].tolist() == [0.31, 0.0]


def test_rows_without_features_and_without_rows():
    recipe = Recipe((Spline("age", "float", (0.0, 1.0)),), missing="ignore")
    w = np.ones(recipe.size)
    assert contributions(recipe, w, {"age": numbers([None])}).tolist() == [[0.0]]
    assert contributions(recipe, w, {"age": numbers([])}).shape == (0, 1)


def test_errors():
    with pytest.raises(DataError, match=r"found weights of shape \(3,\), expected"):
        contributions(RECIPE, np.zeros(3), columns_of(LISTS))
    recipe = Recipe((Standard("age", "float", 0.0, 1.0),))
    with pytest.raises(DataError, match="norm is not finite"):
        contributions(recipe, np.zeros(2), {"age": numbers([1.0, 1e200])})
