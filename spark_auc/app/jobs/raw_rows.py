"""Raw rows in the jobs: the stage of the section ``features``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_auc.app.config.features import RecipeSection
from spark_auc.app.config.sections import Section
from spark_auc.app.jobs.published_model import read_recipe

if TYPE_CHECKING:
    from spark_auc.spark.features.recipe import FeatureRecipe, FeatureRecipeModel

_log = logging.getLogger(__name__)


def recipe_of(
    section: RecipeSection, keys: Sequence[str] = ()
) -> FeatureRecipe | FeatureRecipeModel:
    """The stage of a recipe: to be fitted, or that of a published model.

    Parameters
    ----------
    section
        The recipe.
    keys
        Columns that ``auto`` leaves out.

    Raises
    ------
    ConfigError
        A Param is invalid, or no model with a recipe is published at the location.
    ModelFormatError
        A file of the published model is missing or damaged.
    """
    from spark_auc.spark.features.recipe import FeatureRecipe, FeatureRecipeModel

    if section.recipe is not None:
        return FeatureRecipeModel(read_recipe(section.recipe))
    params = section.params()
    if keys:
        params["leaveOut"] = [*(params.get("leaveOut") or ()), *keys]
    return FeatureRecipe(**params)


def standardization(section: RecipeSection | None, training: Section) -> dict[str, bool]:
    """The ranker's standardization where the recipe decides it.

    Rows of unit length are trained as they are, unless ``training`` says otherwise.
    """
    if section is None or "standardization" in training.model_fields_set:
        return {}
    unit = section.unit if section.recipe is None else read_recipe(section.recipe).unit
    if not unit:
        return {}
    _log.info("standardization is false: the recipe gives rows of unit length")
    return {"standardization": False}
