"""The jobs and commands by name; imports none of them before it is asked for."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Mapping
from typing import Any

JOBS = ("prepare", "train", "evaluate", "score", "opauc", "adadsg", "retrain")
# The jobs that this process runs without Spark, where it can read their rows.
EMBEDDED = ("train", "evaluate", "score", "retrain")
# What is no job of Spark: modules of `spark_auc.app.commands`, with `add_arguments` and `run`.
COMMANDS = ("init", "export")

_PARTS = {
    "opauc": {"stream": "learn a stream as configured in opauc.stream, instead of one batch"},
    "retrain": {"delete": "delete the rows of retrain.delete, instead of processing periods"},
}


def module_of(name: str) -> Any:
    """The module of a job or a command."""
    return importlib.import_module(f"{_room(name)}.{name}")


def _room(name: str) -> str:
    return f"spark_auc.app.{'commands' if name in COMMANDS else 'jobs'}"


def doc_of(name: str) -> str:
    """The docstring of a module that is not imported."""
    source = pkgutil.get_data(_room(name), f"{name}.py") or b""
    return ast.get_docstring(ast.parse(source)) or ""


def parts_of(job: str) -> Mapping[str, str]:
    """Parts of a job's section that need a flag, and the help text of each."""
    return _PARTS.get(job, {})


def for_a_person(as_json: bool) -> bool:
    """Whether a person reads standard output, and wants no JSON."""
    return sys.stdout.isatty() and not as_json
