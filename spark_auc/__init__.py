"""AUC maximization on Apache Spark.

``__init__.pyi`` lists the public names. Each resolves on first use, so that importing a part of
the package imports no more than that part needs.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from functools import cache
from typing import Any

__version__ = "0.1.0"


@cache
def _modules() -> dict[str, str]:
    """The module of each public name, as the stub imports it."""
    stub = pkgutil.get_data(__name__, "__init__.pyi") or b""
    return {
        alias.name: str(node.module)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(_modules())
    if not name.startswith("__") and name in _modules():
        return getattr(importlib.import_module(_modules()[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_modules(), "__all__"])
