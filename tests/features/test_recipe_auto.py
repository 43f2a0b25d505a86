"""The automatic choice of a recipe: its rules, and the same choice for any partition."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from dataclasses import replace

import numpy as np
import pytest

from spark_auc.errors import ConfigError, DataError
from spark_auc.features import value_counts
from spark_auc.features.auto_state import AutoState, ClassColumns
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.crosses import Crosses
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe_auto import AutoPlan
from spark_auc.features.recipe_fit import Planned, RecipePlan
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.features.text_keys import keys_of
from spark_auc.features.value_counts import ValueCounts
from tests.features.raw_rows import EPOCH, numbers, take, text, times
from tests.features.test_recipe_fit import summary_view
from tests.laws import Case, check_laws

ROWS = 900
TYPES = {
    "age": "float",
    "city": "text",
    "clicks": "integer",
    "new": "boolean",
    "when": "time",
    "day": "time",
    "id": "text",
    "number": "integer",
    "same": "text",
    "nothing": "float",
    "leak": "float",
    "answer": "text",
}


def table(n=ROWS, seed=0):
    """Columns with traps, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3

    def some(values):
        gaps = rng.random(n) < 0.1
        return [None if gap else value for gap, value in zip(gaps, values, strict=True)]

    seconds = rng.integers(0, 10**8, n).tolist()
    moments = [EPOCH + datetime.timedelta(seconds=s) for s in seconds]
    return {
        "age": numbers(some(rng.normal(40, 10, n) + y)),
        "city": text(some(rng.choice(["a", "b", "", "Köln"], n).tolist())),
        "clicks": numbers(some((rng.zipf(1.9, n) % 10**6).tolist()), np.int64),
        "new": numbers(some((rng.random(n) < 0.5 + 0.2 * y).tolist()), bool),
        "when": times(some(moments)),
        "day": times([m.replace(hour=0, minute=0, second=0) for m in moments]),
        "id": text([f"user {k}" for k in range(n)]),
        "number": Numbers(rng.permutation(n)),
        "same": text(["always"] * n),
        "nothing": numbers([None] * n),
        "leak": Numbers(-1.0 * y + 0.1 * rng.random(n)),
        "answer": text(np.where(y, "yes", "no").tolist()),
        "unused": text(["x"] * n),
    }, y


PLAN = AutoPlan.of_schema(TYPES, knots=5, dimension=100)
CLICKS = sorted({int(v) for v, ok in zip(*table()[0]["clicks"], strict=True) if ok})
CHOSEN = (
    Planned("age", "float", "spline"),
    Planned("city", "text", "tokens"),
    Planned("clicks", "integer", "spline"),
    Planned("clicks", "integer", "tokens", tuple(map(str, CLICKS))),
    Planned("new", "boolean", "tokens"),
    Planned("when", "time", "hour"),
    Planned("when", "time", "weekday"),
    Planned("when", "time", "spline"),
    Planned("day", "time", "weekday"),
    Planned("day", "time", "spline"),
    Planned("leak", "float", "spline"),
    Planned("answer", "text", "tokens"),
)


def test_the_rules():
    columns, y = table()
    plan, recipe, decisions = PLAN.resolved(PLAN.fold([(columns, y)]))
    assert plan == RecipePlan(CHOSEN, knots=5, dimension=100)
    assert recipe == plan.fitted(plan.fold([columns]))
    assert recipe.transform(columns).shape == (ROWS, recipe.size)
    assert [tuple(decision) for decision in decisions] == [
        (
            "id",
            "left out 'id': 900 distinct values in 900 rows; name it under tokens to use it",
            True,
        ),
        (
            "number",
            "left out 'number': 900 distinct values in 900 rows; name it under spline to use it",
            True,
        ),
        ("same", "left out 'same': all 900 rows have the same value", False),
        ("nothing", "left out 'nothing': all 900 rows have no value", False),
        (
            "leak",
            "'leak' alone has AUC 0.0000, which may be leakage of the label; leave it out unless "
            "its values are known before the label",
            True,
        ),
        (
            "answer",
            "'answer' alone has AUC 1.0000, which may be leakage of the label; leave it out unless "
            "its values are known before the label",
            True,
        ),
    ]


