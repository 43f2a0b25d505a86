"""The estimator of recipes: raw columns of a DataFrame to sparse rows."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from typing import Annotated, Any, TypedDict, Unpack, cast

import pyarrow as pa
from pyspark.ml import Estimator, Model
from pyspark.ml.param.shared import HasOutputCol
from pyspark.sql import DataFrame

from spark_auc.core.labels import Label
from spark_auc.errors import ConfigError
from spark_auc.features.auto_rules import AUTO
from spark_auc.features.drift import Drift
from spark_auc.features.recipe import Crosses, Recipe
from spark_auc.features.recipe_auto import AutoPlan
from spark_auc.features.recipe_fit import KINDS, RecipePlan
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.spark.data.features import known_column
from spark_auc.spark.data.lines import source_of
from spark_auc.spark.data.raw_arrays import raw_type
from spark_auc.spark.data.raw_features import RawFeatures
from spark_auc.spark.features.drift import drift_of
from spark_auc.spark.features.embedding import embedded
from spark_auc.spark.features.recipe_fit import chosen, fitted
from spark_auc.spark.features.recipe_settings import RecipeSettings
from spark_auc.spark.persistence import Stage
from spark_auc.spark.settings import LabelSettings, Setting

_log = logging.getLogger(__name__)


class RecipeStageSettings(RecipeSettings, LabelSettings, total=False):
    """Settings of `FeatureRecipe`."""

    outputCol: Annotated[str, Setting("Column of the rows, a sparse vector each.", "features")]


class RecipeModelSettings(TypedDict, total=False):
    """Settings of `FeatureRecipeModel`."""

    outputCol: Annotated[str, Setting("Column of the rows, a sparse vector each.", "features")]


class FeatureRecipeModel(Stage, Model, HasOutputCol, settings=RecipeModelSettings):
    """Adds outputCol, the sparse rows of raw columns; made by the ``fit`` of a `FeatureRecipe`.

    Rows depend on their own values only. In a `RankerPipeline` no vector is made: the task that
    reads the raw columns maps them.

    Parameters
    ----------
    recipe
        The map.
    drift
        Counts of missing and extreme values in the rows of the fit. Default: unknown.

    Attributes
    ----------
    drift
        See above; None if the recipe has only columns of tokens that the Params name, or was
        stored as JSON alone.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe
    >>> model = FeatureRecipe(spline=["position", "age"], auto=False, numKnots=4).fit(rows)
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

    def input_features(self, dataset: DataFrame) -> RawFeatures:
        """The features of a DataFrame's rows; errors as of `RawFeatures.of`."""
        return RawFeatures.of(dataset, self.recipe)

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
        return drift_of(dataset, self.recipe)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        return embedded(dataset, self.input_features(dataset), self.getOutputCol())

    def _saved(self) -> tuple[pa.Table, dict[str, Any]]:
        columns: dict[str, Any] = {"recipe": [to_json(self.recipe)]}
        if self.drift:
            columns["drift"] = [self.drift.to_bytes()]
        return pa.table(columns), {}

    def _loaded(self, table: pa.Table, facts: dict[str, Any]) -> None:
        self._recipe = from_json(table["recipe"][0].as_py())
        if "drift" in table.column_names:
            self.drift = Drift.from_bytes(table["drift"][0].as_py())


