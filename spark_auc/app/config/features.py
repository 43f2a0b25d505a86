"""Sections of the configuration for features: the recipe of raw columns, and embeddings."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from spark_auc.app.config.sections import Columns, Location
from spark_auc.app.config.training import params_of, settings_section
from spark_auc.spark.features.recipe_settings import RecipeSettings


class RecipeSection(settings_section("FeatureRecipe", RecipeSettings)):  # type: ignore[misc]
    """Raw columns to rows of features: the Params of FeatureRecipe, or a fitted recipe."""

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


def check_one_number(features: RecipeSection | None) -> None:
    """`ValueError` if several numKnots are set for a job that has no folds to choose from."""
    if features is not None and isinstance(features.numKnots, list) and len(features.numKnots) > 1:
        raise ValueError(
            f"one number in features.numKnots, as this job holds out no folds to choose from "
            f"{features.numKnots}; set one number, or use the recipe of a model of the job train"
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
