"""Published models: what a job writes and reads of them.

A published model has the directory ``model``, a `RankerPipelineModel`: the recipe of raw columns,
embeddings, the ranker and its calibration, as many as there are. Beside it are ``recipe.json`` (the
recipe, if there is one) with ``drift.bin`` (counts of the rows of its fit, if they are known),
``summary.json`` and ``config.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.sections import Section
from spark_auc.app.config.sources import Source
from spark_auc.app.jobs.engines import Engine
from spark_auc.errors import ConfigError
from spark_auc.features.drift import Drift
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.pipeline.models import PipelineModel
from spark_auc.publication.directory import Directory
from spark_auc.publication.versions import current
from spark_auc.serving.stored_stage import StoredStage
from spark_auc.tables.names import folding
from spark_auc.tables.table import Table, fields_named
from spark_auc.tables.tally import row_count
from spark_auc.tables.text_types import Invalid, fitting, inferred, inferred_as, typed

if TYPE_CHECKING:
    from spark_auc.spark.pipeline_model import RankerPipelineModel

KIND = "model"
_RECIPE, _DRIFT = "recipe.json", "drift.bin"


def check_model(location: str) -> None:
    """`ConfigError` or `ModelFormatError` if the location has no complete model."""
    current(location, KIND)


def check_contributions(location: str) -> None:
    """Check that scores of the published model are sums over columns; needs no Spark session.

    Raises
    ------
    ConfigError
        No model is published at the location, or one with embeddings.
    ModelFormatError
        A file of the published model is missing or damaged.
    """
    version = current(location, KIND)
    embeddings = [name for name in (version / "model").names() if name.startswith("embedding")]
    if embeddings:
        raise ConfigError(
            f"found a published model with {len(embeddings)} embeddings at {location!r}, expected "
            "one without embeddings for contributions of columns; leave out score.contributions"
        )


def read_model(location: str) -> PipelineModel:
    """Load the published model.

    Raises
    ------
    ConfigError
        No model is published at the location.
    ModelFormatError
        A file is missing or damaged.
    """
    return model_of(current(location, KIND))


def set_prior(estimator: Any, location: str | None) -> None:
    """Set the Param prior to the published model at a location, if one is given."""
    if location:
        estimator.setParams(prior=read_model(location))


def model_of(version: Directory, name: str = "model") -> PipelineModel:
    """Load a model of a published version; `ModelFormatError` if a file is missing or damaged."""
    return PipelineModel.restored(StoredStage.read(version / name))


@contextmanager
def rows_for(
    engine: Engine,
    source: Source,
    model: PipelineModel,
    names: Sequence[str],
    *,
    labelled: bool,
    invalid: Invalid | None = None,
) -> Iterator[tuple[Table, int]]:
    """The rows of a source for a model, and how many others are left out, inside the block.

    Columns of text have the types of the recipe's columns, unless the source says theirs.

    Parameters
    ----------
    engine, source
        What reads the rows, and where they are.
    model
        The model.
    names
        Names of further columns, which may be paths of fields.
    labelled
        Whether rows have labels and weights, whose text gets types too.
    invalid
        What becomes of cells that do not fit; see `inferred_as`.

    Raises
    ------
    DataError
        A value has another type than in the rows of the training.
    """
    recipe, values = model.recipe, model.ranker.values()
    is_set = isinstance(source.types, dict) or source.select is not None
    if recipe is None or is_set:
        with engine.read(source, [*model.names(), *names]) as table:
            yield table, 0
        return
    plain = source.model_copy(update={"types": None})
    with engine.read(plain, [*model.names(), *names]) as table:
        types = {column.name: column.type for column in recipe.inputs}
        found = inferred_as(table, types, recipe.readings, invalid or "keep")
        fit = table
        if invalid == "skip":
            fit = fitting(table, [one.reading for one in found.values() if one.odd])
        fold = folding(exact=table.exact_names)
        own = {fold(column.name) for column in recipe.inputs}
        label, weight = values["labelCol"], values["weightCol"]
        others = [name for name in (label, weight) if name and fold(name) not in own]
        if labelled and source.format in ("csv", "json"):
            names = [field.name for field in fields_named(table, others)]
            found |= inferred(table.select(names), [label])
        left_out = 0 if fit is table else row_count(table) - row_count(fit)
        yield typed(fit, [one.reading for one in found.values()], strict=False), left_out


def save_model(
    version: Directory, model: RankerPipelineModel | PipelineModel, name: str = "model"
) -> None:
    """Write a model to a directory of a version, as ``model.save`` would through Spark."""
    model.stored().write(version / name)


def read_recipe(location: str) -> Recipe:
    """The recipe of the published model; needs no Spark session.

    Raises
    ------
    ConfigError
        No model is published at the location, or one without a recipe.
    ModelFormatError
        A file is missing or damaged.
    """
    return read_fit(location)[0]


def read_fit(location: str) -> tuple[Recipe, Drift | None]:
    """The recipe of the published model, and counts of the rows of its fit if it has them.

    Both are of one version. Errors are those of `read_recipe`.
    """
    version = current(location, KIND)
    names = version.names()
    if _RECIPE not in names:
        raise ConfigError(
            f"found a published model without {_RECIPE} at {location!r}, expected one that was "
            "trained with features; set features.recipe to another"
        )
    drift = Drift.from_bytes(version.read(_DRIFT)) if _DRIFT in names else None
    return from_json(version.read(_RECIPE)), drift


def write_model(
    version: Directory,
    model: RankerPipelineModel | PipelineModel,
    config: Section,
    **others: Any,
) -> dict[str, Any]:
    """Write the model, its recipe, the summary and the configuration.

    Parameters
    ----------
    version
        Directory of the files.
    model
        The model.
    config
        Section of the job.
    others
        Further values of the summary.

    Returns
    -------
    dict
        The summary.
    """
    save_model(version, model)
    if recipe := model.fitted_recipe:
        version.write(_RECIPE, to_json(recipe.recipe).encode())
        if recipe.drift:
            version.write(_DRIFT, recipe.drift.to_bytes())
    ranker = model.ranker
    summary = ranker.summary.as_dict() | {"threshold": ranker.getThreshold()} | others
    version.write_json("summary.json", summary)
    version.write_json("config.json", config.model_dump(mode="json", by_alias=True))
    return summary
