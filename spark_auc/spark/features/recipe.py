"""The estimator of recipes: raw columns of a DataFrame to sparse rows."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal, TypedDict, Unpack, cast

import pyarrow as pa
from pyspark.ml import Estimator, Model
from pyspark.ml.param.shared import HasOutputCol
from pyspark.sql import DataFrame

from spark_auc.core.row_source import State
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.recipe import Crosses, Recipe
from spark_auc.features.recipe_fit import KINDS, Planned, RecipePlan, RecipeState
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.spark.data.aggregate import aggregate
from spark_auc.spark.data.features import known_column
from spark_auc.spark.data.lines import source_of
from spark_auc.spark.data.parquet import rows_for_tasks
from spark_auc.spark.data.raw_arrays import raw_type
from spark_auc.spark.data.raw_columns import RawColumns
from spark_auc.spark.data.raw_features import RawFeatures
from spark_auc.spark.features.embedding import embedded
from spark_auc.spark.persistence import Stage
from spark_auc.spark.settings import Range, Setting

_log = logging.getLogger(__name__)

# The kinds of columns that `auto` chooses by their type.
_AUTO = {"integer": "spline", "float": "spline", "text": "tokens", "boolean": "tokens"}
# Bytes of the state of a column of numbers: at most 2^14 values, counts and tallies.
_COLUMN_BYTES = 700_000


class RecipeSettings(TypedDict, total=False):
    """Settings of `FeatureRecipe`."""

    spline: Annotated[
        list[str] | None,
        Setting("Columns of numbers as piecewise linear functions on knots."),
    ]
    standard: Annotated[
        list[str] | None,
        Setting("Columns of numbers in units of their standard deviation from their mean."),
    ]
    log: Annotated[
        list[str] | None,
        Setting("Columns of integers as hashed tokens, binned by floor(log(v)^2) above 2."),
    ]
    tokens: Annotated[
        list[str] | None,
        Setting("Columns of text, integers or booleans as hashed tokens, as FeatureHasher hashes."),
    ]
    auto: Annotated[
        bool,
        Setting(
            "Whether columns that no list names are used too: integers and floats as splines, text "
            "and booleans as tokens.",
            True,
        ),
    ]
    leaveOut: Annotated[list[str] | None, Setting("Columns that auto does not use.")]
    numKnots: Annotated[int, Setting("Most knots of a spline.", 24, Range(ge=2))]
    dimension: Annotated[int, Setting("Number of features of the tokens.", 1 << 18, Range(ge=1))]
    crosses: Annotated[
        list[list[str]] | Literal["all"] | None,
        Setting("Pairs of columns whose products are features too, hashed; 'all': each pair."),
    ]
    crossBits: Annotated[
        int, Setting("Logarithm of the number of features of crosses.", 18, Range(ge=1, le=30))
    ]
    missing: Annotated[
        Literal["indicator", "ignore"],
        Setting(
            "'indicator': missing numbers have a feature of their column, missing and empty values "
            "of tokens the token 'name='; 'ignore': they have no feature.",
            "indicator",
        ),
    ]
    unit: Annotated[bool, Setting("Whether rows are divided by their Euclidean norm.", True)]


class RecipeStageSettings(RecipeSettings, total=False):
    """Settings of the stage."""

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

    Examples
    --------
    >>> from spark_auc import FeatureRecipe
    >>> model = FeatureRecipe(spline=["position", "age"], auto=False, numKnots=4).fit(rows)
    >>> model.recipe.names()[0]
    'position: knot 1'
    """

    def __init__(self, recipe: Recipe | None = None) -> None:
        super().__init__()
        self._recipe = recipe

    @property
    def recipe(self) -> Recipe:
        """The map."""
        assert self._recipe is not None, "a FeatureRecipeModel is made by fit() or load()"
        return self._recipe

    def input_features(self, dataset: DataFrame) -> RawFeatures:
        """The features of a DataFrame's rows; errors as of `RawFeatures.of`."""
        return RawFeatures.of(dataset, self.recipe)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        return embedded(dataset, self.input_features(dataset), self.getOutputCol())

    def _saved(self) -> tuple[pa.Table, dict[str, Any]]:
        return pa.table({"recipe": [to_json(self.recipe)]}), {}

    def _loaded(self, table: pa.Table, facts: dict[str, Any]) -> None:
        self._recipe = from_json(table["recipe"][0].as_py())


