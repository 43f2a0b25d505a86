"""Random recipes of random tables against Python, and mutated JSON."""

from __future__ import annotations

import contextlib
import datetime
import json
import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ModelFormatError
from spark_auc.features.absent_text import ABSENT, present_text
from spark_auc.features.crosses import Crosses
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.kinds.parts_of_times import Hour, Weekday
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.kinds.words import Words
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.features.single_row import SingleRow
from tests.features.raw_rows import EPOCH, features, numbers, take, text, times
from tests.fuzz.inputs import inputs
from tests.trees.forests import random_forest

pytestmark = pytest.mark.fuzz

WORDS = ["", "a", "ab", "abc", "ä", "東京", "\0", "7", "-7", "x" * 33]
WORDS += ["Red, red APPLE!", "--", " ".join("abcdefghijklmnopqrs"), "Äpfel\u2014und a"]

WHITE = " \t\n\v\f\r\xa0"


def column(draw, name):
    """The entries of a column of a recipe, of different kinds."""
    type_ = draw.choice(["text", "boolean", "integer", "float", "time"])
    knots = {draw.choice([0.0, 1.0, draw.gauss(0, 3), 1e4]) for _ in range(draw.randrange(6))}
    scale = draw.choice([0.0, 1.0, 2.5]), draw.choice([1.0, 0.1])
    kinds = []
    if type_ in ("integer", "float", "time"):
        kinds.append(Spline(name, type_, tuple(sorted(knots))))
    if type_ in ("integer", "float"):
        kinds.append(Standard(name, type_, *scale))
    if type_ == "integer":
        kinds.append(Log(name, type_))
    if type_ in ("text", "boolean", "integer"):
        some = sorted({0, -1, draw.randrange(9), draw.randrange(-(10**6), 10**6)})
        listed = draw.choice([None, (), tuple(map(str, some))]) if type_ == "integer" else None
        kinds.append(Tokens(name, type_, listed))
    if type_ == "text":
        kinds.append(Words(name, type_))
    if type_ == "time":
        kinds += [Hour(name, type_), Weekday(name, type_)]
    return draw.sample(kinds, draw.randrange(1, len(kinds) + 1))


def value(draw, made):
    """A value of a column, or None."""
    if draw.random() < 0.2:
        return None
    if made.type == "text":
        return draw.choice(WORDS)
    if made.type == "boolean":
        return draw.random() < 0.5
    if made.type == "time":
        return EPOCH + datetime.timedelta(microseconds=draw.randrange(-(10**12), 10**13))
    if made.type == "integer":
        return draw.choice([0, 1, -1, 3, draw.randrange(-(10**6), 10**6)])
    return draw.choice([0.0, 1.0, draw.gauss(0, 5), 1e6, 2.5])


def recipe_of(draw):
    names = [draw.choice(["a", "ö", "xy z", "long name"]) + str(k) for k in range(9)]
    columns = [entry for name in names[: draw.randrange(1, 9)] for entry in column(draw, name)]
    numeric = tuple(c for c in columns if isinstance(c, Spline | Standard))
    hashed = tuple(c for c in columns if not isinstance(c, Spline | Standard))
    crosses = None
    used = list(dict.fromkeys(c.name for c in columns))
    if len(used) > 1 and draw.random() < 0.6:
        pairs = [tuple(draw.sample(p, 2)) for p in combinations(used, 2)]
        some = tuple(draw.sample(pairs, draw.randrange(1, len(pairs) + 1)))
        crosses = Crosses(draw.choice([None, some]), draw.randrange(1, 21))
    dimension = draw.choice([1, 2, 7, 64, 10_000, 2**20])
    missing = draw.choice(["indicator", "ignore"])
    unit = draw.random() < 0.5
    trees = trees_of(draw, columns)
    splines = [c for c in numeric if isinstance(c, Spline) and c.knots]
    both = [draw.sample(p, 2) for p in combinations(splines, 2)]
    pairs = tuple(Pair(*p) for p in draw.sample(both, draw.randrange(len(both) + 1)))
    return Recipe(numeric, hashed, dimension, crosses, missing, unit, trees, pairs)


def trees_of(draw, columns):
    """Trees of some of the columns and of another one, or None."""
    types = {c.name: c.type for c in columns if c.type != "text" and draw.random() < 0.5}
    types["trees"] = draw.choice(["float", "integer", "boolean", "time"])
    sizes = [draw.randrange(1, 9) for _ in range(draw.randrange(1, 4))]
    kind = draw.choice(["truncated", "float32", "exact"])
    forest = random_forest(draw.randrange(2**32), kind, sizes, len(types))
    grown = draw.choice([None, KeySample(0.3, 5)])
    return draw.choice([None, TreeLeaves.of(forest, types, grown)])


@given(st.integers(0, 2**32))
@inputs(5_000)
def test_random_recipes(seed):
    draw = random.Random(seed)
    recipe = recipe_of(draw)
    rows = draw.choice([0, 1, 2, 30])
    lists = {c.name: [value(draw, c) for _ in range(rows)] for c in recipe.columns}
    types = {"float": float, "integer": np.int64, "boolean": bool}
    columns = {
        c.name: present_text(text(lists[c.name]), recipe.absent)
        if c.type == "text"
        else times(lists[c.name])
        if c.type == "time"
        else numbers(lists[c.name], types[c.type])
        for c in recipe.columns
    }
    X = from_json(to_json(recipe)).transform(columns)
    assert X.has_canonical_format
    single = SingleRow.of(recipe)
    for i in range(rows):
        row = {name: values[i] for name, values in lists.items()}
        inside = {n: v.strip(WHITE) if isinstance(v, str) else v for n, v in row.items()}
        inside = {n: None if v in ABSENT else v for n, v in inside.items()}
        expected = features(recipe, inside)
        place = slice(X.indptr[i], X.indptr[i + 1])
        assert list(X.indices[place]) == list(expected)
        np.testing.assert_allclose(X.data[place], list(expected.values()), rtol=1e-13, atol=0)
        alone = recipe.transform({n: take(c, slice(i, i + 1)) for n, c in columns.items()})
        assert alone.data.tobytes() == X.data[place].tobytes()
        data, indices = single(row)
        assert indices.tolist() == X.indices[place].tolist()
        assert data.tobytes() == X.data[place].tobytes()


def places(stored):
    """All containers and keys of a JSON value."""
    keys = stored.keys() if isinstance(stored, dict) else range(len(stored))
    for key in keys:
        yield stored, key
        if isinstance(stored[key], dict | list):
            yield from places(stored[key])


@given(st.integers(0, 2**32))
@inputs(50_000)
def test_mutated_json(seed):
    draw = random.Random(seed)
    stored = json.loads(to_json(recipe_of(draw)))
    for _ in range(draw.randrange(1, 4)):
        values = [
            None,
            True,
            0,
            -1,
            1,
            1.5,
            2**31,
            10**400,
            "",
            "text",
            "a0",
            "\ud800",
            [],
            {},
            [[]],
        ]
        container, key = draw.choice(list(places(stored)))
        if draw.random() < 0.2 and isinstance(container, dict):
            container[str(draw.choice(values))[:9]] = draw.choice(values)
        else:
            container[key] = draw.choice(values)
    written = json.dumps(stored)
    if draw.random() < 0.3:
        cut = draw.randrange(len(written))
        written = written[:cut] + draw.choice(["", "[", "NaN", "0", '"']) + written[cut + 1 :]
    with contextlib.suppress(ModelFormatError):
        made = from_json(written)
        assert from_json(to_json(made)) == made
        made.names()
