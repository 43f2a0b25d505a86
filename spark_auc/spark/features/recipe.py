"""The estimator of recipes: raw columns of a DataFrame to sparse rows."""

from __future__ import annotations

from typing import Unpack

from pyspark.ml import Estimator

from spark_auc.core.types import AnyPath
from spark_auc.features.auto_rules import Decision
from spark_auc.features.drift import Drift
from spark_auc.features.recipe import Recipe
from spark_auc.pipeline.recipe_estimator import LabelledRecipeSettings, RecipeFit
from spark_auc.pipeline.recipe_trees import read_trees, stored_trees
from spark_auc.spark.data.spark_table import spark_of
from spark_auc.spark.features.recipe_model import FeatureRecipeModel, RecipeModelSettings
from spark_auc.spark.features.tree_models import read_spark_trees
from spark_auc.spark.persistence import EstimatorStage
from spark_auc.tables.table import Table
from spark_auc.trees.forest import Forest


class RecipeStageSettings(LabelledRecipeSettings, RecipeModelSettings, total=False):
    """Settings of `FeatureRecipe`."""


class FeatureRecipe(
    RecipeFit,
    EstimatorStage,
    Estimator[FeatureRecipeModel],
    settings=RecipeStageSettings,
):
    """Maps raw columns to sparse rows: splines of numbers and pairs, tokens, crosses.

    Columns are numbers, text, booleans or times. Knots, means and deviations come from one pass and
    depend on the rows only. A value of more than 1/numKnots of the rows has a knot of its own. The
    first features are those of columns of numbers and of their pairs, with exact names; then the
    tokens; then the crosses. With ``auto``, the label tells which columns may contain it, and is no
    feature.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a column is unknown, or of a type that it cannot have.
    DataError
        By ``fit``: there are no rows, or a value cannot be used.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe
    >>> recipe = FeatureRecipe(standard=["position", "age"], auto=False, outputCol="made")
    >>> recipe.fit(rows).recipe.names()
    ('position', 'position missing', 'age', 'age missing')
    """

    OUTPUTS = ("outputCol",)

    def __init__(self, **params: Unpack[RecipeStageSettings]) -> None:
        super().__init__(**params)

    def recipe_model(
        self, recipe: Recipe, drift: Drift | None, decisions: tuple[Decision, ...]
    ) -> FeatureRecipeModel:
        """See `RecipeFit.recipe_model`."""
        return self._copyValues(FeatureRecipeModel(recipe, drift))

    def trees_at(self, path: AnyPath, table: Table) -> Forest:
        """See `RecipeFit.trees_at`; models of Spark ML, too, on any file system of Spark's."""
        if stored_trees(path) is None:
            return read_spark_trees(path, spark_of(table))
        return read_trees(path)
