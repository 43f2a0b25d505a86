"""What a ranker and the recipe of its rows take from each other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeVar

from spark_auc.errors import ConfigError
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_blocks import of_blocks
from spark_auc.features.token_names import FeatureNames
from spark_auc.pipeline.prior_settings import NamedWeights
from spark_auc.pipeline.ranker_fit import RankerFit, RankerModel
from spark_auc.pipeline.recipe_estimator import RecipeFit, RecipeModel
from spark_auc.pipeline.token_sample import token_names
from spark_auc.tables.features import Features
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.table import Table

R = TypeVar("R", bound=RankerFit)
M = TypeVar("M", bound=RecipeModel | None)


def suited(ranker: R, recipe: RecipeFit | RecipeModel | None) -> R:
    """The ranker without standardization, if it is not set and its rows are of a recipe.

    Features of recipes have a common scale. Divided by their deviations, those of rare values would
    count as much as all others.

    Parameters
    ----------
    ranker
        The estimator.
    recipe
        The recipe of its rows, fitted or not.
    """
    if recipe is None or "standardization" not in ranker.SETTINGS:
        return ranker
    if ranker.isSet("standardization"):
        return ranker
    return ranker.with_values(standardization=False)


def reduced(model: RecipeModel, blocks: Collection[str]) -> RecipeModel:
    """A recipe with some of its blocks; the same object if it has no others."""
    recipe = of_blocks(model.recipe, blocks)
    if recipe == model.recipe:
        return model
    return model.replaced(recipe, model.drift and model.drift.for_recipe(recipe))


def with_head(recipe: M, ranker: RankerModel) -> M:
    """The recipe with the head of a ranker of its rows, which later fits with the recipe take."""
    head = ranker.summary.head
    if recipe is None or head is None:
        return recipe
    return recipe.replaced(replace(recipe.recipe, head=tuple(head)), recipe.drift)


def check_choices(recipe: RecipeFit, ranker: RankerFit) -> None:
    """`ConfigError` for a choice of pairs, and a ranker without folds to choose by."""
    if recipe.values()["pairs"] == "auto" and not ranker.selects:
        raise ConfigError(
            f"found pairs 'auto' and a {ranker.PUBLIC} that chooses no penalty, expected a number "
            "of pairs or names, or held-out folds to choose by; set pairs to a number, or use "
            "MBAClassifier without regParam"
        )


def recipe_for(
    ranker: RankerFit, table: Table, recipe: RecipeFit | RecipeModel, most_pairs: int | None
) -> RecipeModel:
    """The recipe of rows, fitted with the columns of the ranker's settings.

    Parameters
    ----------
    ranker
        The ranker.
    table
        The rows.
    recipe
        The recipe; a fitted one stays.
    most_pairs
        See `RecipeFit.fitted_to`.
    """
    if not isinstance(recipe, RecipeFit):
        return recipe
    values = ranker.values()
    label = values["labelCol"], values["positiveLabel"]
    others = [values[name] for name in ("foldCol", "orderCol") if values.get(name)]
    row = values.get("weightCol"), values.get("keyCol")
    smooth = bool(ranker.factors)
    return recipe.fitted_to(table, label, others, *row, is_smooth=smooth, most_pairs=most_pairs)


def named_by_tokens(table: Table, features: Features, ranker: RankerModel) -> Any:
    """The ranker of these rows, with tokens as names of its largest hashed features.

    Features that an embedding computes from those of the recipe keep their names.
    """
    if not isinstance(features, RawFeatures):
        return ranker
    names = [weight.feature for weight in ranker.summary.largest_weights]
    return ranker.renamed(token_names(table, features, names, sum(ranker.summary.rows.values())))


def named_weights(ranker: RankerModel, recipe: Recipe | None, embeddings: int) -> NamedWeights:
    """The weights of a ranker, with the names of the features of its recipe.

    Parameters
    ----------
    ranker
        The ranker.
    recipe
        The recipe of its rows, if there is one.
    embeddings
        Number of embeddings between both.

    Raises
    ------
    ConfigError
        There are embeddings: their features have no meaning without them.
    """
    if embeddings:
        raise ConfigError(
            f"found a prior with {embeddings} embeddings, expected a ranker of columns or of a "
            "recipe; name another prior"
        )
    if recipe is None:
        return ranker.named_weights()
    return NamedWeights(ranker.scorer.w, FeatureNames(recipe), recipe)
