"""What a ranker takes from the recipe of its rows: standardization, and names of tokens."""

from __future__ import annotations

from typing import TypeVar

from pyspark.sql import DataFrame

from spark_auc.spark.data.raw_features import RawFeatures
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.ranker import RankerEstimator
from spark_auc.spark.features.recipe import FeatureRecipe, FeatureRecipeModel
from spark_auc.spark.features.token_sample import token_names

R = TypeVar("R", bound=RankerEstimator)


def suited(ranker: R, recipe: FeatureRecipe | FeatureRecipeModel | None) -> R:
    """The ranker without standardization, if it is not set and the recipe's rows have length 1.

    Parameters
    ----------
    ranker
        The estimator.
    recipe
        The recipe of its rows, fitted or not.
    """
    if recipe is None or "standardization" not in ranker.SETTINGS:
        return ranker
    plan = recipe.recipe if isinstance(recipe, FeatureRecipeModel) else None
    unit = plan.unit if plan else recipe.values()["unit"]
    if not unit or ranker.isSet("standardization"):
        return ranker
    return ranker.copy({ranker.standardization: False})


def named_by_tokens(
    dataset: DataFrame, features: RawFeatures, ranker: LinearRankerModel
) -> LinearRankerModel:
    """The ranker of these rows, with tokens as names of its largest hashed features."""
    names = [weight.feature for weight in ranker.summary.largest_weights]
    return ranker.renamed(token_names(dataset, features, names, sum(ranker.summary.rows.values())))
