"""Raw rows in the jobs: the stages of the sections ``features`` and ``embeddings``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from spark_auc.app.config.features import RecipeSection
from spark_auc.app.config.sections import Columns, Section
from spark_auc.app.config.training import estimator_class
from spark_auc.app.jobs.published_model import read_fit
from spark_auc.pipeline.estimators import RecipeEstimator
from spark_auc.pipeline.models import FittedRecipe
from spark_auc.pipeline.ranker_fit import RankerModel
from spark_auc.pipeline.recipe_ranker import named_by_tokens
from spark_auc.tables.features import Features, PreparedFeatures
from spark_auc.tables.table import Table

if TYPE_CHECKING:
    from spark_auc.spark.features.embedding import EmbeddingEstimator, EmbeddingModel

R = TypeVar("R", bound=RankerModel)

# The features of a table's rows, with their number if it is known.
FeaturesOf: TypeAlias = Callable[[Table, int | None], Features]


def recipe_of(section: RecipeSection, keys: Sequence[str] = ()) -> RecipeEstimator | FittedRecipe:
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
    if section.recipe is not None:
        return FittedRecipe(*read_fit(section.recipe))
    params = section.params()
    if keys:
        params["leaveOut"] = [*(params.get("leaveOut") or ()), *keys]
    return RecipeEstimator(**params)


def fitted_recipe(
    section: RecipeSection | None, rows: Table, columns: Columns
) -> FittedRecipe | None:
    """The recipe of a section, fitted to rows unless it is fitted; None without a section.

    Parameters
    ----------
    section
        The recipe.
    rows
        The rows.
    columns
        The label, and columns that ``auto`` leaves out, such as weights.
    """
    if section is None:
        return None
    stage = recipe_of(section)
    if isinstance(stage, FittedRecipe):
        return stage
    label = columns.label, columns.positiveLabel
    others = [columns.fold] if columns.fold else []
    made = stage.fitted(rows, label, others, columns.weight, columns.key)
    assert isinstance(made, FittedRecipe)
    return made


def named(
    section: RecipeSection | None,
    rows: Table,
    recipe: FittedRecipe | None,
    ranker: R,
) -> R:
    """The ranker with tokens as names of its largest weights, if a recipe of the rows asks for it.

    Parameters
    ----------
    section, recipe
        The recipe, and what `fitted_recipe` made of it.
    rows
        The rows of the training.
    ranker
        The ranker.
    """
    if section is None or recipe is None or section.recipe is not None or not section.tokenNames:
        return ranker
    made: R = named_by_tokens(rows, recipe.input_features(rows), ranker)
    return made


def features_by(recipe: FittedRecipe | None, columns: Columns) -> FeaturesOf:
    """What makes the features of rows: a recipe, or the columns that the configuration names."""

    def resolved(rows: Table, dimension: int | None) -> Features:
        if recipe is not None:
            return recipe.input_features(rows)
        return PreparedFeatures.resolve(rows, columns.features, dimension)

    return resolved


def embeddings_of(
    sections: Sequence[Mapping[str, Section]], columns: Columns
) -> list[EmbeddingEstimator]:
    """The estimators of embeddings that a configuration names, in order."""
    named = {
        "inputCol": columns.features,
        "numFeatures": columns.numFeatures,
        "labelCol": columns.label,
        "positiveLabel": columns.positiveLabel,
    }
    made = []
    for embedding in sections:
        for name, params in embedding.items():
            kind = estimator_class("embedding", name)
            used = {k: v for k, v in named.items() if v is not None and k in kind.SETTINGS}
            made.append(kind(**used, **params.model_dump(exclude_unset=True)))
    return made


def embedded(
    estimators: Sequence[EmbeddingEstimator],
    rows: Table,
    features: FeaturesOf,
    columns: Columns,
) -> tuple[list[EmbeddingModel], FeaturesOf]:
    """The embeddings fitted to rows, and what makes the embedded features of others."""
    inner = features(rows, columns.numFeatures)
    models: list[EmbeddingModel] = []
    last = inner
    for estimator in estimators:
        models.append(estimator.fitted_before(rows, last, columns.key))
        last = models[-1].features(last)

    def resolved(others: Table, dimension: int | None) -> Features:
        made = features(others, inner.dimension if models else dimension)
        for model in models:
            made = model.features(made)
        return made

    return models, resolved
