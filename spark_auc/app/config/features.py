"""Sections of the configuration for features: the recipe of raw columns, and embeddings."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from spark_auc.app.config.sections import Columns, Location
from spark_auc.app.config.training import params_of, settings_section
from spark_auc.pipeline.recipe_settings import RecipeSettings, are_pairs
from spark_auc.pipeline.tree_settings import GrowSettings, TreeSettings


class Grow(settings_section("trees.grow", GrowSettings)):  # type: ignore[misc]
    """Trees that LightGBM grows from rows that training leaves out, or from all rows."""


class Trees(settings_section("trees", TreeSettings)):  # type: ignore[misc]
    """Leaves of trees as features: grown trees, or those of a model."""

    grow: Grow | None = Field(None, description="trees that LightGBM grows from a sample")
    path: Location | None = Field(
        None,
        description="LightGBM model in text, XGBoost model in JSON, or directory of Spark ML's",
    )


class RecipeSection(settings_section("FeatureRecipe", RecipeSettings)):  # type: ignore[misc]
    """Raw columns to rows of features: the Params of FeatureRecipe, or a fitted recipe."""

    trees: Trees | None = Field(None, description="leaves of trees as features")
    recipe: Location | None = Field(
        None,
        description="published model whose recipe maps the rows as it is; no other key beside it",
    )

    @model_validator(mode="after")
    def _fitted_or_not(self) -> RecipeSection:
        others = sorted(self.model_fields_set - {"recipe"})
        if self.recipe is not None and others:
            raise ValueError(f"recipe alone, which is fitted; leave out {', '.join(others)}")
        return self

    @model_validator(mode="after")
    def _different_pairs(self) -> RecipeSection:
        if isinstance(self.pairs, list) and not are_pairs(self.pairs):
            raise ValueError(f"different pairs of two columns in pairs, not {self.pairs}")
        return self

    def params(self) -> dict[str, Any]:
        """The Params of FeatureRecipe that are set."""
        return dict(self.model_dump(exclude_unset=True, exclude={"recipe"}))


def check_columns(features: RecipeSection | None, columns: Columns) -> None:
    """`ValueError` if columns of features are set beside a recipe of raw columns."""
    both = [f"columns.{k}" for k in ("features", "numFeatures") if k in columns.model_fields_set]
    if features is not None and both:
        raise ValueError(
            f"either features (a recipe of raw columns) or {', '.join(both)}; leave out one of them"
        )


def check_one_recipe(features: RecipeSection | None) -> None:
    """`ValueError` for pairs or trees that rows choose, in a job that takes rows again.

    The job holds out no folds to choose by. Periods are restated and batches are read
    again long after the fit of the recipe: the rows that grew its trees would be among those that
    train.
    """
    if features is None:
        return
    if features.pairs == "auto":
        raise ValueError(
            "a number or names in features.pairs, as this job holds out no folds to compare by; "
            "set them, or use the recipe of a model of the job train"
        )
    if features.trees is not None and features.trees.grow is not None:
        raise ValueError(
            "features.trees.grow in the job train alone, which leaves out the rows that grew the "
            "trees; grow them there from other rows, and set features.recipe to its model"
        )


def _named(value: Any) -> Any:
    """The section of an embedding's Params by the embedding's name."""
    if isinstance(value, str):
        value = {value: {}}
    if not isinstance(value, dict) or len(value) != 1 or not all(isinstance(k, str) for k in value):
        raise ValueError("the name of an embedding, or its name and Params: {name: {param: value}}")
    ((name, params),) = value.items()
    return {name: params_of("embedding", name, {} if params is None else params)}


# The section of an embedding's Params, by its name.
Embedding: TypeAlias = Annotated[dict[str, Any], BeforeValidator(_named)]
