"""The fitted recipe as a stage: raw columns of a DataFrame to sparse rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pyarrow as pa
from pyspark.ml import Model
from pyspark.sql import DataFrame

from spark_auc.core import html
from spark_auc.features.contributions import parts
from spark_auc.features.drift import Drift
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json
from spark_auc.pipeline.drift import drift_of
from spark_auc.pipeline.models import drift_in, recipe_table
from spark_auc.pipeline.settings import Setting
from spark_auc.spark.data.nested import with_fields
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.features.embedding import embedded
from spark_auc.spark.persistence import ModelStage
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.table import Table


class RecipeModelSettings(TypedDict, total=False):
    """Settings of `FeatureRecipeModel`."""

    outputCol: Annotated[str, Setting("Column of the rows, a sparse vector each.", "features")]


class FeatureRecipeModel(ModelStage, Model, settings=RecipeModelSettings):
    """Adds outputCol, the sparse rows of raw columns; made by the ``fit`` of a `FeatureRecipe`.

    Rows depend on their own values only. In a `RankerPipeline` no vector is made: the task that
    reads the raw columns maps them.

    Parameters
    ----------
    recipe
        The map.
    drift
        Counts of missing and extreme values in the rows of the fit, or in the training rows of a
        champion of `retrain`. Default: unknown.

    Attributes
    ----------
    drift
        See above; None if the recipe has only columns of tokens that the Params name, or was
        stored as JSON alone.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe
    >>> recipe = FeatureRecipe(spline=["position", "age"], auto=False, numKnots=4)
    >>> model = recipe.fit(rows.drop("features"))
    >>> model.recipe.names()[0]
    'position: knot 1'
    """

    def __init__(self, recipe: Recipe | None = None, drift: Drift | None = None) -> None:
        super().__init__()
        self._recipe = recipe
        self.drift = drift

    @property
    def recipe(self) -> Recipe:
        """The map."""
        assert self._recipe is not None, "a FeatureRecipeModel is made by fit() or load()"
        return self._recipe

    def _repr_html_(self) -> str:
        columns = self.recipe.own_columns
        kinds = [(column.name, column.kind, column.type) for column in columns]
        joint = [(name, "", "") for name in parts(self.recipe)[len({c.name for c in columns}) :]]
        table = html.table(["column", "as", "type"], [*kinds, *joint])
        return html.page(f"{self.uid}: {self.recipe.size} features", table)

    def replaced(self, recipe: Recipe, drift: Drift | None) -> FeatureRecipeModel:
        """A copy of the model with this recipe and these counts."""
        return self._copyValues(FeatureRecipeModel(recipe, drift))

    def strings(self) -> Iterator[str]:
        """See `Stage.strings`; with the columns of the recipe."""
        yield from super().strings()
        yield from (column.name for column in self.recipe.inputs)

    def input_features(self, table: Table) -> RawFeatures:
        """The features of a table's rows; errors as of `RawFeatures.of`."""
        return RawFeatures.of(table, self.recipe)

    def drift_of(self, dataset: DataFrame) -> Drift:
        """Counts of missing and extreme values of a DataFrame's rows, by one pass.

        ``model.drift_of(rows).excesses(model.drift)`` are the shares that exceed those of the fit.

        Raises
        ------
        ConfigError
            A column is missing.
        DataError
            A column has another type than in the fit, or a line is malformed.
        """
        return drift_of(SparkTable(with_fields(dataset, self.strings())), self.recipe)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        return embedded(dataset, self.input_features(SparkTable(dataset)), self.getOutputCol())

    def _saved(self) -> tuple[pa.Table, dict[str, Any]]:
        return recipe_table(self.recipe, self.drift), {}

    def _loaded(self, table: pa.Table, facts: dict[str, Any]) -> None:
        self._recipe = from_json(table["recipe"][0].as_py())
        self.drift = drift_in(table)
