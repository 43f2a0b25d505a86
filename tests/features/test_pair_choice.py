"""The choice of pairs for a recipe, from raw columns."""

from functools import reduce

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.errors import ConfigError, DataError
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.pair_choice import PairCandidates, named_pairs
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe_fit import Planned, RecipePlan, RecipeState
from spark_auc.local import MBAClassifier
from tests.features.raw_rows import take

N = 6000
PLAN = RecipePlan(
    (
        *(Planned(name, "float", "spline") for name in "abcd"),
        Planned("size", "integer", "standard"),
        Planned("size", "integer", "tokens"),
        Planned("flag", "boolean", "spline"),
        Planned("day", "time", "spline"),
        Planned("constant", "float", "spline"),
    ),
    dimension=64,
)


def table(n=N, seed=0):
    """Columns and labels: "a" and "c" interact, as do the day and the flag, with missing values."""
    rng = np.random.default_rng(seed)
    columns = {name: Numbers(rng.lognormal(size=n)) for name in "abcd"}
    columns["b"].values[rng.random(n) < 0.1] = np.nan
    valid = rng.random(n) < 0.8
    columns["c"] = Numbers(np.where(valid, columns["c"].values, -99.0), valid)
    columns["size"] = Numbers(rng.integers(0, 8, n))
    columns["flag"] = Numbers(rng.random(n) < 0.5)
    days = rng.integers(0, 100, n)
    columns["day"] = Numbers(np.datetime64("2024-01-01", "us") + days * np.timedelta64(1, "D"))
    columns["constant"] = Numbers(np.full(n, 3.0))
    a, c = np.log(columns["a"].values), np.where(valid, np.log(np.abs(columns["c"].values)), 0)
    odds = a + 1.5 * a * c + np.where(columns["flag"].values, 1, -1) * (days - 50) / 20
    return columns, rng.random(n) < 1 / (1 + np.exp(-odds))


def test_the_planted_pairs_are_chosen_and_rank_better():
    columns, y = table()
    state = PLAN.fold([columns])
    recipe = PLAN.fitted(state)
    candidates = PairCandidates.of(recipe, state)
    assert [c.name for c in candidates.columns] == ["a", "b", "c", "d", "size", "flag", "day"]
    assert [len(c.knots) for c in candidates.columns] == [8, 8, 8, 8, 8, 2, 8]
    X = recipe.transform(columns)
    additive = MBAClassifier(regParam=0.1).fit(X, y)
    scores = additive.decision_function(X)

    whole = candidates.histograms(columns, y, scores)
    parts = [
        candidates.histograms(
            {name: take(c, slice(i, i + 999)) for name, c in columns.items()},
            y[i : i + 999],
            scores[i : i + 999],
            np.ones(y[i : i + 999].size),
        )
        for i in range(0, N, 999)
    ]
    merged = reduce(lambda one, other: one.merge(other), parts, candidates.zero())
    np.testing.assert_array_equal(merged.weight, whole.weight)
    with_pairs = candidates.chosen(recipe, merged, 2)
    assert with_pairs == candidates.chosen(recipe, whole, 2)
    chosen = {tuple(c.name for c in pair.columns) for pair in with_pairs.pairs}
    assert chosen == {("a", "c"), ("flag", "day")}
    # Other pairs gain about as much as noise, some of them less.
    assert len(candidates.chosen(recipe, whole, 21).pairs) < 21

    others, z = table(seed=1)
    paired = MBAClassifier(regParam=0.1).fit(with_pairs.transform(columns), y)
    auc = roc_auc_score(z, paired.decision_function(with_pairs.transform(others)))
    assert auc > roc_auc_score(z, additive.decision_function(recipe.transform(others))) + 0.1


def test_what_is_refused():
    columns, y = table(50)
    state = PLAN.fold([columns])
    recipe = PLAN.fitted(state)
    candidates = PairCandidates.of(recipe, state)
    with pytest.raises(DataError, match="found a state of 2 columns, expected 8"):
        PairCandidates.of(recipe, RecipeState.zero(2))
    with pytest.raises(DataError, match="column 'a' of type time, expected type float"):
        candidates.histograms(columns | {"a": columns["day"]}, y, np.zeros(50))
    with pytest.raises(DataError, match="found a state of 3 columns, expected 7"):
        candidates.chosen(recipe, type(candidates.zero()).zero(3))


def test_named_pairs_have_the_knots_of_candidates():
    columns, _ = table(500)
    state = PLAN.fold([columns])
    recipe = PLAN.fitted(state)
    first, second = named_pairs(recipe, state, [("c", "a"), ("size", "flag")])
    candidates = {column.name: column for column in PairCandidates.of(recipe, state).columns}
    assert first == Pair(candidates["c"], candidates["a"])
    assert second == Pair(candidates["size"], candidates["flag"])
    many = RecipePlan(tuple(Planned(f"x{k}", "float", "spline") for k in range(501)))
    values = Numbers(np.arange(20.0))
    wide = many.fold([{f"x{k}": values for k in range(501)}])
    (pair,) = named_pairs(many.fitted(wide), wide, [("x500", "x0")])
    assert pair.names()[0] == "x500 x x0 [0, 0]"
    for names, found in [
        (("a", "constant"), "'constant'"),
        (("a", "city"), "'city'"),
        (("no", "a"), "'no'"),
    ]:
        with pytest.raises(ConfigError, match=f"found a pair of the columns {found}, expected"):
            named_pairs(recipe, state, [names])
