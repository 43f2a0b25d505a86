"""Columns of tokens whose values are known, and the features of their tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spark_auc.features.kinds.hashed import Hashed
from spark_auc.features.recipe import Recipe


class TokenPlaces(NamedTuple):
    """The features of the tokens of a column; hashes give several tokens one feature.

    Parameters
    ----------
    column
        The column, of integers or booleans.
    values
        The feature of each of its values: integers, or 0 for False and 1 for True.
    other
        The feature of other integers; None for booleans, which have no others.
    missing
        The feature of missing values; None if they have none.
    """

    column: Hashed
    values: dict[int, int]
    other: int | None
    missing: int | None

    def all(self) -> list[int]:
        """The features of values, of other integers and of missing values, in this order."""
        return [*self.values.values(), *(j for j in (self.other, self.missing) if j is not None)]


def token_places(recipe: Recipe) -> list[TokenPlaces]:
    """The features of the tokens of a recipe, of which the values of all columns are known."""
    return [_of(recipe, column, column.numbers or ()) for column in recipe.hashed]


def _of(recipe: Recipe, column: Hashed, numbers: tuple[int, ...]) -> TokenPlaces:
    hashes = column.word_hashes.view(np.int32).astype(np.int64)
    *places, missing = (recipe.starts[-3] + hashes % recipe.dimension).tolist()
    return TokenPlaces(
        column,
        dict(zip(numbers, places, strict=False)),
        places[-1] if len(places) > len(numbers) else None,
        missing if recipe.missing == "indicator" else None,
    )
