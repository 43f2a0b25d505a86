"""Restoring a feature map of any class from its bytes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import cast

from spark_auc import features
from spark_auc.core.state.codec import kind_of
from spark_auc.features.embedding import Embedding, Mixing


@cache
def classes() -> Mapping[str, type[Embedding]]:
    """The feature maps of the modules of this room, by name.

    Bytes choose among these classes; they do not name modules to import.
    """
    names = [module.name for module in pkgutil.iter_modules(features.__path__)]
    modules = [importlib.import_module(f"{features.__name__}.{name}") for name in names]
    return {
        kind.__name__: cast(type[Embedding], kind)
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Mixing)
        and kind.__module__ == module.__name__ != Mixing.__module__
    }


def restore(data: bytes) -> Embedding:
    """The feature map from the bytes of its `to_bytes`.

    Raises
    ------
    ModelFormatError
        The bytes are not a feature map, have another version, or are truncated.
    """
    return classes()[kind_of(data, classes())].from_bytes(data)
