"""Reading a configuration file, and saying what is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from spark_auc.app.config import File
from spark_auc.errors import ConfigError

# Values such as dates that are none, and text that is none, are no error of YAML's own.
_NO_YAML = (yaml.YAMLError, ValueError, RecursionError)


def load(path: str, overrides: Sequence[str] = ()) -> File:
    """Read and validate a file with ``dotted.key=value`` overrides (values in YAML).

    Raises
    ------
    ConfigError
        The file is missing or no YAML, a key is unknown (the nearest known one is named), or a
        value cannot serve.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigError(
            f"found no readable file {path!r} ({error.strerror}), expected a YAML configuration; "
            "check --config"
        ) from None
    except _NO_YAML as error:
        raise ConfigError(
            f"found text that is no YAML in {path!r}: {' '.join(str(error).split())}; repair it"
        ) from None
    if not isinstance(content, dict):
        raise ConfigError(f"found {type(content).__name__} in {path!r}, expected sections of keys")
    for override in overrides:
        _override(content, override)
    try:
        return File.model_validate(content)
    except ValidationError as error:
        raise ConfigError("; ".join(_explained(e) for e in error.errors())) from None


def _override(content: dict[str, Any], override: str) -> None:
    dotted, given, text = override.partition("=")
    *parents, last = dotted.split(".")
    if not given or not all([*parents, last]):
        raise ConfigError(
            f"found the argument {override!r}, expected dotted.key=value; "
            "write for example train.training.regParam=0.01"
        )
    here = content
    if parents[:2] == ["spark", "conf"]:
        parents, last = parents[:2], ".".join([*parents[2:], last])
    for name in parents:
        here = here.setdefault(name, {})
        if not isinstance(here, dict):
            raise ConfigError(f"found {name!r} in {override!r} to be a value, expected a section")
    try:
        here[last] = _number(yaml.safe_load(text))
    except _NO_YAML as error:
        raise ConfigError(
            f"found a value that is no YAML in {override!r}: {' '.join(str(error).split())}; "
            "repair or quote it"
        ) from None


def _number(value: Any) -> Any:
    # YAML 1.1 takes 1e-4, without a point, for text.
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _explained(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        known = _known_keys(error["loc"][:-1])
        near = difflib.get_close_matches(str(error["loc"][-1]), known, 1)
        remedy = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
        return f"found the unknown key {where!r}; {remedy}"
    if error["type"] == "missing":
        return f"found no {where!r}, expected it; add it"
    message = error["msg"].removeprefix("Value error, ")
    return f"found {error['input']!r} at {where!r}; expected: {message}"


def _known_keys(location: Sequence[str | int]) -> list[str]:
    """The keys of the section at a location of the schema."""
    schema = File.model_json_schema()
    here: Mapping[str, Any] = schema
    for part in location:
        options = [_resolved(o, schema) for o in here.get("anyOf", here.get("oneOf", [here]))]
        tagged = [o for o in options if _layout(o) == part]
        if tagged:
            here = tagged[0]
            continue
        owner = next((o for o in options if part in o.get("properties", {})), None)
        if owner is None:
            return []
        here = _resolved(owner["properties"][part], schema)
    options = [_resolved(o, schema) for o in here.get("anyOf", here.get("oneOf", [here]))]
    return sorted({key for option in options for key in option.get("properties", {})})


def _resolved(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = node.get("$ref", "").rsplit("/", 1)[-1]
    found: Mapping[str, Any] = schema["$defs"][name] if name else node
    return found


def _layout(node: Mapping[str, Any]) -> str | None:
    tag: str | None = node.get("properties", {}).get("layout", {}).get("const")
    return tag
