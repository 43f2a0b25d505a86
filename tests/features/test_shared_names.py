"""Names of features of two recipes: equal where the features are."""

from dataclasses import replace

import numpy as np

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.recipe import Crosses, Recipe
from spark_auc.features.shared_names import names_beside
from spark_auc.features.token_names import FeatureNames
from spark_auc.training.prior import Prior
from tests.trees.forests import random_forest

AGE = Spline("age", "float", (0.0, 1.0, 2.0))
BEFORE = Recipe(
    (AGE, Standard("income", "float", 3.0, 2.0)),
    (Tokens("city", "text"),),
    dimension=8,
    crosses=Crosses(bits=3),
)


def test_equal_recipes_have_equal_names():
    assert names_beside(BEFORE, BEFORE) == list(FeatureNames(BEFORE))


def test_features_of_other_maps_are_marked():
    """Equal names of unequal features: a hat beside another knot, another unit, another table."""
    now = replace(
        BEFORE,
        numeric=(replace(AGE, knots=(0.0, 1.0, 3.0)), Standard("income", "float", 3.0, 4.0)),
        dimension=16,
    )
    names, plain = names_beside(BEFORE, now), list(FeatureNames(BEFORE))
    shared = [name for name in names if name in plain]
    # Missing values are one thing in every map.
    assert shared == [name for name in plain if name.endswith(" missing")]
    assert [name.removesuffix(" (another map)") for name in names] == plain


def test_weights_of_a_recipe_with_one_more_column():
    now = replace(BEFORE, numeric=(Spline("new", "float", (5.0, 6.0)), *BEFORE.numeric))
    w = np.arange(1.0, 1 + BEFORE.size)
    prior = Prior.of(w, names_beside(BEFORE, now), now.size, list(FeatureNames(now)))
    added = now.size - BEFORE.size
    crosses = 8
    np.testing.assert_array_equal(prior.w[:added], 0.0)
    np.testing.assert_array_equal(prior.w[added:-crosses], w[:-crosses])
    # Crosses with other numeric features share their places in the table.
    np.testing.assert_array_equal(prior.w[-crosses:], 0.0)
    assert (prior.shared, len(prior.absent)) == (w.size - crosses, crosses)


def test_pairs_and_leaves_of_other_maps_are_marked():
    """All trees number their leaves from 0, and a surface depends on knots that no name has."""
    pair = Pair(AGE, Spline("income", "float", (1.0, 2.0)))
    types = {"age": "float", "income": "float"}
    trees = [TreeLeaves.of(random_forest(k, columns=2), types) for k in range(2)]
    before = replace(BEFORE, pairs=(pair,), trees=trees[0])
    other_pair = replace(pair, first=replace(AGE, knots=(0.0, 1.0, 3.0)))
    swapped = dict(reversed(types.items()))
    cases = [
        (replace(before, trees=replace(trees[0], grown=KeySample(0.5))), set()),
        (replace(before, pairs=(other_pair,)), {"age x"}),
        (replace(before, trees=trees[1]), {"tree "}),
        (replace(before, trees=TreeLeaves.of(trees[0].forest, swapped)), {"tree "}),
        (BEFORE, {"age x", "tree "}),
    ]
    for now, marked in cases:
        names = names_beside(before, now)
        plain = FeatureNames(before)
        marks = (" (another map)" * name.startswith(tuple(marked)) for name in plain)
        assert names == [name + mark for name, mark in zip(plain, marks, strict=True)]
