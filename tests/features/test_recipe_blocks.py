"""Blocks of recipes: columns of the whole recipe against the recipes of some blocks."""

from dataclasses import replace

import numpy as np
import pytest

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError
from spark_auc.features.crosses import Crosses
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_blocks import blocks_of, of_blocks
from spark_auc.features.tree_growth import grown
from spark_auc.training.blocks import Method, unions
from tests.features.raw_rows import text

KNOTS = (0.1, 0.4, 0.6, 0.9)


def whole(seed=0, n=400):
    """A recipe of all blocks, grown from some rows, and these rows with their labels."""
    rng = np.random.default_rng(seed)
    x, z = rng.random((2, n))
    words = [f"w{k}" for k in rng.integers(0, 5, n)]
    columns = {"x": Numbers(x), "z": Numbers(z), "word": text(words)}
    y = x * z + 0.1 * rng.normal(size=n) > 0.25
    splines = tuple(Spline(name, "float", KNOTS) for name in ("x", "z"))
    trees = grown(
        columns, {"x": "float", "z": "float"}, y, sample=KeySample(0.5), numTrees=5, numLeaves=4
    )
    recipe = Recipe(
        splines,
        (Tokens("word", "text"),),
        dimension=16,
        crosses=Crosses(None, 5),
        unit=False,
        trees=trees,
        pairs=(Pair(*splines),),
    )
    return recipe, columns, y


def test_features_of_some_blocks_are_columns_of_the_whole():
    recipe, columns, _ = whole()
    blocks = blocks_of(recipe)
    assert list(blocks) == ["additive", "pairs", "crosses", "leaves"]
    everything = np.sort(np.concatenate(list(blocks.values())))
    np.testing.assert_array_equal(everything, np.arange(recipe.size))
    X = recipe.transform(columns).toarray()
    for names in unions(tuple(blocks)):
        part = of_blocks(recipe, names)
        np.testing.assert_array_equal(
            part.transform(columns).toarray(), X[:, Method(names).columns(blocks)]
        )
        if names != ("additive", "pairs", "crosses", "leaves"):
            assert list(blocks_of(part)) == list(names)
    assert all("leaf" in recipe.names()[j] for j in blocks["leaves"])
    assert blocks_of(of_blocks(recipe, ("additive",))).keys() == {"additive"}


def test_rows_of_unit_length_have_no_blocks():
    recipe, _, _ = whole()
    with pytest.raises(ConfigError, match="set unit to False"):
        blocks_of(replace(recipe, unit=True))
