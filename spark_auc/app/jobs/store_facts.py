"""The facts of the moments that a job stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_auc.app.config.sections import Columns
from spark_auc.features.recipe_json import to_json
from spark_auc.store.facts import Facts

if TYPE_CHECKING:
    from spark_auc.spark.data.segments import SegmentColumn
    from spark_auc.spark.features.recipe import FeatureRecipeModel


def facts_of(
    dimension: int,
    folds: int,
    seed: int,
    columns: Columns,
    recipe: FeatureRecipeModel | None,
    segments: SegmentColumn | None = None,
) -> Facts:
    """The facts of rows of these columns; jobs of equal facts share a schema id.

    Parameters
    ----------
    dimension
        Number of features.
    folds, seed
        The folds.
    columns
        The section of the columns.
    recipe
        The fitted recipe; None for prepared features.
    segments
        The segment column; None for rows that are stored together.
    """
    return Facts(
        dimension,
        folds,
        seed,
        1.0 if columns.positiveLabel is None else columns.positiveLabel,
        columns.weight,
        None if recipe is None else to_json(recipe.recipe),
        *(() if segments is None else (segments.column, segments.values)),
    )