class FeatureRecipe(
    Stage, Estimator[FeatureRecipeModel], HasOutputCol, settings=RecipeStageSettings
):
    """Maps raw columns to sparse rows: splines of numbers, hashed tokens and crosses.

    Columns are numbers, text, booleans. Knots, means and deviations come from one pass and depend
    on the rows only. The first features are those of columns of numbers, with exact names; then the
    tokens; then the crosses.

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

    def fitted(self, dataset: DataFrame, others: Collection[str] = ()) -> FeatureRecipeModel:
        """Fit the recipe to the rows of a DataFrame.

        Parameters
        ----------
        dataset
            The rows.
        others
            Columns that ``auto`` leaves out, such as the label.
        """
        plan = self._plan(dataset, others)
        model = FeatureRecipeModel(plan.fitted(_state(dataset, plan)))
        _log.info("recipe: %s", _described(plan, model.recipe))
        return self._copyValues(model)

    def _fit(self, dataset: DataFrame) -> FeatureRecipeModel:
        return self.fitted(dataset)

    def _plan(self, dataset: DataFrame, others: Collection[str]) -> RecipePlan:
        values: RecipeStageSettings = self.values()
        named = {name: kind for kind in KINDS for name in values.get(kind) or ()}  # type: ignore[attr-defined]
        types = {name: raw_type(known_column(dataset, name).dataType) for name in named}
        if values["auto"]:
            source = source_of(dataset)
            left_out = {*others, *(values["leaveOut"] or ()), *(source or ())[:1]}
            for field in dataset.schema:
                kind = raw_type(field.dataType)
                if field.name in named or field.name in left_out:
                    continue
                if kind in _AUTO:
                    named[field.name], types[field.name] = _AUTO[kind], kind
                else:
                    _log.warning(
                        "left out column %r of type %s, which recipes do not take",
                        field.name,
                        field.dataType.simpleString(),
                    )
        for name in named:
            if types[name] is None:
                kind = dataset.schema[name].dataType.simpleString()
                raise ConfigError(
                    f"found column {name!r} of type {kind}, "
                    "expected numbers, text or booleans; cast it or leave it out"
                )
        columns = tuple(Planned(n, cast(str, types[n]), kind) for n, kind in named.items())
        crosses = None
        if values["crosses"] is not None:
            pairs = None if values["crosses"] == "all" else tuple(map(tuple, values["crosses"]))
            crosses = Crosses(cast(Any, pairs), values["crossBits"])
        return RecipePlan(
            columns,
            values["numKnots"],
            values["dimension"],
            crosses,
            values["missing"],
            values["unit"],
        )


def _state(df: DataFrame, plan: RecipePlan) -> RecipeState:
    """What the fit of a plan knows of the rows, by one pass over the columns of numbers."""
    names = [column.name for column in plan.numeric]
    if not names:
        return plan.zero()
    raw = RawColumns.of(df, names)
    frame, read = rows_for_tasks(df, raw.columns, df.select(*raw.expressions()))

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, State]]:
        yield "recipe", plan.fold(raw.decode(batch.columns[: raw.width]) for batch in read(batches))

    size = _COLUMN_BYTES * len(names)
    states = aggregate(frame, fold, (RecipeState,), state_bytes=size, what="recipe")
    state = cast(RecipeState, states.get("recipe", plan.zero()))
    if not state.columns[0].rows:
        raise DataError("found no rows, expected some to fit a recipe to; check the input")
    return state


def _described(plan: RecipePlan, recipe: Recipe) -> str:
    kinds = {kind: [c.name for c in plan.columns if c.kind == kind] for kind in KINDS}
    return json.dumps({k: v for k, v in kinds.items() if v} | {"features": recipe.size})
