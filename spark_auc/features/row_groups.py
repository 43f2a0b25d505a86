"""Groups of raw rows, which no recipe changes."""

from __future__ import annotations

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.types import Float, Keys
from spark_auc.features.raw_columns import Column, Columns, Text
from spark_auc.features.recipe_fit import doubles_of
from spark_auc.features.text_keys import keys_of


def row_groups(columns: Columns) -> Keys:
    """The group ``(n,)`` of each row; rows with equal values in all columns are of one group.

    The values are compared, and not the features that a recipe makes of them: the folds of rows
    are then the same for all recipes of these columns.

    Raises
    ------
    DataError
        The bytes of a value lie outside the data.
    """
    values = np.column_stack([values_of(name, column) for name, column in columns.items()])
    # NaN has many bit patterns, which the hash would tell apart.
    values[np.isnan(values)] = np.nan
    return Batch(values, np.zeros(len(values), np.bool_)).groups()


def values_of(name: str, column: Column) -> Float:
    """Doubles ``(n,)`` that stand for the values of a column; NaN where they are missing."""
    return keys_of(name, column) if isinstance(column, Text) else doubles_of(column)