def test_choices_of_the_user():
    kinds = {
        "id": "tokens",
        "number": ("spline", "tokens"),
        "same": "tokens",
        "clicks": "log",
        "when": "weekday",
    }
    made = AutoPlan.of_schema(TYPES, kinds, ("leak", "answer", "nothing"), missing="ignore")
    columns, y = table()
    plan, recipe, decisions = made.resolved(made.fold([(columns, y)]))
    assert decisions == ()
    assert (plan.missing, recipe.missing) == ("ignore", "ignore")
    changed = [c for c in plan.columns if c not in CHOSEN]
    assert changed == [
        Planned("clicks", "integer", "log"),
        Planned("id", "text", "tokens"),
        Planned("number", "integer", "spline"),
        Planned("number", "integer", "tokens"),
        Planned("same", "text", "tokens"),
    ]
    assert [c.kind for c in plan.columns if c.name == "when"] == ["weekday"]
    assert not {"leak", "answer", "nothing"} & {c.name for c in plan.columns}
    assert recipe == plan.fitted(plan.fold([columns]))


def test_values_of_few_integers_are_listed():
    rng = np.random.default_rng(0)
    n, types = 2_000, dict.fromkeys(["few", "many", "large", "explicit", "gone"], "integer")
    y = rng.random(n) < 0.3
    gap = rng.random(n) < 0.2
    few = rng.choice([-3, 0, 10, 9], n)
    columns = {
        "few": Numbers(few, ~gap),
        "many": Numbers(rng.integers(0, 257, n)),
        # Doubles do not tell these apart.
        "large": Numbers(2**53 + rng.integers(0, 3, n)),
        "explicit": Numbers(rng.integers(0, 256, n)),
        "gone": Numbers(few, np.zeros(n, bool)),
    }
    kinds = {"many": "tokens", "large": "tokens", "explicit": "tokens", "gone": "tokens"}
    made = AutoPlan.of_schema(types, kinds)
    plan, recipe, _ = made.resolved(made.fold([(columns, y)]))
    assert {c.name: c.values for c in recipe.hashed} == {
        "few": ("-3", "0", "9", "10"),
        "many": None,
        "large": None,
        "explicit": tuple(map(str, range(256))),
        "gone": (),
    }
    assert from_json(to_json(recipe)) == recipe
    unlisted = [replace(c, values=None) for c in recipe.hashed]
    X = replace(recipe, hashed=tuple(unlisted)).transform(columns)
    assert (recipe.transform(columns) != X).nnz == 0
    assert plan.fitted(plan.fold([columns])) == recipe


def test_crossed_columns_are_kept():
    types = {name: TYPES[name] for name in ("id", "same", "age")}
    made = AutoPlan.of_schema(types, crosses=Crosses((("id", "age"),), 4))
    columns, y = table()
    plan, _, decisions = made.resolved(made.fold([(columns, y)]))
    assert [c.name for c in plan.columns] == ["id", "age"]
    assert [d.column for d in decisions] == ["same"]


def test_rows_without_a_value():
    """Identifiers of few rows are told by presence; a value in some rows only is no constant."""
    n = 300
    y = np.arange(n) % 3 == 0
    gaps = np.arange(n) % 7 > 1
    columns = {
        "id": text([None if gap else f"{k}" for k, gap in enumerate(gaps)]),
        "flag": text(["x" if gap else "" for gap in gaps]),
        "number": numbers([None if gap else 1.5 for gap in gaps]),
        "absent": numbers([None if label else 1.0 + k % 5 for k, label in enumerate(y)]),
    }
    made = AutoPlan.of_schema({"id": "text", "flag": "text", "number": "float", "absent": "float"})
    plan, _, decisions = made.resolved(made.fold([(columns, y)]))
    assert [c.name for c in plan.columns] == ["id", "flag", "number", "absent"]
    assert plan.columns[0].kind == "presence"
    sentence = "left out the values of 'id': 86 distinct values in 86 rows;"
    assert decisions[0].sentence.startswith(sentence)
    assert decisions[1].sentence.startswith("'absent' alone has AUC ")


