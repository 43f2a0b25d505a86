"""Reading a configuration file, and saying what is wrong with it."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from spark_auc.app.config.jobs import Configuration
from spark_auc.app.config.redaction import PLACEHOLDER, Redaction, names_secret, redacted
from spark_auc.errors import ConfigError

# Numbers that YAML 1.1 takes for text: an exponent without a sign, or without a point before it.
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 200
# What the parser raises for a tag, such as !!timestamp, on a value of another kind.
_UNFIT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_UNREADABLE = (yaml.YAMLError, RecursionError)


class _Loader(yaml.SafeLoader):
    """Plain values only, and an error with its place for one that Python cannot hold or print."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, int):
                str(value)
        except _UNFIT as error:
            raise yaml.constructor.ConstructorError(
                None, None, f"a value that cannot be read ({type(error).__name__})", node.start_mark
            ) from None
        return value


def load(path: str, overrides: Sequence[str] = ()) -> Configuration:
    """Read and validate a file with ``dotted.key=value`` overrides (values in YAML).

    Raises
    ------
    ConfigError
        The file is missing or no YAML, a key is unknown (the nearest known one is named), or a
        value cannot serve.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"found no readable file {path!r} ({error.strerror}), expected a YAML configuration; "
            "check --config"
        ) from None
    except ValueError as error:
        raise ConfigError(
            f"found {path!r} to be no text ({type(error).__name__}), expected a YAML "
            "configuration in UTF-8; check --config"
        ) from None
    try:
        content = yaml.load(text, _Loader)
    except _UNREADABLE as error:
        raise ConfigError(
            f"found text that is no YAML in {path!r}: {_place(error)}; repair it"
        ) from None
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise ConfigError(f"found {type(content).__name__} in {path!r}, expected sections of keys")
    for number, override in enumerate(overrides, 1):
        _override(content, override, number)
    try:
        return Configuration.model_validate(content)
    except ValidationError as error:
        # Both forms of a union are told of; a few of many mistakes are enough.
        messages = list(dict.fromkeys(_explained(e) for e in error.errors()[:20]))
        raise ConfigError(Redaction(content)("; ".join(messages))) from None
    except RecursionError:
        raise ConfigError(
            f"found sections in {path!r} that are nested too deeply, expected keys as in conf/; "
            "repair it"
        ) from None


def _place(error: Exception) -> str:
    """Where YAML is wrong; neither the line nor a name, which may be a secret."""
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "")
    if not problem:
        problem = f"a value that cannot be read ({type(error).__name__})"
    return re.sub(r"'(?!<[a-z ]+>')[^']{2,}'|\"[^\"]*\"", "'...'", problem) + where


def _override(content: dict[Any, Any], override: str, number: int) -> None:
    """Set the value of an override, which messages leave out: it may be a secret."""
    dotted, given, text = override.partition("=")
    *parents, last = dotted.split(".")
    if not given or not all([*parents, last]):
        found = f" {dotted!r}" if given else ""
        raise ConfigError(
            f"found argument {number}{found}, expected dotted.key=value; "
            "write for example train.training.regParam=0.01"
        )
    here = content
    if parents[:2] == ["spark", "conf"]:
        parents, last = parents[:2], ".".join([*parents[2:], last])
    for name in parents:
        here = here.setdefault(name, {})
        if not isinstance(here, dict):
            raise ConfigError(f"found {name!r} in {dotted!r} to be a value, expected a section")
    try:
        value = yaml.load(text, _Loader)
    except _UNREADABLE as error:
        raise ConfigError(
            f"found a value of {dotted!r} that is no YAML: {_place(error)}; put it in quotes"
        ) from None
    # A quoted number is text.
    here[last] = float(value) if value == text.strip() and _NUMBER.fullmatch(value) else value


def _explained(error: Mapping[str, Any]) -> str:
    where = _SHOWN.repr(".".join(str(part) for part in error["loc"]))
    if error["type"] == "extra_forbidden":
        known = _known_keys(error["loc"][:-1])
        near = difflib.get_close_matches(str(error["loc"][-1]), known, 1)
        remedy = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
        return f"found the unknown key {where}; {remedy}"
    if error["type"] == "missing":
        return f"found no {where}, expected it; add it"
    message = error["msg"].removeprefix("Value error, ")
    secret = any(names_secret(str(part)) for part in error["loc"])
    found = PLACEHOLDER if secret else _shown(error["input"])
    return f"found {found} at {where}; expected: {message}"


def _shown(value: Any) -> str:
    """A value as a message shows it; of a section its type, for it may hold anything."""
    if isinstance(value, dict | list | tuple | set):
        return f"a {type(value).__name__}"
    return _SHOWN.repr(redacted({"options": value})["options"])


def _known_keys(location: Sequence[str | int]) -> list[str]:
    """The keys of the section at a location of the schema."""
    schema = Configuration.model_json_schema()
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
