"""Leaves of trees in a recipe, against descents in Python and the blocks one by one."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.products import settled_scores
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.features.contributions import contributions, parts
from spark_auc.features.crosses import Crosses
from spark_auc.features.drift import Drift
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import Planned, RecipePlan
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.features.seen import Seen
from spark_auc.features.token_names import FeatureNames
from spark_auc.features.watched import Watched, counted, drift_of_fit
from spark_auc.trees.leaves import leaves
from tests.features.raw_rows import take, text
from tests.trees.forests import descended, edge_rows, random_forest

ROWS = 10_000
FOREST = random_forest(3, columns=4)
TYPES = {"a": "float", "b": "integer", "when": "time", "only": "boolean"}
TREES = TreeLeaves.of(FOREST, TYPES, KeySample(0.3, 7))
SPLINE, CITY = Spline("a", "float", (-1.0, 0.0, 2.0)), Tokens("city", "text")
ALONE = Recipe(trees=replace(TREES, grown=None), unit=False)
ALL = Recipe((SPLINE,), (CITY, Tokens("b", "integer")), 32, Crosses(bits=5), trees=TREES)


def table():
    """Raw columns, and the numbers ``(n, 4)`` that the trees take."""
    rng = np.random.default_rng(1)
    X = edge_rows(FOREST, ROWS)
    X[:, 1] = rng.integers(-3, 70, ROWS)
    X[:, 2] = rng.integers(-3, 70, ROWS) / 2
    X[:, 3] = rng.random(ROWS) < 0.5
    X[rng.random(X.shape) < 0.1] = np.nan
    there = ~np.isnan(X)
    days = np.where(there[:, 2], np.nan_to_num(X[:, 2]) * 86_400e6, 0).astype("datetime64[us]")
    days[~there[:, 2]] = np.datetime64("NaT")
    columns = {
        "city": text(rng.choice(["", "a", "b", "c"], ROWS).tolist()),
        # Missing as NaN, or by the validity, below which there are other numbers.
        "a": Numbers(np.where(there[:, 0], X[:, 0], 3.0), there[:, 0]),
        "b": Numbers(np.nan_to_num(X[:, 1]).astype(np.int64), there[:, 1]),
        "when": Numbers(days),
        "only": Numbers(X[:, 3] == 1, there[:, 3]),
    }
    return columns, X


COLUMNS, X = table()
LEAVES = descended(FOREST, X[:500])


def test_leaves_are_those_of_a_descent():
    made = ALONE.transform({name: take(c, np.arange(500)) for name, c in COLUMNS.items()})
    np.testing.assert_array_equal(made.indices.reshape(500, FOREST.trees), LEAVES)
    assert made.shape == (500, FOREST.leaves)
    assert (made.data == 1.0).all()


def test_blocks_stand_side_by_side():
    made = replace(ALL, unit=False).transform(COLUMNS)
    others = replace(ALL, unit=False, trees=None)
    first = len(others.names())
    without = others.transform(COLUMNS)
    own = ALONE.transform(COLUMNS)
    both = sparse.hstack([without[:, :first], own, without[:, first:]], "csr")
    assert (made != both).nnz == 0
    assert made.has_sorted_indices
    assert ALL.starts == (0, 4, 4 + FOREST.leaves, 36 + FOREST.leaves, ALL.size)
    norms = np.sqrt(made.multiply(made).sum(axis=1).A1)
    unit = ALL.transform(COLUMNS)
    np.testing.assert_allclose(unit.data, made.data / np.repeat(norms, np.diff(made.indptr)), 1e-15)


@pytest.mark.parametrize("batch", [1, 7, ROWS])
@pytest.mark.parametrize("recipe", [ALONE, ALL])
def test_batches_have_equal_bits(recipe, batch):
    rows = ROWS if batch == ROWS else 90 * batch
    whole = recipe.transform(COLUMNS)[:rows]
    places = np.arange(ROWS)
    some = (places[k : k + batch] for k in range(0, rows, batch))
    parts_of = [recipe.transform({n: take(c, at) for n, c in COLUMNS.items()}) for at in some]
    made = sparse.vstack(parts_of, "csr")
    for name in ("data", "indices", "indptr"):
        assert getattr(made, name).tobytes() == getattr(whole, name).tobytes()


def test_names_are_those_of_the_library():
    names = FeatureNames(ALL)
    assert names[: 4 + FOREST.leaves] == list(ALL.names())
    assert names[4] == "tree 0 leaf 0"
    at = 4 + int(FOREST.starts[2]) + 2
    assert names[at : at + 2] == ["tree 2 leaf 0", "tree 2 leaf 1"]
    assert names[4 + FOREST.leaves] == "token 0"
    assert names.place("token 3") == 7 + FOREST.leaves
    assert len(set(names)) == ALL.size


@pytest.mark.parametrize("recipe", [ALONE, ALL])
def test_stored_recipes_make_the_same_rows(recipe):
    read = from_json(to_json(recipe))
    assert read == recipe
    assert hash(read) == hash(recipe)
    assert to_json(read) == to_json(recipe)
    assert (read.transform(COLUMNS) != recipe.transform(COLUMNS)).nnz == 0
    assert "trees" not in json.loads(to_json(replace(ALL, trees=None)))
    other = replace(TREES, forest=random_forest(4, columns=4))
    assert replace(recipe, trees=other) != recipe


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda trees: trees.update(more=1), "fields of trees of the recipe"),
        (lambda trees: trees.pop("columns"), "fields of trees of the recipe"),
        (lambda trees: trees["columns"].pop(), "found 3 columns for trees of 4"),
        (lambda trees: trees["columns"][0].update(name="b"), r"twice: \[\('b', 'trees'\)\]"),
        (lambda trees: trees["columns"][0].update(type="text"), "type text as trees"),
        (lambda trees: trees["columns"][0].update(type="integer"), r"\['a'\] of several types"),
        (lambda trees: trees["forest"].update(version=2), "found version 2 as trees"),
        (lambda trees: trees["forest"]["left"].pop(), "not the lengths of a forest"),
        (lambda trees: trees["forest"]["labels"].__setitem__(2, 0), "have the same number"),
        (lambda trees: trees.update(forest=None), "found 'None' as trees"),
        (lambda trees: trees.update(grown={"share": 0.3}), "fields of grown of trees"),
        (lambda trees: trees["grown"].update(share=2), "found share = 2"),
        (lambda trees: trees["grown"].update(seed=0.5), "expected a whole number"),
    ],
)
def test_damaged_trees_are_refused(change, said):
    stored = json.loads(to_json(ALL))
    change(stored["trees"])
    with pytest.raises(ModelFormatError, match=said):
        from_json(json.dumps(stored))
    with pytest.raises(ModelFormatError, match="fields of trees"):
        from_json(json.dumps(stored | {"trees": {}}))


@pytest.mark.parametrize("recipe", [ALONE, ALL, replace(ALL, crosses=None)])
def test_contributions_of_the_trees_are_one_part(recipe):
    w = np.random.default_rng(2).normal(size=recipe.size)
    made, names = contributions(recipe, w, COLUMNS), parts(recipe)
    scores = settled_scores(recipe.transform(COLUMNS), w)
    assert np.abs(made.sum(axis=1) - scores).max() <= 1e-12 * np.abs(made).sum(axis=1).max()
    assert names[-1] == "trees"
    rows, (first, end) = recipe.transform(COLUMNS), recipe.starts[-4:-2]
    of_leaves = rows[:, first:end] @ w[first:end]
    np.testing.assert_allclose(made[:, -1], of_leaves, rtol=0, atol=1e-12 * np.abs(w).sum())
    assert names[:-1] == parts(replace(recipe, trees=None)) if recipe.numeric else names[1:] == ()


def test_a_column_of_trees_alone_is_not_crossed():
    with pytest.raises(ConfigError, match=r"found crosses of \['only'\]"):
        replace(ALL, crosses=Crosses((("only", "city"),)))
    with pytest.raises(ConfigError, match="found crosses of one column"):
        Recipe((SPLINE,), crosses=Crosses(), trees=TREES)


def test_drift_counts_missing_values_of_trees():
    drift = counted(ALL, COLUMNS)
    kinds = list(zip(drift.names.tolist(), drift.kinds.tolist(), strict=True))
    assert kinds[3:] == [(name, "trees") for name in TYPES]
    assert drift.counts[3:, :2].tolist() == [[ROWS, m] for m in np.isnan(X).sum(axis=0).tolist()]
    assert not drift.counts[3:, 2:].any()
    shares = drift.as_dict()["columns"][-1]
    assert shares == {
        "column": "only",
        "kind": "trees",
        "rows": ROWS,
        "missing": np.isnan(X[:, 3]).mean(),
    }
    assert Drift.from_bytes(drift.to_bytes()).missing() == drift.missing()


def test_tokens_are_judged_beside_trees():
    """As in the recipe without trees, whose tokens have other places."""
    without = replace(ALL, trees=None)
    half = {name: take(c, np.arange(5)) for name, c in COLUMNS.items()}
    seen, others = (Seen.of(recipe, recipe.transform(half)) for recipe in (ALL, without))
    assert seen.bits.tolist() == others.bits.tolist()
    rows, drift = Watched(ALL, seen).transform(COLUMNS)
    assert (rows != ALL.transform(COLUMNS)).nnz == 0
    expected = Watched(without, others).transform(COLUMNS)[1]
    assert drift.counts[:3].tolist() == expected.counts.tolist()
    assert expected.counts[1:3, 5].all()
    assert not drift.counts[3:, 4:].any()


def test_a_plan_keeps_its_trees():
    plan = RecipePlan((Planned("a", "float", "spline"),), trees=TREES)
    state = plan.fold([COLUMNS])
    recipe = plan.fitted(state)
    assert recipe.trees is TREES
    drift = drift_of_fit(recipe, state, {"only": (7, 2)})
    # The missing values of "a" are known from its spline.
    assert drift.counts[1, :2].tolist() == drift.counts[0, :2].tolist()
    assert drift.counts[2:, :2].tolist() == [[0, 0], [0, 0], [7, 2]]


def test_thousands_of_trees_take_few_rows_at_a_time():
    forest = random_forest(5, sizes=(1, 2, 3) * 2000, columns=4)
    recipe = Recipe(trees=TreeLeaves.of(forest, TYPES), unit=False)
    some = {name: take(column, np.arange(700)) for name, column in COLUMNS.items()}
    chunks = [(count, entries.indices.size) for _, count, entries in recipe.entries(some)]
    assert sum(count for count, _ in chunks) == 700
    assert max(size for _, size in chunks) < 1.2 * 2**20
    assert (recipe.transform(some) != leaves(forest, X[:700])).nnz == 0


def test_many_leaves_are_warned_of(caplog):
    with caplog.at_level(logging.WARNING):
        TreeLeaves.of(random_forest(0, sizes=(5000,), columns=4), TYPES).warn_of_moments()
        assert not caplog.records
        TreeLeaves.of(random_forest(0, sizes=(5000, 1), columns=4), TYPES).warn_of_moments()
    assert "found 5001 leaves of 2 trees" in caplog.text
    assert "221 us at 15500" in caplog.text


def test_errors():
    with pytest.raises(ConfigError, match="found 3 columns for trees of 4, expected equal"):
        TreeLeaves.of(FOREST, dict(list(TYPES.items())[:3]))
    with pytest.raises(ConfigError, match="column 'a' of type text as trees"):
        TreeLeaves.of(FOREST, TYPES | {"a": "text"})
    with pytest.raises(DataError, match="found no column 'only'"):
        ALONE.transform({n: c for n, c in COLUMNS.items() if n != "only"})
    with pytest.raises(DataError, match="column 'when' of type float, expected type time"):
        ALONE.transform(COLUMNS | {"when": COLUMNS["a"]})
    # Booleans, integers and floats are the same numbers.
    floats = np.where(np.isnan(X[:, 3]), np.nan, X[:, 3])
    same = ALONE.transform(COLUMNS | {"only": Numbers(floats)})
    assert (same != ALONE.transform(COLUMNS)).nnz == 0