@pytest.mark.parametrize("limit", [64, 2**14])
def test_any_batches_and_partitions(limit, monkeypatch):
    monkeypatch.setattr(value_counts, "LIMIT", limit)
    columns, y = table(3_000, 1)
    whole = PLAN.fold([(columns, y)])
    chosen = PLAN.resolved(whole)
    about = "about " if limit == 64 else ""
    assert chosen[2][0].sentence.startswith(f"left out 'id': {about}")
    cuts = [0, 1, 2, 900, 901, 2_000, 3_000]
    parts = [
        ({name: take(column, slice(a, b)) for name, column in columns.items()}, y[a:b])
        for a, b in itertools.pairwise(cuts)
    ]
    assert PLAN.resolved(PLAN.fold(parts)) == chosen
    merged = PLAN.zero()
    for part in parts[::-1]:
        merged = merged.merge(PLAN.fold([part]))
    assert PLAN.resolved(merged) == chosen
    for block in ("positive", "negative"):
        one, other = getattr(whole, block), getattr(merged, block)
        assert [c.to_bytes() for c in one.tokens] == [c.to_bytes() for c in other.tokens]
        assert [s.counts.to_bytes() for s in one.numbers] == [
            s.counts.to_bytes() for s in other.numbers
        ]


def test_keys():
    words = ["", "a", "b", "ab", "a\0", "\0", "x" * 7, "x" * 8, "x" * 9, "x" * 16, "y" * 100_000]
    words += [f"user {k}" for k in range(5_000)]
    keys = keys_of("c", text([*words, None], skipped=b"abc"))
    assert np.isnan(keys[[0, -1]]).all()
    made = keys[1:-1]
    assert np.unique(made).size == made.size
    assert ((made >= 0) & (made < 2.0**53) & (made == np.floor(made))).all()
    assert abs((made / 2.0**53).mean() - 0.5) < 0.02
    np.testing.assert_array_equal(keys_of("c", text(words, np.int64)), keys[:-1])
    np.testing.assert_array_equal(keys_of("c", take(text(words), slice(5, 20))), keys[5:20])


def test_impossible_plans_and_rows():
    with pytest.raises(ConfigError, match=r"found no column \['x'\], expected different columns"):
        AutoPlan.of_schema(TYPES, {"x": "tokens"})
    with pytest.raises(ConfigError, match=r"found no column \['x'\], expected different columns"):
        AutoPlan.of_schema(TYPES, without=["x"])
    with pytest.raises(ConfigError, match=r"found \['age'\] among columns to leave out"):
        AutoPlan.of_schema(TYPES, {"age": "spline"}, ["age"])
    with pytest.raises(ConfigError, match="found column 'a' of type list, expected integer"):
        AutoPlan.of_schema({"a": "list"})
    with pytest.raises(ConfigError, match="column 'age' of type float as tokens"):
        AutoPlan.of_schema(TYPES, {"age": "tokens"})
    with pytest.raises(ConfigError, match="found 'hats' as the kind of column 'age'"):
        AutoPlan.of_schema(TYPES, {"age": "hats"})
    with pytest.raises(ConfigError, match="found knots = 1"):
        AutoPlan.of_schema(TYPES, knots=1)
    with pytest.raises(ConfigError, match="found 0 columns"):
        AutoPlan.of_schema({})
    columns, y = table(60)
    with pytest.raises(DataError, match="found no column 'city' among"):
        PLAN.fold([({name: c for name, c in columns.items() if name != "city"}, y)])
    with pytest.raises(DataError, match="column 'age' of type text, expected type float"):
        PLAN.fold([(columns | {"age": columns["city"]}, y)])
    with pytest.raises(DataError, match="found 60 rows in column 'age', expected 59"):
        PLAN.fold([(columns, y[1:])])
    with pytest.raises(DataError, match="found 60 positive and 0 negative rows, expected both"):
        PLAN.resolved(PLAN.fold([(columns, np.ones(60, bool))]))
    with pytest.raises(DataError, match="found 0 positive and 0 negative rows"):
        PLAN.resolved(PLAN.zero())
    few = AutoPlan.of_schema({"id": "text", "same": "text"})
    with pytest.raises(DataError, match=r"found no column to use among 2: left out 'id': 60"):
        few.resolved(few.fold([(columns, y)]))
    with pytest.raises(DataError, match=r"found a state of \(0, 2\) columns of numbers"):
        PLAN.resolved(few.zero())
    with pytest.raises(DataError, match=r"found states of \(0, 2\) and \(7, 5\) columns"):
        few.zero().merge(PLAN.zero())
    broken = columns["id"]._replace(data=columns["id"].data[:9])
    with pytest.raises(DataError, match=r"\(row 1 of a batch\), expected starts and ends within"):
        few.fold([(columns | {"id": broken}, y)])


