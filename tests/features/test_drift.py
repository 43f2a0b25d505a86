"""Missing, extreme and new values against counts in Python."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

from spark_auc.errors import DataError, ModelFormatError
from spark_auc.features import recipe as recipe_module
from spark_auc.features import watched
from spark_auc.features.drift import Drift, Excess
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import Planned, RecipePlan
from spark_auc.features.seen import Seen
from spark_auc.features.watched import Watched, drift_of_fit, missing_of
from tests.features.raw_rows import murmur3, numbers, take, text, times, token
from tests.features.watched_rows import RECIPE, N, columns_of, rows_of, table
from tests.laws import Case, check_laws

LISTS = table()
# A third of the rows are those of the fit; few features occurred in them.
OLD = np.arange(0, N, 60)
BIG = replace(RECIPE, dimension=2**12)


def seen_of(recipe, rows):
    return Seen.of(recipe, recipe.transform(columns_of(LISTS, rows)))


def indices(recipe, column, row):
    """Features of the token of a row; none without a token."""
    word = token(column, row[column.name])
    if word == "" and recipe.missing == "ignore":
        return []
    return [murmur3(f"{column.name}{column.PART}={word}".encode()) % recipe.dimension]


def days(value):
    """A number; a time as days since 1970."""
    return (value - datetime(1970, 1, 1)) / timedelta(1) if isinstance(value, datetime) else value


def _is_new(recipe, column, row, found):
    if getattr(column, "values", None) is not None:
        return str(row[column.name]) not in column.values
    return not found.issuperset(indices(recipe, column, row))


def counted(recipe, rows, old):
    """The counts of `Drift` of rows; those of the fit are ``old``."""
    found = {j for row in old for column in recipe.hashed for j in indices(recipe, column, row)}
    counts = []
    for column in recipe.numeric:
        low, high = (
            (column.knots[0], column.knots[-1])
            if hasattr(column, "knots")
            else (column.mean - 5 * column.deviation, column.mean + 5 * column.deviation)
        )
        values = [days(row[column.name]) for row in rows]
        here = [v for v in values if v is not None and not math.isnan(v)]
        beyond = sum(v < low for v in here), sum(v > high for v in here)
        counts.append([len(rows), len(rows) - len(here), *beyond, 0, 0])
    for column in recipe.hashed:
        gaps = [row for row in rows if row[column.name] in (None, "")]
        new = [row for row in rows if row not in gaps and _is_new(recipe, column, row, found)]
        counts.append([len(rows), len(gaps), 0, 0, len(rows), len(new)])
    return counts


@pytest.mark.parametrize("missing", ["indicator", "ignore"])
@pytest.mark.parametrize("crosses", [RECIPE.crosses, None])
@pytest.mark.parametrize("dimension", [16, 33, 2**12])
@pytest.mark.parametrize("old", [OLD, OLD[:0], np.arange(N)])
def test_counts(old, dimension, crosses, missing, monkeypatch):
    monkeypatch.setattr(recipe_module, "_CHUNK", 64)
    recipe = replace(RECIPE, missing=missing, crosses=crosses, dimension=dimension)
    columns, rows = columns_of(LISTS), rows_of(LISTS)
    X, drift = Watched(recipe, seen_of(recipe, old)).transform(columns)
    expected = recipe.transform(columns)
    assert X.indices.tobytes() == expected.indices.tobytes()
    assert X.data.tobytes() == expected.data.tobytes()
    assert drift.counts.tolist() == counted(recipe, rows, [rows[k] for k in old])
    names = zip(drift.names.tolist(), drift.kinds.tolist(), strict=True)
    assert list(names) == [(c.name, type(c).__name__.lower()) for c in recipe.columns]
    assert sorted(set(drift.kinds.tolist())) == [
        "hour",
        "log",
        "spline",
        "standard",
        "tokens",
        "weekday",
    ]


def test_counts_of_another_recipe_of_the_same_rows():
    columns = columns_of(LISTS)
    names = {column.name: column.type for column in RECIPE.columns}
    trees = TreeLeaves.of_columns(names)
    first = RECIPE.numeric[:1]
    counts = watched.counted(RECIPE, columns)
    for made in (Recipe(trees=trees), replace(RECIPE, trees=trees), Recipe(first, trees=trees)):
        found, expected = counts.for_recipe(made), watched.counted(made, columns)
        assert expected.excesses(found) == ()
        np.testing.assert_array_equal(found.counts, expected.counts)
    back = watched.counted(replace(RECIPE, trees=trees), columns).for_recipe(RECIPE)
    np.testing.assert_array_equal(back.counts, counts.counts)
    other = Recipe((replace(first[0], name="no column of the fit"),))
    assert not counts.for_recipe(other).counts.any()


def test_new_tokens_are_found():
    recipe = Recipe(hashed=(Tokens("a", "text"),), dimension=2**14)
    old, new = [f"old {k}" for k in range(2_000)], [f"new {k}" for k in range(2_000)]
    seen = Seen.of(recipe, recipe.transform({"a": text(old)}))
    occupied = np.unpackbits(seen.bits).mean()
    assert 0.1 < occupied < 0.125
    _, drift = Watched(recipe, seen).transform({"a": text(old + new)})
    unseen = int(drift.counts[0, 5])
    # New tokens fall into features that occurred with this probability.
    assert abs(unseen / 2_000 - (1 - occupied)) < 4 * math.sqrt(0.1 / 2_000)
    # Without the features of a fit, no token is judged.
    _, alone = Watched(recipe).transform({"a": text(old)})
    assert alone.counts.tolist() == [[2_000, 0, 0, 0, 0, 0]]
    assert sorted(alone.as_dict()["columns"][0]) == ["column", "kind", "missing", "rows"]


def test_missing_values():
    assert missing_of(text(["", "a", None])) == 2
    assert missing_of(text(["", "a", "b"], nulls=False)) == 1
    assert missing_of(numbers([None, 1.0, math.nan])) == 2
    assert missing_of(Numbers(np.array([1.0, math.nan]))) == 1
    assert missing_of(Numbers(np.array([1, 2]))) == 0
    assert missing_of(numbers([None, 2], np.int64)) == 1
    assert missing_of(times([None, datetime(2020, 1, 1)])) == 1
    assert missing_of(take(text([None, "a", "", None]), slice(1, 3))) == 1


def test_infinite_values_are_beyond_the_knots():
    recipe = Recipe((Spline("a", "float", (0.0, 1.0)), Spline("b", "float", ())))
    values = numbers([-math.inf, 0.0, 1.0, 1.5, math.inf, None])
    _, drift = Watched(recipe).transform({"a": values, "b": values})
    assert drift.counts.tolist() == [[6, 1, 1, 2, 0, 0], [6, 1, 0, 0, 0, 0]]


def test_names_of_other_columns():
    names = [*LISTS, "extra", "b"]
    drift = Drift.of_names(RECIPE, names).merge(Drift.of_names(RECIPE, [*list(LISTS)[1:], "b"]))
    assert (drift.unknown.tolist(), drift.absent.tolist()) == (["b", "extra"], ["age"])
    _, drift = Watched(RECIPE).transform(columns_of(LISTS) | {"x": numbers([1.0] * N)})
    assert (drift.unknown.tolist(), drift.absent.tolist()) == (["x"], [])


def test_json():
    watched = Watched(BIG, seen_of(BIG, OLD))
    _, drift = watched.transform(columns_of(LISTS))
    stored = json.loads(json.dumps(drift.as_dict(), allow_nan=False))
    assert (stored["unknown"], stored["absent"]) == ([], [])
    age, city = stored["columns"][0], stored["columns"][5]
    counts = drift.counts.tolist()
    assert age == {
        "column": "age",
        "kind": "spline",
        "rows": N,
        "missing": counts[0][1] / N,
        "below": counts[0][2] / N,
        "above": counts[0][3] / N,
    }
    assert city["unseen"] == counts[5][5] / N > 0
    empty = Drift.zero(RECIPE).as_dict()["columns"][0]
    assert (empty["rows"], empty["missing"], empty["above"]) == (0, None, None)


def test_shares_that_exceed_those_of_the_fit():
    recipe = Recipe((Spline("age", "float", (0.0, 1.0)),), (Tokens("city", "text"),))

    def drift_of(missing, below, rows):
        values = [None] * missing + [-1.0] * below + [0.5] * (rows - missing - below)
        words = [""] * missing + ["a"] * (rows - missing)
        columns = {"age": numbers(values), "city": text(words)}
        return Watched(recipe).transform(columns)[1]

    fit = drift_of(80, 0, 1_000)
    assert fit.excesses(fit) == ()
    assert drift_of(120, 40, 1_000).excesses(fit) == ()
    age, below, city = drift_of(310, 200, 1_000).excesses(fit)
    assert age == Excess("age", "spline", "missing", 0.31, 0.08)
    assert str(age) == (
        "31.0% of the values of column 'age' (spline) are missing (8.0% in the fit)"
    )
    assert str(below) == (
        "20.0% of the values of column 'age' (spline) are below the range of the fit "
        "(0.0% in the fit)"
    )
    assert city == Excess("city", "tokens", "missing", 0.31, 0.08)
    # A few rows say little, and no rows nothing.
    assert drift_of(3, 0, 5).excesses(fit) == ()
    assert drift_of(0, 1, 1).excesses(fit) == ()
    assert drift_of(5, 0, 5).excesses(Drift.zero(recipe)) == ()
    assert Drift.zero(recipe).excesses(fit) == ()


def test_shares_of_the_fit_from_its_state():
    plan = RecipePlan(
        (
            Planned("city", "text", "tokens"),
            Planned("age", "float", "spline"),
            Planned("income", "float", "standard"),
        ),
        knots=4,
    )
    lists = LISTS | {
        "age": [-math.inf, math.inf, None, math.inf, *LISTS["age"][4:]],
        "income": [1.0, None, 99.0, math.nan] + [0.0] * 596,
    }
    columns = {name: numbers(lists[name]) for name in ("age", "income")}
    columns |= {"city": text(lists["city"])}
    # The infinite values of one sign are in batches of their own, whose states merge.
    state = plan.zero()
    for part in (slice(0, 1), slice(1, 4), slice(4, N)):
        state = state.merge(plan.fold([{n: take(c, part) for n, c in columns.items()}]))
    recipe = plan.fitted(state)
    found = drift_of_fit(recipe, state)
    assert found.counts[:2].tolist() == counted(recipe, rows_of(lists), [])[:2]
    assert (found.counts[0, 2:4] >= [1, 2]).all()
    assert state.columns[0].infinite == 3
    assert (found.counts[1, :4].tolist(), found.counts[2].sum()) == ([600, 2, 0, 1], 0)


def test_errors():
    with pytest.raises(DataError, match=r"found counts of the columns .* expected the same"):
        Drift.zero(RECIPE).merge(Drift.zero(replace(RECIPE, numeric=(), crosses=None)))
    with pytest.raises(DataError, match="found 16 features of a fit, expected 4096"):
        Watched(BIG, Seen.zero(RECIPE))
    with pytest.raises(DataError, match="found 16 and 4096 features, expected equal numbers"):
        Seen.zero(RECIPE).merge(Seen.zero(BIG))
    drift = Drift.zero(RECIPE)
    with pytest.raises(ModelFormatError, match="its counts contradict each other"):
        Drift.from_bytes(replace(drift, counts=drift.counts + np.arange(6)).to_bytes())
    with pytest.raises(ModelFormatError, match="its bits are not those of 15 features"):
        Seen.from_bytes(Seen(15, np.array([0, 1], np.uint8)).to_bytes())


WATCHED = Watched(BIG, seen_of(BIG, OLD))


def drift_view(drift):
    return drift.counts.ravel() / N


CASES = {
    "Drift": Case(
        Drift.zero(BIG),
        lambda i: WATCHED.transform(columns_of(LISTS, i))[1],
        drift_view,
        N,
    ),
    "Seen": Case(
        Seen.zero(BIG),
        lambda i: seen_of(BIG, i),
        lambda seen: np.unpackbits(seen.bits).astype(float),
        N,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_laws(name):
    check_laws(CASES[name])
