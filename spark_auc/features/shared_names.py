"""Names of a recipe's features that have the same meaning in another recipe."""

from __future__ import annotations

from dataclasses import replace

from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.recipe import Recipe
from spark_auc.features.token_names import FeatureNames

_MARK = " (another map)"


def names_beside(recipe: Recipe, other: Recipe) -> list[str]:
    """Names of all features of a recipe, marked where they differ from those of another recipe.

    Features of a numeric column differ unless the other recipe maps the column alike: a hat depends
    on the knots beside it. The same holds for pairs of columns. Leaves differ unless the other
    recipe has the same trees of the same columns: the number of a leaf says nothing of its rows.
    Tokens and crosses are hashed; they differ between tables of different sizes, and crosses
    between different maps of numeric columns.

    Parameters
    ----------
    recipe
        The recipe.
    other
        The other recipe.
    """
    names, starts = list(FeatureNames(recipe)), recipe.starts

    def mark(start: int, stop: int) -> None:
        names[start:stop] = [name + _MARK for name in names[start:stop]]

    for column, start in zip(recipe.numeric, starts[: len(recipe.numeric)], strict=True):
        if column not in other.numeric:
            # The indicator of missing values, which follows, is the same in every map.
            mark(start, start + len(column.names()))
    same = [_map(entry) for entry in other.joint]
    for entry, start in zip(recipe.joint, starts[len(recipe.numeric) :], strict=False):
        if _map(entry) not in same:
            mark(start, start + entry.size)
    if recipe.dimension != other.dimension:
        mark(*starts[-3:-1])
    if recipe.crosses and other.crosses:
        # Features of numeric columns are crossed too.
        alike = recipe.crosses.bits == other.crosses.bits and recipe.numeric == other.numeric
        if not alike:
            mark(*starts[-2:])
    return names


def _map(entry: Pair | TreeLeaves) -> Pair | TreeLeaves:
    """The entry without the rows that grew its trees, which change no feature."""
    return replace(entry, grown=None) if isinstance(entry, TreeLeaves) else entry