N = 120
VALUES = np.where(np.arange(N) % 10 == 3, np.nan, np.arange(N) ** 2 % 37.0)
IS_POSITIVE = np.arange(N) % 3 == 0


def of_class(rows):
    kept = VALUES[rows]
    return ClassColumns(len(rows), (ColumnSummary.of(kept),), (ValueCounts.of(-kept),) * 2)


def of_rows(rows):
    y = IS_POSITIVE[rows]
    return AutoState(of_class(rows[y]), of_class(rows[~y]))


def class_view(state):
    tokens = [dataclasses.replace(ColumnSummary.zero(), counts=c) for c in state.tokens]
    views = [summary_view(summary) for summary in (*state.numbers, *tokens)]
    return np.concatenate([[state.rows / N], *views])


NONE = AutoState.zero(1, 2)
CASES = {
    "ClassColumns": Case(NONE.positive, of_class, class_view, N),
    "AutoState": Case(
        NONE,
        of_rows,
        lambda s: np.concatenate([class_view(s.positive), class_view(s.negative)]),
        N,
    ),
}


@pytest.mark.parametrize("limit", [2**14, 8])
@pytest.mark.parametrize("name", CASES)
def test_laws(name, limit, monkeypatch):
    monkeypatch.setattr(value_counts, "LIMIT", limit)
    check_laws(CASES[name])


def words(count, rows=40_000):
    return text([f"w{k % count}" for k in range(rows)])


@pytest.mark.parametrize(
    ("distinct", "dimension"),
    # 1.5 times 169 is 253.5, and 255 features are not above 1.5 times 170.
    [(2, 256), (169, 256), (170, 256), (171, 512), (5460, 8192), (5462, 16384), (12_000, 32768)],
)
def test_the_dimension_follows_from_the_distinct_tokens(distinct, dimension):
    y = np.arange(40_000) % 3 == 0
    plan = AutoPlan.of_schema({"word": "text"}, dimension=None)
    batches = [({"word": words(distinct)}, y)]
    assert plan.resolved(plan.fold(batches))[1].dimension == dimension
    fixed = AutoPlan.of_schema({"word": "text"}, dimension=77)
    assert fixed.resolved(fixed.fold(batches))[1].dimension == 77


@pytest.mark.parametrize(
    ("distinct", "dimension"),
    # 48 times 42 is 2,016; of 21,846 tokens, 1.5 times their number is above 2^15.
    [(2, 256), (42, 2048), (43, 4096), (1365, 65536), (1366, 65536), (12_000, 65536)],
)
def test_tokens_are_kept_apart_where_empty_features_cost_nothing(distinct, dimension):
    y = np.arange(40_000) % 3 == 0
    plan = AutoPlan.of_schema({"word": "text"}, dimension=None)
    state = plan.fold([({"word": words(distinct)}, y)])
    assert plan.explicit(state, apart=True)[0].dimension == dimension


