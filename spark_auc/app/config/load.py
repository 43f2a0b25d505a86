"""Reading a configuration file with overrides, and explaining its errors."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import fspath
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from spark_auc.app.config.jobs import Configuration
from spark_auc.app.config.sections import Section, sections_of
from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError
from spark_auc.publication.redaction import PLACEHOLDER, Redaction, names_secret, redacted

# Numbers of YAML 1.2 that YAML 1.1 reads as text: 1e-4, 1.5e3.
EXPONENT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")
# The name that pydantic gives a type of a union, behind the key.
_TYPE = re.compile(r"constrained-\w+|\w+\[.*\]")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200
# Exceptions of PyYAML for a value that does not fit its tag, such as !!timestamp x.
_UNFIT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class _Loader(yaml.SafeLoader):
    """A loader of plain values; its errors name the line of a value that Python cannot hold."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, int):
                str(value)  # Python refuses to print an integer of too many digits.
        except _UNFIT as error:
            raise yaml.constructor.ConstructorError(
                None, None, f"a value that cannot be read ({type(error).__name__})", node.start_mark
            ) from None
        return value


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+.0123456789"))


def load(path: AnyPath, overrides: Sequence[str] = ()) -> Configuration:
    """Read and validate a configuration file.

    Parameters
    ----------
    path
        A YAML file in UTF-8.
    overrides
        ``dotted.key=value`` each, with values in YAML; they replace values of the file.

    Raises
    ------
    ConfigError
        The file is missing or is not YAML, a key is unknown (the message names the nearest known
        key), or a value is invalid. Messages contain no secrets.
    """
    path = fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", error)
        raise ConfigError(
            f"found no readable file {path!r} ({reason}), expected a YAML configuration in "
            "UTF-8; check --config"
        ) from None
    content = _parsed(text, f"text in {path!r}", "correct the file")
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise ConfigError(
            f"found a {type(content).__name__} in {path!r}, expected sections of keys; "
            "see the files in conf/"
        )
    return configured(content, repr(path), overrides)


def configured(
    content: dict[Any, Any], source: str, overrides: Sequence[str] = ()
) -> Configuration:
    """Validate the content of a configuration file.

    Parameters
    ----------
    content
        Sections and their keys; overrides change it.
    source
        Where it is from, for messages.
    overrides
        See `load`.

    Raises
    ------
    ConfigError
        As by `load`.
    """
    for number, override in enumerate(overrides, 1):
        _override(content, override, number)
    try:
        return Configuration.model_validate(content)
    except ValidationError as error:
        # The first errors are enough.
        messages = list(dict.fromkeys(map(_explained, _by_key(error.errors()[:20]))))
        raise ConfigError(Redaction(content)("; ".join(messages))) from None
    except RecursionError:
        raise ConfigError(
            f"found sections in {source} that are nested too deeply, expected keys as in conf/; "
            "correct the file"
        ) from None


def _parsed(text: str, source: str, remedy: str) -> Any:
    """The value of YAML text; the error has neither the text nor its names: some are secrets."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "")
        problem = problem or f"a value that cannot be read ({type(error).__name__})"
        problem = re.sub(r"'(?!<[a-z ]+>')[^']{2,}'|\"[^\"]*\"", "'...'", problem)
        raise ConfigError(
            f"found {source} that is not YAML: {problem}{line}, expected YAML; {remedy}"
        ) from None


def _override(content: dict[Any, Any], override: str, number: int) -> None:
    """Set the value of an override in the content; messages omit the value, a possible secret."""
    dotted, equals, text = override.partition("=")
    # Names of Spark settings contain dots.
    names = dotted.split(".", 2 if dotted.startswith("spark.conf.") else -1)
    if not equals or not all(names):
        key = f" {dotted!r}" if equals else ""
        raise ConfigError(
            f"found argument {number}{key}, expected dotted.key=value; "
            "write for example train.training.regParam=0.01"
        )
    *parents, last = names
    section = content
    for name in parents:
        section = section.setdefault(name, {})
        if not isinstance(section, dict):
            raise ConfigError(
                f"found a value at {name!r} in {dotted!r}, expected a section; "
                "check the key of the override"
            )
    section[last] = _parsed(text, f"a value of {dotted!r}", "put it in quotes")


def _by_key(errors: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The errors, of which those of the types of a union are one."""
    found = list[dict[str, Any]]()
    for error in errors:
        *key, name = error["loc"] or ("",)
        if not _TYPE.fullmatch(str(name)):
            found.append(dict(error))
            continue
        expected = error["msg"].partition(", unable to parse")[0]
        if found and found[-1]["loc"] == tuple(key):
            found[-1]["msg"] += f" or {expected.removeprefix('Input should be ')}"
        else:
            found.append({**error, "loc": tuple(key), "msg": expected})
    return found


def _explained(error: Mapping[str, Any]) -> str:
    """The message of an error of pydantic."""
    location = _SHORT.repr(".".join(str(part) for part in error["loc"]))
    if error["type"] == "extra_forbidden":
        *parents, key = error["loc"]
        keys = _known_keys(_sections(parents))
        near = difflib.get_close_matches(str(key), keys, 1)
        if parents and not near:
            deeper = {path.rpartition(".")[2]: path for path in _paths(_sections(parents), parents)}
            near = [deeper[name] for name in difflib.get_close_matches(str(key), deeper, 1)]
        remedy = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(keys)}"
        return f"found the unknown key {location}; {remedy}"
    if error["type"] == "missing":
        return f"found no {location}, expected it; add it"
    expected = error["msg"].removeprefix("Value error, ")
    secret = any(names_secret(str(part)) for part in error["loc"])
    if error["type"] == "value_error" and isinstance(error["input"], dict):
        section = f"section {location}" if error["loc"] else "configuration"
        return f"found an invalid {section}; expected: {expected}"
    value = PLACEHOLDER if secret else _shown(error["input"])
    return f"found {value} at {location}; expected: {expected}"


def _shown(value: Any) -> str:
    """A value as a message shows it; of a collection its kind, since it may contain secrets."""
    if isinstance(value, dict | list | tuple | set):
        return "a section" if isinstance(value, dict) else "a list"
    return _SHORT.repr(redacted({"options": value})["options"])


def _known_keys(sections: Sequence[type[Section]]) -> list[str]:
    """The keys of any of some sections."""
    return sorted({f.alias or key for s in sections for key, f in s.model_fields.items()})


def _paths(sections: Sequence[type[Section]], location: Sequence[str | int]) -> Iterator[str]:
    """The keys of the sections of a location, and of all sections within them, as paths."""
    for section in sections:
        for name, field in section.model_fields.items():
            path = [*location, field.alias or name]
            yield ".".join(map(str, path))
            yield from _paths(sections_of(field.annotation), path)


def _sections(location: Sequence[str | int]) -> list[type[Section]]:
    """The sections that may be at a location; that of a union is named by its layout."""
    sections: list[type[Section]] = [Configuration]
    for part in location:
        fields = [section.model_fields for section in sections]
        sections = [
            section
            for section in sections
            if "layout" in section.model_fields
            and part in get_args(section.model_fields["layout"].annotation)
        ] or [s for keys in fields if part in keys for s in sections_of(keys[str(part)].annotation)]
    return sections
