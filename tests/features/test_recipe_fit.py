"""Fits of recipes: knots against numpy, and the same state for any partition of the rows."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from spark_auc.errors import ConfigError, DataError
from spark_auc.features import value_counts
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.crosses import Crosses
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.parts_of_times import Hour, Weekday
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.knots import knots_of, probabilities
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import Planned, RecipePlan, RecipeState
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.features.value_counts import ValueCounts
from tests.features.raw_rows import numbers, take, text
from tests.laws import Case, check_laws

PLAN = RecipePlan(
    (
        Planned("city", "text", "tokens"),
        Planned("age", "float", "spline"),
        Planned("clicks", "integer", "log"),
        Planned("income", "float", "standard"),
    ),
    knots=5,
    dimension=100,
    crosses=Crosses((("age", "city"),), 6),
)


@pytest.fixture
def few(monkeypatch):
    """States keep few distinct values."""
    monkeypatch.setattr(value_counts, "LIMIT", 64)


def skewed(n=20_000, seed=0):
    """Values of which 60% are 0 and 24% are one of 12 others; the rest are distinct."""
    rng = np.random.default_rng(seed)
    u, values = rng.random(n), rng.lognormal(0, 2, n)
    values[u < 0.84] = -1.0 - np.floor(u[u < 0.84] * 50 - 30)
    values[u < 0.6] = 0.0
    return values


def knots(values, count):
    return knots_of(*ValueCounts.of(np.asarray(values, float)).weighted(), count)


def test_knots_are_quantiles():
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=501), rng.integers(0, 400, 1000)):
        for count in (2, 3, 5, 12, 33):
            expected = np.quantile(values, probabilities(count), method="inverted_cdf")
            np.testing.assert_array_equal(knots(values, count), np.unique(expected))


def test_few_values_are_the_knots():
    values = np.repeat([-3.0, 0.0, 1.0, 2.0, 50.0], [1, 5_000, 1, 300, 20])
    for count in (5, 6, 12):
        np.testing.assert_array_equal(knots(values, count), np.unique(values))


def test_frequent_values_have_knots_of_their_own():
    values = np.concatenate([np.zeros(600), np.full(30, 7.0), np.linspace(1, 2, 301)])
    found = knots(values, 12)
    assert found[0] == 0.0
    rest = values[values != 0]
    expected = np.quantile(rest, probabilities(11), method="inverted_cdf")
    np.testing.assert_array_equal(found[1:], np.unique(expected))
    # One knot is left for the other values: their median.
    np.testing.assert_array_equal(
        knots([0.0] * 50 + [7.0] * 9 + [1.0, 2.0, 3.0], 3), [0.0, 2.0, 7.0]
    )
    # Two knots make the column linear.
    np.testing.assert_array_equal(knots([0.0] * 50 + [1.0, 2.0, 3.0], 2), [0.0, 3.0])
    np.testing.assert_array_equal(knots([0.0] * 5 + [1.0] * 5, 12), [0.0, 1.0])
    # Of the 301 values other than 0, 7 has more than a share of 11 knots: 10 are left for the rest.
    values = np.concatenate([np.zeros(600), np.full(30, 7.0), np.linspace(1, 2, 271)])
    rest = np.quantile(
        values[(values > 0) & (values < 7)], probabilities(10), method="inverted_cdf"
    )
    np.testing.assert_array_equal(knots(values, 12), [0.0, *np.unique(rest), 7.0])
    # Exactly 1/count is not more.
    np.testing.assert_array_equal(knots([1.0, 2.0], 2), [1.0, 2.0])
    np.testing.assert_array_equal(knots([], 4), [])
    np.testing.assert_array_equal(knots([-0.0, 0.0, np.inf, np.nan], 4), [0.0])


@pytest.mark.parametrize("limit", [64, 2**14])
def test_states_do_not_depend_on_order_or_partition(limit, monkeypatch):
    monkeypatch.setattr(value_counts, "LIMIT", limit)
    values = skewed(6_000)
    whole = ValueCounts.of(values)
    assert (whole.tallies is None) == (limit > 64)
    rng = np.random.default_rng(1)
    for parts in (2, 7, 300):
        order = rng.permutation(values)
        cuts = np.sort(rng.integers(0, values.size, parts))
        states = [ValueCounts.of(part) for part in np.split(order, cuts)]
        while len(states) > 1:
            a, b = (states.pop(rng.integers(len(states))) for _ in range(2))
            states.append(a.merge(b))
        assert states[0].to_bytes() == whole.to_bytes()


@pytest.mark.usefixtures("few")
def test_counts_of_kept_values_are_exact():
    values = skewed(6_000)
    state = ValueCounts.of(values[:100])
    for part in np.split(values[100:], 59):
        state = state.merge(ValueCounts.of(part))
    assert (state.values.size, state.rows) == (64, 6_000)
    assert list(state.counts) == [int((values == v).sum()) for v in state.values]


def test_the_distribution_of_many_values():
    values = skewed(400_000)
    state = ValueCounts.of(values)
    assert state.tallies is not None
    distinct = np.unique(values).size
    assert abs(state.distinct / distinct - 1) < 0.05
    found, rows = state.weighted()
    assert (np.diff(found) > 0).all()
    assert rows.sum() == pytest.approx(values.size)
    for value in [0.0, *range(-12, 0)]:
        assert rows[found == value].item() == pytest.approx((values == value).sum(), rel=0.05)
    # Shares below a value, the error of the sample of the distinct values included.
    at = np.quantile(values, np.linspace(0.01, 0.99, 50))
    expected = (values[:, None] <= at).mean(axis=0)
    shares = np.append(0.0, np.cumsum(rows))[np.searchsorted(found, at, "right")] / rows.sum()
    np.testing.assert_allclose(shares, expected, rtol=0, atol=0.01)
    assert 0.0 in knots_of(found, rows, 12)


def test_columns_that_are_scaled():
    values = np.random.default_rng(0).normal(1e4, 3.0, 5_000)
    gaps = np.append(values, [np.nan, np.nan])
    mean, deviation = ColumnSummary.of(gaps).scale()
    assert mean == pytest.approx(values.mean(), abs=3e-6 * 3)
    assert deviation == pytest.approx(values.std(ddof=1), rel=3e-6)
    assert ColumnSummary.of(np.full(9, 0.1)).scale() == (0.1, 1.0)
    assert ColumnSummary.of(np.full(9, np.nan)).scale() == (0.0, 1.0)
    parts = [ColumnSummary.of(part) for part in np.split(gaps, [7, 500, 501, 3000])]
    merged = parts[0]
    for part in parts[1:]:
        merged = part.merge(merged)
    assert merged.scale() == (mean, deviation)
    assert (merged.missing, merged.infinite) == (2, 0)


def table(n=3_000):
    rng = np.random.default_rng(5)
    ages = [None if gap else age for gap, age in zip(rng.random(n) < 0.1, skewed(n), strict=True)]
    return {
        "city": text(rng.choice(["a", "b", "", "c"], n).tolist()),
        "age": numbers(ages),
        "clicks": numbers(rng.integers(0, 99, n).tolist(), np.int64),
        "income": Numbers(rng.normal(5.0, 2.0, n)),
    }


@pytest.mark.parametrize("limit", [64, 2**14])
def test_a_fit(limit, monkeypatch):
    monkeypatch.setattr(value_counts, "LIMIT", limit)
    columns = table()
    made = PLAN.fitted(PLAN.fold([columns]))
    age, income = made.numeric
    assert isinstance(age, Spline)
    assert isinstance(income, Standard)
    assert 0.0 in age.knots
    assert len(age.knots) == 5
    assert made.hashed == (Log("clicks", "integer"), Tokens("city", "text"))[::-1]
    assert (made.dimension, made.crosses) == (100, PLAN.crosses)
    assert from_json(to_json(made)) == made
    X = made.transform(columns)
    np.testing.assert_array_equal(X[:, 5].toarray()[:, 0] > 0, ~columns["age"].validity)
    # Any batches and partitions.
    cuts = [0, 1, 2, 900, 901, 2_000, 3_000]
    parts = [
        {name: take(column, slice(a, b)) for name, column in columns.items()}
        for a, b in itertools.pairwise(cuts)
    ]
    assert PLAN.fitted(PLAN.fold(parts)) == made
    merged = PLAN.zero()
    for part in parts[::-1]:
        merged = merged.merge(PLAN.fold([part]))
    assert PLAN.fitted(merged) == made
    # One state serves any number of knots.
    more = dataclasses.replace(PLAN, knots=9).fitted(merged)
    assert 5 < len(more.numeric[0].knots) <= 9


def test_times_and_several_kinds_of_a_column():
    hours = np.arange(24 * 100).astype("datetime64[h]").astype("datetime64[us]")
    kinds = ("spline", "hour", "weekday")
    plan = RecipePlan(tuple(Planned("when", "time", kind) for kind in kinds), knots=3)
    made = plan.fitted(plan.fold([{"when": Numbers(np.append(hours, np.datetime64("NaT")))}]))
    assert made.numeric == (Spline("when", "time", (0.0, 1199 / 24, 2399 / 24)),)
    assert made.hashed == (Hour("when", "time"), Weekday("when", "time"))
    plan = RecipePlan(tuple(Planned("a", "integer", k) for k in ("tokens", "standard", "spline")))
    made = plan.fitted(plan.fold([{"a": Numbers(np.arange(5))}]))
    assert made.numeric[1] == Spline("a", "integer", (0.0, 1.0, 2.0, 3.0, 4.0))
    assert (made.numeric[0].mean, made.hashed) == (2.0, (Tokens("a", "integer"),))


def test_tokens_alone_need_no_rows():
    plan = RecipePlan((Planned("city", "text", "tokens"),))
    assert plan.fitted(plan.fold([table()])) == Recipe(hashed=(Tokens("city", "text"),))


def test_invalid_plans_and_rows():
    with pytest.raises(ConfigError, match="found 'hats' as the kind of column 'a', expected one"):
        RecipePlan((Planned("a", "float", "hats"),))
    with pytest.raises(ConfigError, match="found knots = 1"):
        dataclasses.replace(PLAN, knots=1)
    with pytest.raises(ConfigError, match="column 'a' of type float as tokens"):
        RecipePlan((Planned("a", "float", "tokens"),))
    columns = table(9)
    with pytest.raises(DataError, match="found no column 'age', 'income' among"):
        PLAN.fold([{"city": columns["city"]}])
    with pytest.raises(DataError, match="column 'age' of type text, expected type float"):
        PLAN.fold([columns | {"age": columns["city"]}])
    with pytest.raises(DataError, match="column 'city' of type float, expected type text"):
        PLAN.fold([columns | {"city": columns["income"]}])
    with pytest.raises(DataError, match="found 1 infinite values in column 'income'"):
        PLAN.fitted(PLAN.fold([columns | {"income": numbers([np.inf, *range(8)])}]))
    with pytest.raises(DataError, match="found states of 2 and 1 columns"):
        PLAN.zero().merge(RecipeState.zero(1))
    with pytest.raises(DataError, match="found a state of 1 columns, expected 2"):
        PLAN.fitted(RecipeState.zero(1))


N = 200
VALUES = np.where(np.arange(N) % 10 == 3, np.nan, skewed(N) + 5.0)
VALUES[7] = np.inf


def count_view(counts):
    values, weights = counts.weighted()
    view = np.zeros((2, 2 * N))
    view[:, : values.size] = values / 50, weights / N
    return np.append(view.ravel(), [counts.rows / N, min(counts.distinct / N, 2.0)])


def summary_view(summary):
    moments = [summary.moments.mean / 50, summary.moments.variance / 2500]
    facts = np.array([summary.missing, summary.infinite]) / N
    return np.concatenate([*(m.ravel() for m in moments), facts, count_view(summary.counts)])


CASES = {
    "ValueCounts": Case(ValueCounts.zero(), lambda i: ValueCounts.of(VALUES[i]), count_view, N),
    "ColumnSummary": Case(
        ColumnSummary.zero(), lambda i: ColumnSummary.of(VALUES[i]), summary_view, N
    ),
    "RecipeState": Case(
        PLAN.zero(),
        lambda i: RecipeState((ColumnSummary.of(VALUES[i]), ColumnSummary.of(-VALUES[i]))),
        lambda state: np.concatenate([summary_view(summary) for summary in state.columns]),
        N,
    ),
}


@pytest.mark.parametrize("limit", [2**14, 16])
@pytest.mark.parametrize("name", CASES)
def test_laws(name, limit, monkeypatch):
    monkeypatch.setattr(value_counts, "LIMIT", limit)
    check_laws(CASES[name])
