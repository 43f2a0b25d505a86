"""Blocks of the features of a recipe, and the recipe of some of them.

Without unit length, the features of a block are the same with and without the other blocks, so that
the rows of a recipe of some blocks are columns of the rows of the whole recipe.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from spark_auc.core.types import Int
from spark_auc.errors import ConfigError
from spark_auc.features.recipe import Recipe


def blocks_of(recipe: Recipe) -> dict[str, Int]:
    """Numbers ``(f,)`` of the features of each block that the recipe has, ascending, by name.

    The blocks are "additive" (features of single columns: numbers and tokens), "pairs", "crosses"
    and "leaves".

    Raises
    ------
    ConfigError
        The recipe divides rows by their length, which depends on all blocks.
    """
    if recipe.unit:
        raise ConfigError(
            "found a recipe with unit = True, expected rows whose features do not depend on the "
            "other blocks of the recipe; set unit to False"
        )
    starts, numbers = recipe.starts, len(recipe.numeric)
    pairs, leaves = starts[numbers], starts[numbers + len(recipe.pairs)]
    tokens, crosses, size = starts[-3:]
    blocks = {
        "additive": np.concatenate([np.arange(pairs), np.arange(tokens, crosses)]),
        "pairs": np.arange(pairs, leaves),
        "crosses": np.arange(crosses, size),
        "leaves": np.arange(leaves, tokens),
    }
    return {name: columns for name, columns in blocks.items() if columns.size}


def entries_of(recipe: Recipe) -> dict[str, int]:
    """Most stored entries of a row in each block of `blocks_of`, by name."""
    pairs, leaves = sum(p.slots for p in recipe.pairs), recipe.trees.slots if recipe.trees else 0
    return {
        "additive": recipe.slots.size - pairs - leaves,
        "pairs": pairs,
        "crosses": len(recipe.slot_pairs),
        "leaves": leaves,
    }


def of_blocks(recipe: Recipe, names: Collection[str]) -> Recipe:
    """The recipe of some of its blocks, in the order of the whole recipe.

    Raises
    ------
    ConfigError
        The blocks have no columns, or pairs or crosses are without the additive block.
    """
    has_columns = "additive" in names
    pairs = recipe.pairs if "pairs" in names else ()
    crosses = recipe.crosses if "crosses" in names else None
    return replace(
        recipe,
        numeric=recipe.numeric if has_columns else (),
        hashed=recipe.hashed if has_columns else (),
        pairs=pairs,
        crosses=crosses,
        chosen_by=recipe.chosen_by if pairs or crosses else None,
        trees=recipe.trees if "leaves" in names else None,
        head=None,
    )