class FeatureRecipe(
    Stage, Estimator[FeatureRecipeModel], HasOutputCol, settings=RecipeStageSettings
):
    """Maps raw columns to sparse rows: splines of numbers, hashed tokens and crosses.

    Columns are numbers, text, booleans or times. Knots, means and deviations come from one pass and
    depend on the rows only. A value of more than 1/numKnots of the rows has a knot of its own. The
    first features are those of columns of numbers, with exact names; then the tokens; then the
    crosses. With ``auto``, the label tells which columns may contain it, and is no feature.

    Raises
    ------
    TypeError
        A Param is unknown or of another type.
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

    def __init__(self, **params: Unpack[RecipeStageSettings]) -> None:
        super().__init__(**params)

    def fitted(
        self,
        dataset: DataFrame,
        label: tuple[str, Label | bool | None] | None = None,
        others: Collection[str] = (),
    ) -> FeatureRecipeModel:
        """Fit the recipe to the rows of a DataFrame.

        Parameters
        ----------
        dataset
            The rows.
        label
            Label column and positive label. Default: those of the Params.
        others
            Further columns that ``auto`` leaves out, such as weights.

        Raises
        ------
        ConfigError
            numKnots has several numbers, or as by ``fit``.
        """
        knots = self.knots()
        if len(knots) > 1:
            raise ConfigError(
                f"found numKnots {list(knots)} of a recipe without a ranker, expected one number; "
                "set one, or fit a RankerPipeline whose ranker chooses its penalty"
            )
        (made,) = self.candidates(dataset, label, others).values()
        return made

    def candidates(
        self,
        dataset: DataFrame,
        label: tuple[str, Label | bool | None] | None = None,
        others: Collection[str] = (),
    ) -> dict[int, FeatureRecipeModel]:
        """Recipes of the rows of a DataFrame by their number of knots, without equal recipes.

        Of equal recipes, the one of the fewest knots is kept. Parameters are those of `fitted`.
        """
        self.check()
        values: RecipeStageSettings = self.values()
        knots = self.knots()
        label = label or (values["labelCol"], values["positiveLabel"])
        kinds = self._kinds()
        types = self._types(dataset, kinds, {label[0], *others})
        settings: dict[str, Any] = {
            "knots": knots[0],
            "dimension": values["dimension"],
            "crosses": self._crosses(),
            "missing": values["missing"],
            "unit": values["unit"],
        }
        plan = AutoPlan.of_schema(types, kinds, **settings)
        if any(column.kind == AUTO for column in plan.columns):
            explicit, fits = chosen(dataset, plan, *label, knots)
        else:
            explicit = plan.widest
            fits = fitted(dataset, explicit, knots)
        made = dict[int, FeatureRecipeModel]()
        recipes = [recipe for recipe, _ in fits]
        for k, (count, (recipe, drift)) in enumerate(zip(knots, fits, strict=True)):
            if recipe in recipes[:k]:
                _log.info("%d knots give the recipe of fewer knots", count)
                continue
            _log.info("recipe: %s", _described(explicit, recipe))
            made[count] = self._copyValues(FeatureRecipeModel(recipe, drift))
        return made

    def _fit(self, dataset: DataFrame) -> FeatureRecipeModel:
        return self.fitted(dataset)

    def knots(self) -> tuple[int, ...]:
        """The numbers of knots to choose from."""
        values: RecipeStageSettings = self.values()
        knots = values["numKnots"]
        return tuple(knots) if isinstance(knots, list) else (knots,)

    def check(self) -> None:
        """See `Configured.check`."""
        knots = list(self.knots())
        if knots != sorted(set(knots)):
            raise ConfigError(
                f"found numKnots {knots}, expected different numbers in ascending order; set "
                f"numKnots to {sorted(set(knots))}"
            )

    def _kinds(self) -> dict[str, list[str]]:
        """The kinds of the columns that the Params name."""
        kinds = dict[str, list[str]]()
        for kind in KINDS:
            for name in self.values()[kind] or ():
                kinds.setdefault(name, []).append(kind)
        return kinds

    def _crosses(self) -> Crosses | None:
        values: RecipeStageSettings = self.values()
        crosses = values["crosses"]
        if crosses is None:
            return None
        pairs = None if isinstance(crosses, str) else tuple(map(tuple, crosses))
        return Crosses(cast(Any, pairs), values["crossBits"])

    def _types(
        self, df: DataFrame, kinds: Collection[str], left_out: Collection[str]
    ) -> dict[str, str]:
        """Types of the columns that the Params name or, with ``auto``, of all that are left."""
        values: RecipeStageSettings = self.values()
        for name in (*kinds, *(values["leaveOut"] or ())):
            known_column(df, name)
        source = source_of(df)
        left_out = {*left_out, *(values["leaveOut"] or ()), *(source or ())[:1]}
        types = dict[str, str]()
        for name in df.columns if values["auto"] else kinds:
            kind = df.schema[name].dataType
            if name in left_out and name not in kinds:
                continue
            if type_ := raw_type(kind):
                types[name] = type_
            elif name in kinds:
                raise ConfigError(
                    f"found column {name!r} of type {kind.simpleString()}, expected numbers, text, "
                    "booleans or times; cast it or leave it out"
                )
            else:
                _log.warning(
                    "left out %r of type %s, which recipes do not take", name, kind.simpleString()
                )
        return types


def _described(plan: RecipePlan, recipe: Recipe) -> str:
    kinds = {kind: [c.name for c in plan.columns if c.kind == kind] for kind in KINDS}
    return json.dumps({k: v for k, v in kinds.items() if v} | {"features": recipe.size})