@pytest.mark.parametrize("limit", [64, 2**14])
@pytest.mark.parametrize(("share", "is_used"), [(0.1, False), (0.3, True)])
def test_text_of_some_frequent_values_is_no_identifier(share, is_used, limit, monkeypatch):
    monkeypatch.setattr(value_counts, "LIMIT", limit)
    rng = np.random.default_rng(0)
    frequent = rng.random(4000) < share
    texts = [f"known{k % 10}" if some else f"alone{k}" for k, some in enumerate(frequent)]
    columns = {"employer": text(texts), "x": numbers(rng.normal(size=4000).tolist(), float)}
    plan = AutoPlan.of_schema({"employer": "text", "x": "float"})
    made = plan.explicit(plan.fold([(columns, rng.random(4000) < 0.4)]))[0]
    assert ("employer" in {column.name for column in made.columns}) == is_used


@pytest.mark.parametrize("most", [20_000, 400_000])
@pytest.mark.parametrize("relation", ["none", "inside"])
def test_integers_that_all_differ_are_used_if_rates_differ(relation, most):
    rng = np.random.default_rng(1)
    rows = most // 10
    number = rng.permutation(most)[:rows]
    inside = abs(number / most - 0.5) < 0.25
    y = rng.random(rows) < np.where((relation == "inside") & inside, 0.5, 0.3)
    columns = {
        "number": numbers(number.tolist(), int),
        "x": numbers(rng.normal(size=rows).tolist(), float),
    }
    plan = AutoPlan.of_schema({"number": "integer", "x": "float"})
    made = plan.explicit(plan.fold([(columns, y)]))[0]
    assert ("number" in {column.name for column in made.columns}) == (relation == "inside")


def test_the_dimension_counts_the_tokens_of_the_recipe():
    columns, y = table()
    plan = AutoPlan.of_schema(TYPES, {"number": "log", "when": "hour"}, dimension=None)
    made, recipe, _ = plan.resolved(plan.fold([(columns, y)]))
    tokens = {
        column.token(columns[column.name], row) for column in recipe.hashed for row in range(ROWS)
    }
    assert len(tokens) > 170 / 2
    assert 1.5 * len(tokens) < recipe.dimension <= 2**18
    assert recipe == made.fitted(made.fold([columns]))
    # No pass tells the number of tokens without columns to choose.
    assert AutoPlan.of_schema({"a": "text"}, {"a": "tokens"}).widest.dimension == 2**18


def test_the_dimension_does_not_depend_on_the_partitions():
    y = np.arange(70_000) % 3 == 0
    values = np.random.default_rng(4).permutation(np.arange(70_000) % 30_000)
    plan = AutoPlan.of_schema({"word": "text"}, dimension=None)
    names = [f"w{v}" for v in values]
    whole = plan.fold([({"word": text(names)}, y)])
    parts = plan.zero()
    for part in np.array_split(np.random.default_rng(5).permutation(70_000), 7):
        batch = {"word": text([names[k] for k in part])}
        parts = parts.merge(plan.fold([(batch, y[part])]))
    first, second = (plan.resolved(state)[1] for state in (whole, parts))
    assert first == second
    # 45,000 of 65,536: the estimate of 30,000 has an error of about 1%.
    assert first.dimension == 2**16


@pytest.mark.parametrize(
    ("n", "related", "kept"),
    [(1_500, False, False), (1_500, True, True), (200, False, True)],
)
def test_integers_of_which_every_row_has_another_one(n, related, kept):
    rng = np.random.default_rng(n)
    values = rng.choice(10**9, n, replace=False)
    y = (values / 10**9 + rng.normal(size=n) > 0.5) if related else rng.random(n) < 0.3
    made = AutoPlan.of_schema({"number": "integer", "row": "integer", "z": "float"})
    columns = {
        "number": Numbers(values),
        "row": Numbers(rng.permutation(n)),
        "z": Numbers(rng.normal(size=n)),
    }
    plan, _, decisions = made.resolved(made.fold([(columns, y)]))
    names = {column.name for column in plan.columns}
    assert names == ({"number", "z"} if kept else {"z"})
    assert [d.column for d in decisions] == (["row"] if kept else ["number", "row"])
