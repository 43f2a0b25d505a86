"""Settings of the trees of a recipe; imports no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from spark_auc.errors import ConfigError
from spark_auc.pipeline.settings import Range, Setting, declared


class GrowSettings(TypedDict, total=False):
    """Trees that LightGBM grows from a sample of the rows."""

    numTrees: Annotated[int, Setting("Number of trees.", 100, Range(ge=1))]
    numLeaves: Annotated[int, Setting("Most leaves of a tree.", 15, Range(ge=2))]
    learningRate: Annotated[float, Setting("Factor of each tree's values.", 0.1, Range(gt=0))]
    growShare: Annotated[
        float,
        Setting(
            "Share of the rows that grow the trees, drawn by key; the others are for the weights. "
            "1: all rows are for both, in a RankerPipeline with MBAClassifier.",
            0.5,
            Range(gt=0, le=1),
        ),
    ]
    maxGrowRows: Annotated[
        int, Setting("Most rows that grow the trees, on the driver.", 1_000_000, Range(ge=1))
    ]
    seed: Annotated[int, Setting("Seed of the sample and of LightGBM.", 0, Range(ge=0))]


class TreeSettings(TypedDict, total=False):
    """Trees of a recipe: grown, or of a model."""

    grow: Annotated[dict[str, Any] | None, Setting("How LightGBM grows trees.")]
    path: Annotated[
        str | None,
        Setting(
            "A file of a LightGBM model in text or of an XGBoost model in JSON or UBJ, or the "
            "directory of a tree, forest or GBT model of Spark ML."
        ),
    ]
    columns: Annotated[
        list[str] | None,
        Setting(
            "Columns that the trees split; those of a model in the order in which it was trained. "
            "Default: the names that the model has; of grown trees, the columns of the recipe."
        ),
    ]


def tree_settings(trees: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the Param ``trees`` with their defaults, as `TreeSettings` has them.

    Raises
    ------
    TypeError
        A key is unknown, or a value is of another type.
    ConfigError
        A value is out of range, or there are not exactly one of grow and path.
    """
    values = _values("trees", TreeSettings, trees)
    if (values["grow"] is None) == (values["path"] is None):
        raise ConfigError(
            f"found trees with {sorted(trees)}, expected either grow (LightGBM grows trees) or "
            "path (those of a model); set one of them"
        )
    if values["grow"] is not None:
        values["grow"] = _values("trees.grow", GrowSettings, values["grow"])
    return values


def grows_from_all(trees: Mapping[str, Any] | None) -> bool:
    """Whether all rows grow the trees of the Param ``trees``; errors as of `tree_settings`."""
    grow = tree_settings(trees)["grow"] if trees else None
    return grow is not None and grow["growShare"] == 1.0


def _values(where: str, settings: type, given: Mapping[str, Any]) -> dict[str, Any]:
    known = declared(settings)
    if unknown := sorted(set(given) - set(known)):
        raise TypeError(
            f"found the key {unknown[0]!r} in {where}, expected some of {', '.join(known)}; "
            "correct it"
        )
    defaults = {name: setting.setting.default for name, setting in known.items()}
    return defaults | {
        name: known[name].convert(value) for name, value in given.items() if value is not None
    }
