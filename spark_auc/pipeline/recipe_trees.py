"""The trees of a recipe: grown from a sample of the rows, or read from a model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_auc.core.labels import Label
from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.recipe_fit import RecipePlan
from spark_auc.pipeline.recipe_fit import Summary
from spark_auc.pipeline.tree_growth import TreeGrowth
from spark_auc.tables.table import Table, fields_named
from spark_auc.tables.types import raw_type, shown_type
from spark_auc.trees.column_names import columns_named
from spark_auc.trees.forest import Forest
from spark_auc.trees.lightgbm_models import from_lightgbm, lightgbm_names
from spark_auc.trees.xgboost_models import from_xgboost, xgboost_names

_log = logging.getLogger(__name__)


def with_columns_of_trees(
    table: Table, summary: Summary, settings: Mapping[str, Any], *, alone: bool
) -> Summary:
    """The summary of a plan with trees that are not grown or read yet.

    Parameters
    ----------
    table
        The rows.
    summary
        Explicit columns, which are those of grown trees unless the settings name others. Those of
        a model are its own.
    settings
        What `spark_auc.pipeline.tree_settings.tree_settings` returns.
    alone
        Whether leaves are the only features.

    Raises
    ------
    ConfigError
        A column is unknown, or of a type that trees do not take; or the model cannot be read, or
        does not name its columns.
    ModelFormatError
        The path has no model of trees.
    """
    names = settings["columns"]
    if names is None and settings["path"] is not None:
        names = columns_named(_names(settings["path"]), table.schema.names)
    trees = TreeLeaves.of_columns(_types(table, summary.plan, names))
    plan = replace(summary.plan, trees=trees)
    # Drift of columns that only trees use is counted against the rows of the fit.
    summary = summary.with_counts_of(trees.types, table)
    if not alone:
        return summary._replace(plan=plan)
    plan = replace(plan, columns=())
    return Summary(plan, plan.zero(), summary.counted, summary.rows)


def with_trees(
    table: Table,
    plan: RecipePlan,
    settings: Mapping[str, Any],
    label: tuple[str, Label | bool | None],
    weight: str | None = None,
    key: str | None = None,
    rows: int | None = None,
    *,
    read: Callable[[AnyPath, Table], Forest] | None = None,
) -> RecipePlan:
    """The plan with trees of a model, or grown from rows that training leaves out.

    Parameters
    ----------
    table
        The rows.
    plan
        Columns, those of the trees among them; see `with_columns_of_trees`.
    settings
        What `spark_auc.pipeline.tree_settings.tree_settings` returns.
    label, weight, key, rows
        See `label_sample`.
    read
        Reads the trees of a saved model, in place of `read_trees`.

    Raises
    ------
    ConfigError
        The model has another number of columns.
    DataError
        A value is invalid, or the sample has rows of one class only.
    ModelFormatError
        The path has no model of trees.
    MissingPackageError
        LightGBM is not installed.
    ResourceError
        The sample does not fit in the memory of the driver.
    """
    assert plan.trees is not None, "a plan with columns of trees"
    if settings["path"] is not None:
        path = settings["path"]
        forest = read_trees(path) if read is None else read(path, table)
        leaves = TreeLeaves.of(forest, plan.trees.types)
        leaves.warn_of_moments()
        return replace(plan, trees=leaves)
    growth = TreeGrowth.of(table, plan, settings["grow"], label, weight, key, rows)
    leaves = growth.leaves(growth.taught.sample)
    _log.info(
        "%d trees with %d leaves grew from %d rows, which training leaves out",
        *(leaves.forest.trees, leaves.forest.leaves, growth.taught.y.size),
    )
    return replace(plan, trees=leaves)


def read_trees(path: AnyPath) -> Forest:
    """The trees of a saved model.

    Parameters
    ----------
    path
        Local file of a LightGBM model in text or an XGBoost model in JSON or UBJ.

    Raises
    ------
    ConfigError
        The file cannot be read.
    ModelFormatError
        It is no model of trees.
    """
    if (model := stored_trees(path)) is None:
        raise ConfigError(
            f"found no file {path}, expected a model of LightGBM in text or of XGBoost in JSON or "
            "UBJ; set trees.path to one (Spark reads directories of Spark ML's models too)"
        )
    return from_xgboost(model) if isinstance(model, bytes) else from_lightgbm(model)


def _names(path: AnyPath) -> list[str]:
    """Names of the columns of a saved model; none if it has none."""
    if (model := stored_trees(path)) is None:
        return []
    return xgboost_names(model) if isinstance(model, bytes) else lightgbm_names(model)


def stored_trees(path: AnyPath) -> bytes | str | None:
    """An XGBoost model, the text of a LightGBM model, or None if the path is no local file."""
    file = Path(path)
    if not file.is_file():
        return None
    try:
        model = file.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"found no readable file {path} ({error.strerror}), expected a model of trees; set "
            "trees.path to one"
        ) from None
    try:
        return model if model.lstrip().startswith(b"{") else model.decode()
    except UnicodeDecodeError:
        raise ModelFormatError(
            f"found other binary data in {path}, expected a LightGBM model in text or an XGBoost "
            "model in JSON or UBJ; save it by Booster.save_model('NAME.txt') of LightGBM, or "
            "('NAME.json') of XGBoost"
        ) from None


def _types(table: Table, plan: RecipePlan, names: Sequence[str] | None) -> dict[str, str]:
    """Types of the columns of trees by name."""
    if names is None:
        return {column.name: column.type for column in plan.columns}
    types = dict[str, str]()
    for name, field in zip(names, fields_named(table, names), strict=True):
        if (found := raw_type(field.type)) is None:
            raise ConfigError(
                f"found column {name!r} of type {shown_type(field)} for trees, expected numbers, "
                "text, booleans or times; cast it or leave it out"
            )
        types[field.name] = found
    return types
