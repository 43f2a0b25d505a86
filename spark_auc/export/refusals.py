"""What other systems cannot say: errors that name the part of a ranker."""

from __future__ import annotations

import numpy as np

from spark_auc.errors import ConfigError
from spark_auc.features.kinds.leaves import Categories, TreeLeaves
from spark_auc.features.recipe import Recipe
from spark_auc.serving.ranker import ServedRanker
from spark_auc.trees.forest import CATEGORICAL

# The columns that an export adds.
OUTPUTS = ("score", "prediction", "probability")
_IN_PYTHON = "score in Python by spark_auc.load"


def refused(found: str, format: str, expected: str, remedy: str) -> ConfigError:
    """The error for a part of a ranker that a format cannot hold."""
    return ConfigError(f"found {found}, expected {expected} for {format}; {remedy}")


def check_segments(ranker: ServedRanker, format: str) -> None:
    """`ConfigError` for rankers of segments."""
    if segments := ranker.scorer.segments:
        raise refused(
            f"rankers of the segments of column {segments.column!r}",
            *(format, "one ranker for all rows", "train without segmentCol"),
        )


def check_columns(ranker: ServedRanker, format: str) -> None:
    """`ConfigError` for raw columns that are hashed, or that have the name of an output."""
    names = ranker.columns or ()
    if taken := [name for name in names if name.casefold() in OUTPUTS]:
        raise refused(
            f"column {taken[0]!r}",
            *(format, f"other names than {', '.join(OUTPUTS)}", "rename it and train again"),
        )
    if ranker.recipe is not None:
        _check_recipe(ranker.recipe, format)


def _check_recipe(recipe: Recipe, format: str) -> None:
    remedy = f"leave it out of the recipe, or {_IN_PYTHON}"
    if hashed := dict.fromkeys(c.name for c in recipe.hashed if c.numbers is None):
        raise refused(
            f"hashed tokens of column {', '.join(map(repr, hashed))}",
            *(format, "numbers, booleans, and integers whose values the recipe lists"),
            f"leave it out of the recipe, fit the recipe of integers by auto, or {_IN_PYTHON}",
        )
    if recipe.crosses:
        pairs = recipe.crosses.pairs or [[column.name for column in recipe.own_columns]]
        names = ", ".join(dict.fromkeys(repr(name) for pair in pairs for name in pair))
        remedy = f"set crosses to null in the recipe, or {_IN_PYTHON}"
        raise refused(f"hashed crosses of column {names}", format, "no crosses", remedy)
    if recipe.trees:
        forest, columns = recipe.trees.forest, recipe.trees.columns
        by_sets = {columns[j] for j in forest.column[(forest.rule & CATEGORICAL) > 0]}
        if found := [c for c in columns if c in by_sets and not isinstance(c, Categories)]:
            names = ", ".join(repr(column.name) for column in found)
            raise refused(
                f"trees that split the categories of column {names}",
                *(format, "sets of text, and numbers compared with thresholds", remedy),
            )


def split_columns(trees: TreeLeaves) -> list[int]:
    """The columns that trees split, by their places; the first if they split none."""
    used: list[int] = np.unique(trees.forest.column).tolist()
    return used or [0]


def read_columns(recipe: Recipe) -> dict[str, str]:
    """Types by name of the columns that scores depend on: trees need not split all of theirs."""
    trees = recipe.trees
    split = [trees.columns[j] for j in split_columns(trees)] if trees else []
    used = {column.name for column in (*recipe.own_columns, *split)}
    times = {t.name for d in recipe.derived if d.name in used for t in d.inputs}
    return {column.name: column.type for column in recipe.inputs if column.name in used | times}
