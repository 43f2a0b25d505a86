"""Recipes against their definition, row by row in Python."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace

import numpy as np
import pytest

from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.features.crosses import Crosses, CrossMap
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.kinds.parts_of_times import Hour, Weekday
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.raw_columns import Numbers, Text
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json, map_json, to_json
from tests.features.raw_rows import EPOCH, features, numbers, take, text, times

ROWS = 300
NUMERIC = (
    Spline("age", "float", (18.0, 37.5, 1e6)),
    Standard("income", "float", 1000.0, 250.0),
    Spline("one knot", "integer", (3.0,)),
    Spline("no knots", "float", ()),
    Spline("when", "time", (-30.5, 0.0, 16363.0)),
    Standard("one knot", "integer", 2.0, 1.5),
)
HASHED = (
    Log("clicks", "integer"),
    Tokens("city", "text"),
    Tokens("size", "integer"),
    Tokens("new", "boolean"),
    Hour("when", "time"),
    Weekday("when", "time"),
    Tokens("one knot", "integer"),
)
AGE = Spline("age", "float", (18.0, 37.5, 1e6))
SURFACES = (
    Pair(AGE, Spline("income", "float", (0.0, 1000.0, 1200.0, 1250.0))),
    Pair(Spline("when", "time", (0.0, 16363.0)), Spline("age", "float", (37.5,))),
    Pair(Spline("one knot", "integer", (0.0, 3.0, 4.0)), Spline("when", "time", (-9.0, 1e4))),
)
ALL = {
    "numbers": Recipe(NUMERIC, unit=False),
    "tokens": Recipe(hashed=HASHED, dimension=50),
    "both": Recipe(NUMERIC, HASHED, 1000),
    "ignore": Recipe(NUMERIC, HASHED, 1000, missing="ignore"),
    "crosses": Recipe(NUMERIC, HASHED, 1000, Crosses(bits=6)),
    "pairs": Recipe(
        NUMERIC,
        HASHED,
        64,
        Crosses((("size", "city"), ("age", "city"), ("age", "income"), ("when", "age")), 12),
    ),
    "crosses, ignore": Recipe(NUMERIC, HASHED, 9, Crosses(bits=12), "ignore", False),
    "head": Recipe(NUMERIC, HASHED, 1000, head=(0, 3, 400)),
    "surfaces": Recipe(NUMERIC, HASHED, 1000, Crosses(bits=6), pairs=SURFACES),
    "surfaces, ignore": Recipe(NUMERIC, missing="ignore", unit=False, pairs=SURFACES[1:]),
}
each = pytest.mark.parametrize("recipe", ALL.values(), ids=ALL)


def table(rows=ROWS, seed=0):
    """Values by column name, in lists."""
    rng = np.random.default_rng(seed)

    def some(values):
        gaps = rng.random(rows) < 0.15
        return [None if gap else v for gap, v in zip(gaps, values, strict=True)]

    cities = np.array(["", "Köln", "東京", "a\0b", "x" * 50, *"abcdefg"], object)
    return {
        "age": some(np.where(rng.random(rows) < 0.2, 37.5, rng.normal(40, 1e2, rows)).tolist()),
        "income": some(rng.choice([1000.0, 1250.0, 7.0, np.nan], rows).tolist()),
        "one knot": some(rng.integers(0, 6, rows).tolist()),
        "no knots": some(rng.normal(size=rows).tolist()),
        "clicks": some(rng.integers(-1, 10**6, rows).tolist()),
        "city": some(rng.choice(cities, rows).tolist()),
        "size": some(rng.integers(-3, 3, rows).tolist()),
        "new": some((rng.random(rows) < 0.5).tolist()),
        "when": some(
            [
                EPOCH + datetime.timedelta(microseconds=int(u))
                for u in rng.integers(-(10**16), 3 * 10**15, rows)
            ]
        ),
    }


def columns(lists):
    types = {"one knot": np.int32, "clicks": np.int64, "size": np.int16, "new": bool}
    return {
        name: text(values, skipped=b"ab")
        if name == "city"
        else times(values)
        if name == "when"
        else numbers(values, types.get(name, float))
        for name, values in lists.items()
    }


def same(a, b):
    assert a.shape == b.shape
    assert a.data.tobytes() == b.data.tobytes()
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_array_equal(a.indptr, b.indptr)


@each
def test_the_definition(recipe):
    lists = table()
    X = recipe.transform(columns(lists))
    assert X.has_canonical_format
    assert (X.indices.dtype, X.indptr.dtype, X.data.dtype) == (np.int32, np.int32, np.float64)
    assert X.shape == (ROWS, recipe.size)
    for i in range(ROWS):
        expected = features(recipe, {name: values[i] for name, values in lists.items()})
        row = slice(X.indptr[i], X.indptr[i + 1])
        assert list(X.indices[row]) == list(expected), i
        np.testing.assert_allclose(X.data[row], list(expected.values()), rtol=1e-14, atol=0)


@each
@pytest.mark.parametrize("size", [1, 7, 4096, 10_000])
def test_the_same_bytes_for_any_batches(recipe, size):
    rows = ROWS if size == 1 else 9_000
    given = columns(table(rows, 1))
    X = recipe.transform(given)
    for begin in range(0, rows, size):
        part = {name: take(c, slice(begin, min(begin + size, rows))) for name, c in given.items()}
        same(recipe.transform(part), X[begin : begin + size])


@each
def test_json(recipe):
    stored = to_json(recipe)
    back = from_json(stored)
    assert back == recipe
    assert to_json(back) == stored == to_json(from_json(stored.encode()))
    given = columns(table())
    same(back.transform(given), recipe.transform(given))


def test_a_head_is_no_part_of_the_map():
    recipe = ALL["head"]
    plain = to_json(replace(recipe, head=None))
    assert map_json(recipe) == plain
    assert '"head"' not in plain
    assert json.loads(to_json(recipe))["head"] == [0, 3, 400]


def test_names():
    both = ALL["both"]
    assert both.names() == (
        "age: knot 18",
        "age: knot 37.5",
        "age: knot 1e+06",
        "age missing",
        "income",
        "income missing",
        "one knot: knot 3",
        "one knot missing",
        "no knots missing",
        "when: knot 1969-12-01T12:00:00",
        "when: knot 1970-01-01",
        "when: knot 2014-10-20",
        "when missing",
        "one knot",
    )
    assert (both.starts, both.size) == ((0, 4, 6, 8, 9, 13, 14, 1014, 1014), 1014)
    assert ALL["ignore"].names()[3:5] == ("income", "one knot: knot 3")
    assert Recipe((Spline("a", "float", (0.1 + 0.2,)),)).names()[0] == "a: knot 0.30000000000000004"


def test_names_of_pairs():
    recipe = ALL["surfaces, ignore"]
    assert recipe.names()[-8:] == (
        "when x age [1970-01-01, 37.5]",
        "when x age [2014-10-20, 37.5]",
        "one knot x when [0, 1969-12-23]",
        "one knot x when [0, 1997-05-19]",
        "one knot x when [3, 1969-12-23]",
        "one knot x when [3, 1997-05-19]",
        "one knot x when [4, 1969-12-23]",
        "one knot x when [4, 1997-05-19]",
    )
    assert len(recipe.names()) == recipe.size


def test_pairs_leave_other_features_and_stored_recipes_unchanged():
    given = columns(table())
    with_pairs, without = ALL["surfaces"], ALL["crosses"]
    X, first = replace(with_pairs, unit=False).transform(given), without.starts[-3]
    others = np.delete(np.arange(with_pairs.size), np.s_[first : with_pairs.starts[-3]])
    plain = replace(without, unit=False).transform(given)[:, :first]
    same(X[:, others[:first]], plain)
    assert "pairs" not in json.loads(to_json(without))
    stored = json.loads(to_json(with_pairs))
    assert stored.pop("pairs")
    assert json.dumps(stored, ensure_ascii=False) == to_json(without)


def test_names_of_times():
    knots = (-1e300, -719162.0, 0.1 / 86_400, 1.5, 2.0 + 1e-6 / 86_400, 1e9)
    names = Spline("t", "time", knots).names()
    assert [name.removeprefix("t: knot ") for name in names] == [
        "day -1e+300",
        "0001-01-01",
        "1970-01-01T00:00:00.100000",
        "1970-01-02T12:00:00",
        "1970-01-03T00:00:00.000001",
        "day 1000000000.0",
    ]


def test_times():
    values = [datetime.datetime(2024, 2, day, day % 24, 59, 59, 999_999) for day in range(1, 30)]
    values += [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23), None]
    recipe = Recipe(
        (Spline("t", "time", (0.0, 1e5)),), (Hour("t", "time"), Weekday("t", "time")), 2**18
    )
    X = recipe.transform({"t": times(values)})
    for i, value in enumerate(values):
        expected = features(recipe, {"t": value})
        assert list(X[i].indices) == list(expected)
    missing = times(values)._replace(validity=np.zeros(len(values), bool))
    same(recipe.transform({"t": missing}), recipe.transform({"t": times([None] * len(values))}))


def test_unit_rows_are_divided():
    tokens = Recipe(hashed=tuple(Tokens(f"C{k}", "text") for k in range(39)), dimension=10_000)
    rng = np.random.default_rng(0)
    given = {c.name: text([f"{v}" for v in rng.integers(0, 99, 500)]) for c in tokens.hashed}
    X, counts = tokens.transform(given), Recipe(hashed=tokens.hashed, dimension=10_000, unit=False)
    raw = counts.transform(given)
    norms = np.sqrt(raw.multiply(raw).sum(axis=1).A1)
    assert X.data.tobytes() == (raw.data / np.repeat(norms, np.diff(raw.indptr))).tobytes()


def test_all_crosses_of_numbers_are_those_of_the_cross_map():
    """Of different columns; the map also crosses the two hats of a column."""
    numeric = tuple(Standard(f"x{k}", "float", 0.0, 2.0) for k in range(5))
    made = Recipe(numeric, crosses=Crosses(bits=10), missing="ignore", unit=False)
    V = np.random.default_rng(3).normal(size=(50, 5))
    X = made.transform({c.name: Numbers(V[:, k]) for k, c in enumerate(numeric)})
    same(X, CrossMap(5, 10).transform(V / 2.0))


def test_columns_of_other_forms():
    recipe, given = ALL["both"], columns(table())
    X = recipe.transform(given)
    others = given | {
        "unused": Numbers(np.arange(3.0)),
        "city": text(table()["city"], np.int64),
        "one knot": given["one knot"]._replace(values=given["one knot"].values.astype(np.int64)),
        "size": text([None if v is None else str(v) for v in table()["size"]]),
        "age": Numbers(np.where(given["age"].validity, given["age"].values, np.nan)),
        "clicks": given["clicks"]._replace(values=np.repeat(given["clicks"].values, 2)[::2]),
        "when": given["when"]._replace(values=np.repeat(given["when"].values, 2)[::2]),
    }
    same(recipe.transform(others), X)


def test_columns_that_differ_from_those_of_the_fit():
    recipe, given = ALL["both"], columns(table(5))
    with pytest.raises(DataError, match=r"no column 'new' \(boolean\) among"):
        recipe.transform({name: c for name, c in given.items() if name != "new"})
    wrong = {
        "age": text(["1"] * 5),
        "city": numbers([1.0] * 5),
        "clicks": numbers([1.0] * 5),
        "new": numbers([1] * 5, int),
        "size": numbers([True] * 5, bool),
        "when": numbers([1] * 5, int),
    }
    for name, column in wrong.items():
        with pytest.raises(DataError, match=rf"found column '{name}' of type \w+, expected type"):
            recipe.transform(given | {name: column})
    with pytest.raises(DataError, match="different numbers of rows"):
        recipe.transform(given | {"city": text(["a"] * 4)})
    for column in (
        Numbers(np.zeros((5, 1))),
        Numbers(np.array(["a"] * 5)),
        Numbers(np.zeros(5, "datetime64[ns]")),
        Numbers(np.zeros(5), np.ones(4, bool)),
        Numbers(np.zeros(5), np.ones(5)),
        Text.of_offsets(np.zeros(6, np.int16), np.zeros(0, np.uint8)),
        Text(np.zeros(5, np.int32), np.zeros(4, np.int32), np.zeros(0, np.uint8)),
        Text(np.zeros(5, np.int32), np.zeros(5, np.int64), np.zeros(0, np.uint8)),
    ):
        with pytest.raises(DataError, match="in column 'age', expected one-dimensional"):
            recipe.transform(given | {"age": column})


def test_infinite_values():
    recipe, given = ALL["numbers"], columns(table(5))
    ends = recipe.transform(given | {"age": numbers([np.inf, -np.inf, 1e308, 0.0, None])})
    np.testing.assert_array_equal(ends[:, :4].toarray().argmax(axis=1), [2, 0, 2, 0, 3])
    with pytest.raises(DataError, match="found inf in column 'income', expected a number whose"):
        recipe.transform(given | {"income": numbers([1.0, 2.0, np.inf, None, 3.0])})
    with pytest.raises(DataError, match=r"row 1 of a batch\) whose norm is not finite"):
        ALL["both"].transform(given | {"income": numbers([1.0, 1e200, 2.0, None, 3.0])})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Recipe, "found 0 columns"),
        (lambda: Recipe(hashed=HASHED[:1] * 2), "twice: \\[\\('clicks', 'log'\\)\\]"),
        (
            lambda: Recipe((Spline("a", "float", ()), Standard("a", "integer", 0.0, 1.0))),
            "found columns \\['a'\\] of several types",
        ),
        (
            lambda: Recipe(hashed=(Hour("a", "time"), Weekday("a", "time")), crosses=Crosses()),
            "found crosses of one column",
        ),
        (lambda: Recipe(hashed=HASHED, dimension=0), "found dimension = 0"),
        (lambda: Recipe(hashed=HASHED, dimension=2**31), "found 2147483648 features"),
        (lambda: Recipe(NUMERIC, HASHED, 2**63 - 1), "found 9223372036854775807 features"),
        (lambda: Recipe(hashed=HASHED, missing="zero"), "found missing = 'zero'"),
        (lambda: Recipe(hashed=HASHED[:1], crosses=Crosses()), "found crosses of one column"),
        (
            lambda: Recipe(hashed=HASHED, crosses=Crosses((("city", "age"),))),
            "crosses of \\['age'\\]",
        ),
        (lambda: Pair(AGE, AGE), "expected different columns with knots"),
        (lambda: Pair(AGE, NUMERIC[3]), "expected different columns with knots"),
        (
            lambda: Recipe(NUMERIC, pairs=(SURFACES[0], Pair(SURFACES[0].second, AGE))),
            "expected different pairs of columns",
        ),
        (
            lambda: Recipe(NUMERIC[:1], pairs=SURFACES[:1]),
            "pair of the columns \\[\\('income', 'float'\\)\\]",
        ),
        (
            lambda: Recipe(NUMERIC, pairs=(Pair(AGE, Spline("income", "integer", (1.0,))),)),
            "pair of the columns \\[\\('income', 'integer'\\)\\]",
        ),
        *(
            (lambda head=head: Recipe(NUMERIC, head=head), f"found a head of features from {said}")
            for head, said in (((0, 99), "0 to 99"), ((-1, 2), "-1 to 2"), ((2, 2), "2 to 2"))
        ),
        (lambda: Crosses(bits=31), "found bits = 31"),
        (lambda: Crosses(()), "different pairs"),
        (lambda: Crosses((("a", "a"),)), "different pairs"),
        (lambda: Crosses((("a", "b"), ("b", "a"))), "different pairs"),
        (lambda: Spline("a", "float", (2.0, 1.0)), "increasing knots"),
        (lambda: Spline("a", "text", (1.0,)), "found column 'a' of type text as spline"),
        (lambda: Tokens("a", "float"), "found column 'a' of type float as tokens"),
        (lambda: Tokens("a", "text", ("1",)), "the values .* of column 'a' of type text"),
        (lambda: Tokens("a", "boolean", ("1",)), "the values .* of column 'a' of type boolean"),
        *(
            (lambda values=values: Tokens("a", "integer", values), "expected ascending integers")
            for values in (("2", "1"), ("1", "1"), ("x",), ("01",), ("+1",), ("9" * 19,))
        ),
        (lambda: Log("a", "float"), "found column 'a' of type float as log"),
        (lambda: Hour("a", "integer"), "found column 'a' of type integer as hour"),
        (lambda: Standard("a", "time", 0.0, 1.0), "found column 'a' of type time as standard"),
        (lambda: Tokens("", "text"), "a column with the name ''"),
        (lambda: Tokens("\ud800", "text"), "a column with the name '.ud800'"),
        (lambda: Standard("a", "float", 0.0, 0.0), "deviation of column 'a'"),
        (lambda: Standard("a", "float", np.inf, 1.0), "found mean inf"),
    ],
)
def test_impossible_recipes(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


LISTED = {"as": "tokens", "name": "a", "type": "integer"}
CHANGES = {
    "unknown key": lambda r: r | {"more": 1},
    "missing key": lambda r: {k: v for k, v in r.items() if k != "unit"},
    "format": lambda r: r | {"format": "other"},
    "version": lambda r: r | {"version": 2},
    "version true": lambda r: r | {"version": True},
    "dimension text": lambda r: r | {"dimension": "10"},
    "dimension float": lambda r: r | {"dimension": 10.0},
    "dimension true": lambda r: r | {"dimension": True},
    "dimension 0": lambda r: r | {"dimension": 0},
    "dimension huge": lambda r: r | {"dimension": 10**400},
    "unit": lambda r: r | {"unit": 1},
    "missing": lambda r: r | {"missing": None},
    "columns": lambda r: r | {"hashed": {}},
    "column": lambda r: r | {"hashed": ["city"]},
    "kind": lambda r: r | {"hashed": [{"as": "spline", "name": "a", "type": "text"}]},
    "no kind": lambda r: r | {"hashed": [{"name": "a", "type": "text"}]},
    "column key": lambda r: r | {"hashed": [{"as": "log", "name": "a", "type": "text", "x": 1}]},
    "column type": lambda r: r | {"hashed": [{"as": "log", "name": "a", "type": "float"}]},
    "column name": lambda r: r | {"hashed": [{"as": "log", "name": 1, "type": "text"}]},
    "surrogate": lambda r: r | {"hashed": [{"as": "log", "name": "\ud800", "type": "text"}]},
    "values": lambda r: r | {"hashed": [LISTED | {"values": [1, 2]}]},
    "values null": lambda r: r | {"hashed": [LISTED | {"values": None}]},
    "values of text": lambda r: r | {"hashed": [LISTED | {"type": "text", "values": ["1"]}]},
    "values not ascending": lambda r: r | {"hashed": [LISTED | {"values": ["2", "1"]}]},
    "knots": lambda r: r | {"numeric": [r["numeric"][0] | {"knots": [2, 1]}]},
    "knots text": lambda r: r | {"numeric": [r["numeric"][0] | {"knots": ["1"]}]},
    "knots huge": lambda r: r | {"numeric": [r["numeric"][0] | {"knots": [10**400]}]},
    "pairs": lambda r: r | {"crosses": {"pairs": [["city"]], "bits": 3}},
    "pairs unknown": lambda r: r | {"crosses": {"pairs": [["city", "x"]], "bits": 3}},
    "bits": lambda r: r | {"crosses": {"pairs": None, "bits": 31}},
    "crosses": lambda r: r | {"crosses": []},
    "head": lambda r: r | {"head": [0, 10**6]},
    "head of numbers": lambda r: r | {"head": [0.5]},
    "no surfaces": lambda r: r | {"pairs": []},
    "surface of one": lambda r: r | {"pairs": [r["numeric"][:1]]},
    "surface of tokens": lambda r: r | {"pairs": [[r["numeric"][0], r["hashed"][0]]]},
    "surface of no list": lambda r: r | {"pairs": ["ab"]},
    "surface without knots": lambda r: r | {"pairs": [[r["numeric"][0], r["numeric"][3]]]},
    "list": lambda r: [r],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_damaged_json(change):
    stored = json.loads(to_json(ALL["both"]))
    with pytest.raises(ModelFormatError, match=r"found .*expected .*; "):
        from_json(json.dumps(change(stored)))


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"a": 1, "a": 2}', '{"a": NaN}', b"\xff\xfe\x00"]
)
def test_text_that_is_no_json(text):
    with pytest.raises(ModelFormatError, match=r"found .*expected .*; "):
        from_json(text)


def test_recipes_that_state_no_words_keep_text_as_it_is():
    recipe = Recipe(hashed=(Tokens("city", "text"),), absent=())
    assert "absent" not in to_json(recipe)
    assert from_json(to_json(recipe)) == recipe
