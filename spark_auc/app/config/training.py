"""Sections of the configuration that are made from the settings of estimators."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Collection
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from pydantic import Field, create_model

import spark_auc
from spark_auc.app.config.sections import Section
from spark_auc.errors import MissingPackageError
from spark_auc.pipeline.settings import Declared, declared, parts_of

Kind: TypeAlias = Literal["learner", "embedding"]

# Params that other keys of the configuration set, or that a job needs at their defaults.
ELSEWHERE = {
    "featuresCol": "columns.features",
    "inputCol": "columns.features",
    "numFeatures": "columns.numFeatures",
    "labelCol": "columns.label",
    "positiveLabel": "columns.positiveLabel",
    "weightCol": "columns.weight",
    "keyCol": "columns.key",
    "foldCol": "columns.fold",
    "keepMoments": "saveMoments",
    "prior": "prior",
    "outputCol": "",
    "vectorOutput": "",
    "handleInvalid": "",
}


def section_of(
    name: str, settings: Collection[Declared], only: Collection[str] = ()
) -> type[Section]:
    """A section with a key for each setting that `ELSEWHERE` does not name.

    Parameters
    ----------
    name
        The section's name.
    settings
        The settings.
    only
        Their names, if the section takes a few.
    """
    keys: Any = {
        setting.name: _key(setting)
        for setting in settings
        if setting.name not in ELSEWHERE and (not only or setting.name in only)
    }
    return create_model(name, __base__=Section, __doc__=f"The Params of {name}.", **keys)


def settings_section(name: str, settings: type, only: Collection[str] = ()) -> type[Section]:
    """The section of a ``TypedDict`` of settings; see `section_of`."""
    return section_of(name, declared(settings).values(), only)


def estimator_class(kind: Kind, name: str) -> type[Any]:
    """The estimator with a public name or a dotted path.

    Parameters
    ----------
    kind
        "learner" for an estimator of a linear ranker, "embedding" for one of an embedding.
    name
        The public name, or package.module.Class.

    Raises
    ------
    ValueError
        There is no such estimator.
    """
    module, _, last = name.rpartition(".")
    named: Any = None
    if module and all(part.isidentifier() for part in name.split(".")):
        try:
            named = getattr(importlib.import_module(module), last, None)
        except MissingPackageError:
            raise
        except Exception as error:
            # A module of the user's own may fail in any way.
            raise ValueError(
                f"an estimator that can be imported ({type(error).__name__}: {str(error)[:200]}); "
                "check the path and PYTHONPATH"
            ) from None
    elif last in spark_auc.__all__:
        named = getattr(spark_auc, last)
    if not _is_a(kind, named):
        public = public_names(kind)
        near = difflib.get_close_matches(last, public, 1)
        remedy = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{', '.join(public)}, or package.module.Class of your own{remedy}")
    estimator: type[Any] = named
    return estimator


def public_names(kind: Kind) -> list[str]:
    """Public names of the estimators of a kind."""
    return [name for name in spark_auc.__all__ if _is_a(kind, getattr(spark_auc, name))]


def _is_a(kind: Kind, thing: Any) -> bool:
    from spark_auc.spark.estimators.ranker import RankerEstimator
    from spark_auc.spark.features.embedding import EmbeddingEstimator

    base = RankerEstimator if kind == "learner" else EmbeddingEstimator
    return isinstance(thing, type) and issubclass(thing, base) and thing is not base


@cache
def params_section(kind: Kind, name: str) -> type[Section]:
    """The section of the Params of an estimator; errors as of `estimator_class`."""
    estimator = estimator_class(kind, name)
    return section_of(estimator.__name__, estimator.SETTINGS.values())


def params_of(kind: Kind, name: str, value: Any) -> Section:
    """The Params of an estimator.

    Raises
    ------
    ValueError
        There is no such estimator, a Param is unknown, or a value is invalid.
    """
    section = params_section(kind, name)
    keys = value if isinstance(value, dict) else {}
    unknown = [str(key) for key in keys if key not in section.model_fields]
    if unknown:
        near = difflib.get_close_matches(unknown[0], section.model_fields, 1)
        remedy = f"did you mean {near[0]!r}?" if near else "leave it out"
        raise ValueError(
            f"of {name} some of {', '.join(section.model_fields)}; found "
            f"{unknown[0][:60]!r}, {remedy}"
        )
    return section.model_validate(value)


def _key(setting: Declared) -> tuple[Any, Any]:
    """Type and field of a key."""
    default, bounds = setting.setting.default, setting.setting.range.bounds()
    parts = parts_of(setting.kind)
    described: dict[str, Any] = {"description": setting.setting.doc}
    if bounds and len(parts) == 1 and parts[0] in (int, float):
        described |= bounds
    else:
        parts = tuple(_bounded(part, bounds) for part in parts)
    kind: Any = reduce(or_, parts)
    if isinstance(default, list):
        described["default_factory"] = lambda: list(default)
    else:
        described["default"] = default
    return kind if default is not None else kind | None, Field(**described)


def _bounded(kind: Any, bounds: dict[str, float]) -> Any:
    """A type whose numbers have bounds."""
    limits: Any = bounds
    if bounds and kind in (int, float):
        return Annotated[kind, Field(**limits)]
    if get_origin(kind) is list:
        return Annotated[list[_bounded(get_args(kind)[0], bounds)], Field(min_length=1)]  # type: ignore[misc]
    return kind
