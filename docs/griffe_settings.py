"""Signature and parameters of the public stages, which their settings declare, for mkdocstrings."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import griffe


class Settings(griffe.Extension):
    """Gives griffe, which reads the source alone, what a stage has at run time."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Take over docstring and constructor of a class of `spark_auc.spark`."""
        if not cls.path.startswith("spark_auc.spark.") or "__init__" not in cls.members:
            return
        stage = getattr(importlib.import_module(cls.module.path), cls.name, None)
        constructor = cls.members["__init__"]
        if not getattr(stage, "SETTINGS", None) or "params" not in constructor.parameters:
            return
        cls.docstring = griffe.Docstring(inspect.getdoc(stage) or "", parent=cls)
        constructor.parameters = griffe.Parameters(
            griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword),
            *(
                griffe.Parameter(
                    name,
                    annotation=inspect.formatannotation(parameter.annotation),
                    kind=griffe.ParameterKind.keyword_only,
                    default=repr(parameter.default),
                )
                for name, parameter in inspect.signature(stage).parameters.items()
            ),
        )
