"""Numbers of categories against sums row by row, and trees that split them."""

from dataclasses import replace

import numpy as np
import pytest

from spark_auc.core.batch import hashed_shares
from spark_auc.features import category_numbers
from spark_auc.features.category_numbers import counts, target_statistics
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.features.tree_growth import grown
from spark_auc.trees.category_sets import Numbered, by_sets
from spark_auc.trees.forest import CATEGORICAL
from spark_auc.trees.leaves import leaves
from tests.features.raw_rows import text
from tests.trees.forests import random_forest

RNG = np.random.default_rng(4)
N, K = 400, 6
CODES, Y = RNG.integers(0, K + 1, N), RNG.random(N) < 0.3
GROUPS = np.repeat(RNG.integers(0, 2**63, N // 2).astype(np.uint64), 2)
KEYS = GROUPS + np.tile(np.arange(2, dtype=np.uint64), N // 2)
FOLD = (5 * hashed_shares(KEYS, 0, category_numbers._SALT)).astype(int)


def shrunk(chosen, code, u):
    """The share of positives among some rows of a category, and 20 rows of all of them."""
    own = chosen & (code == CODES)
    share = (u * Y)[chosen].sum() / u[chosen].sum()
    return ((u * Y)[own].sum() + 20 * share) / (u[own].sum() + 20)


@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_are_those_of_the_rows_of_other_folds(weighted):
    weight = RNG.uniform(0.1, 3.0, N) if weighted else None
    u = np.ones(N) if weight is None else weight
    found = target_statistics(CODES, K, Y, weight, GROUPS)
    assert set(FOLD) == set(range(5))
    expected = [shrunk(FOLD[i] != FOLD, CODES[i], u) for i in range(N)]
    np.testing.assert_allclose(found.rows, expected, rtol=1e-12)
    whole = np.ones(N, bool)
    np.testing.assert_allclose(found.table, [shrunk(whole, k, u) for k in range(K + 1)])
    flipped = Y.copy()
    flipped[10] = ~Y[10]
    again = target_statistics(CODES, K, flipped, weight, GROUPS)
    assert again.rows[10] == found.rows[10]
    assert (again.table != found.table).any()


def test_a_column_alone_has_statistics():
    """Rows of equal values are a group, as a rule."""
    found = target_statistics(CODES, K, Y, None, CODES.astype(np.uint64))
    assert np.corrcoef(found.rows, found.table[CODES])[0, 1] > 0.5


def test_a_single_row_has_a_number():
    found = target_statistics(np.array([1]), 2, np.array([True]), None, np.zeros(1, np.uint64))
    assert np.isfinite(found.rows).all()
    assert np.isfinite(found.table).all()


def test_counts():
    found = counts(CODES, K + 2)
    assert found.table.tolist() == [(k == CODES).sum() for k in range(K + 3)]
    assert found.rows.tolist() == found.table[CODES].tolist()


@pytest.mark.parametrize("size", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("seed", range(3))
def test_sets_send_rows_where_thresholds_do(seed, size):
    """Of known categories, others and missing ones, also in trees of more than 64 leaves."""
    rng = np.random.default_rng(seed)
    forest = random_forest(seed, sizes=(1, 2, 15, 64, 65, 130), columns=5)
    is_set = (forest.rule & CATEGORICAL) > 0
    # Columns 0 and 3 stand for column 1 of two; columns 1, 2 and 4 for themselves.
    numeric = np.isin(forest.column, [0, 3])
    column = np.where(numeric & is_set, 4, forest.column).astype(np.int32)
    forest = replace(forest, column=column)
    tables = [rng.normal(size=size + 1) for _ in range(2)]
    numbered = [Numbered(1, tables[0]), Numbered(0), Numbered(2), Numbered(1, tables[1])]
    made = by_sets(forest, [*numbered, Numbered(3)], 4)
    codes = rng.integers(0, size + 1, 500)
    others = rng.normal(size=(500, 3))
    X = np.column_stack([tables[0][codes], others[:, :2], tables[1][codes], others[:, 2]])
    number = np.where(codes == size, np.nan, codes)
    Z = np.column_stack([others[:, 0], number, others[:, 1:]])
    np.testing.assert_array_equal(leaves(made, Z).indices, leaves(forest, X).indices)


def test_trees_of_texts_of_many_values():
    """Scores are those of the library on the tables' numbers; other values are as rare ones."""
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rng = np.random.default_rng(1)
    n = 6000
    city = np.minimum(rng.geometric(0.05, n), 90)
    effect = rng.normal(size=91)
    x = rng.normal(size=n)
    y = effect[city] + 0.5 * x + rng.logistic(size=n) > 1
    groups = rng.integers(0, 2**63, n).astype(np.uint64)
    columns = {"city": text([f"c{k}" for k in city]), "x": Numbers(x)}
    made = grown(
        *(columns, {"city": "text", "x": "float"}, y),
        **{"sample": None, "groups": groups, "statistics": True},
        **{"numTrees": 20, "numLeaves": 8},
    )
    known = made.columns[0].values
    assert 30 < len(known) < np.unique(city).size
    place = {value: k for k, value in enumerate(known)}
    codes = np.array([place.get(f"c{k}", len(known)) for k in city])
    both = target_statistics(codes, len(known), y, None, groups), counts(codes, len(known))
    booster = lightgbm.train(
        {
            **{"objective": "binary", "num_leaves": 8, "seed": 0, "verbose": -1},
            **{"deterministic": True, "force_col_wise": True, "num_threads": 1},
        },
        lightgbm.Dataset(np.column_stack([*(part.rows for part in both), x]), y),
        20,
    )
    X = np.column_stack([*(part.table[codes] for part in both), x])
    recipe = Recipe(trees=made, unit=False)
    recipe = from_json(to_json(recipe))
    scores = recipe.transform(columns) @ made.forest.values
    np.testing.assert_allclose(scores, booster.predict(X, raw_score=True), atol=1e-9)
    rare = int(city[codes == len(known)][0])
    two = {"city": text([f"c{rare}", "never seen"]), "x": Numbers(np.zeros(2))}
    rows = recipe.transform(two).toarray()
    np.testing.assert_array_equal(rows[0], rows[1])


@pytest.mark.parametrize(
    ("rows", "values", "by_sets"), [(5000, 10, True), (4999, 10, False), (80, 8, True)]
)
def test_values_of_many_rows_are_split_by_sets(rows, values, by_sets):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rng = np.random.default_rng(2)
    city = np.arange(rows) % values
    y = rng.normal(size=values)[city] + rng.logistic(size=rows) > 0
    columns = {"city": text([f"c{k}" for k in city])}
    groups = rng.integers(0, 2**63, rows).astype(np.uint64)
    sets, chosen = (
        grown(
            *(columns, {"city": "text"}, y),
            **{"sample": None, "groups": groups, "statistics": statistics},
            **{"numTrees": 5, "numLeaves": 4},
        ).forest
        for statistics in (False, True)
    )
    assert np.array_equal(sets.values, chosen.values) == by_sets
