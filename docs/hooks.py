"""Pages that MkDocs makes from the code: the public names, and every key of the configuration."""

from __future__ import annotations

import inspect
import typing
from datetime import datetime
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import spark_auc
from spark_auc.app.config.jobs import Configuration
from spark_auc.app.config.sections import Section
from spark_auc.app.config.training import params_section, public_names

_PAGES = {
    "reference/api.md": lambda text: text + _public_names(),
    "reference/configuration.md": lambda text: text + _configuration(),
}
_LAYOUT = {"input": "rows to read, by their layout", "layout": "kind of input"}
_NAMES = {str: "text", int: "integer", float: "number", bool: "boolean", datetime: "date and time"}
_NAMES[Any] = "its Params"
_BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Add to a page what is made from the code; MkDocs calls this for each page."""
    made = _PAGES.get(page.file.src_uri)
    return made(markdown) if made else markdown


def _public_names() -> str:
    public = {name: getattr(spark_auc, name) for name in spark_auc.__all__}
    results = dict[str, Any]()
    left = list(public.values())
    while left:
        for found in _returned(left.pop()):
            if found.__name__ not in public | results:
                results[found.__name__] = found
                left.append(found)
    listed = "".join(map(_directive, public.values()))
    return f"\n\n## Public names\n\n{listed}\n\n## What they return\n\n" + "".join(
        _directive(results[name]) for name in sorted(results)
    )


def _directive(thing: Any) -> str:
    text = f"::: {thing.__module__}.{thing.__name__}\n"
    if inspect.isclass(thing):
        text += f"    options:\n      members: [{', '.join(_members(thing))}]\n"
    return text + "\n"


def _members(thing: Any) -> dict[str, Any]:
    """The functions of a class's properties and methods that have a documentation of their own.

    Members of an estimator other than ``fit`` serve the training itself; ``getX`` and ``setX`` of
    a Param X are described by the Param.
    """
    found = {}
    params = getattr(thing, "SETTINGS", {})
    accessors = {f"{verb}{p[0].upper()}{p[1:]}" for p in params for verb in ("get", "set")}
    for name, member in vars(thing).items():
        of_property = isinstance(member, property | cached_property)
        function = getattr(member, "fget", getattr(member, "func", member))
        shown = of_property or (inspect.isfunction(member) and not hasattr(thing, "fit"))
        if name.startswith("_") or name in accessors or name == "check":
            continue
        if shown and inspect.getdoc(function):
            found[name] = function
    return found


def _returned(thing: Any) -> list[type]:
    """The package's documented classes that a function, or a member of a class, returns."""
    functions = _members(thing).values() if inspect.isclass(thing) else [thing]
    hints = [typing.get_type_hints(f).get("return") for f in functions]
    return [
        hint
        for whole in hints
        for hint in (whole, *typing.get_args(whole))
        if inspect.isclass(hint) and hint.__module__.startswith(f"{spark_auc.__name__}.")
    ]


def _configuration() -> str:
    """A table for each section, those of the jobs first."""
    text, shared = "", list[type[BaseModel]]()
    for name, field in Configuration.model_fields.items():
        (section,) = _sections(field.annotation)
        text += _table(f"`{name}`", section, shared)
    for section in shared:
        text += _table(section.__name__, section, shared)
    for name in public_names("learner"):
        text += _table(f"Training of {name}", params_section("learner", name), shared)
    for name in public_names("embedding"):
        text += _table(f"Embedding {name}", params_section("embedding", name), shared)
    return text


def _table(title: str, section: type[BaseModel], shared: list[type[BaseModel]]) -> str:
    rows = ""
    for name, field in section.model_fields.items():
        for part in _sections(field.annotation):
            if part not in shared:
                shared.append(part)
        described = _described(name, field)
        rows += (
            f"| `{field.alias or name}` | {_type(field.annotation)}{_bounds(field)} "
            f"| {_default(field)} | {described} |\n".replace("\n|", "|")
        )
    doc = inspect.getdoc(section) or ""
    return (
        f"\n\n## {title} {{#{_anchor(title)}}}\n\n{doc}\n\n"
        f"| key | type | default | description |\n|---|---|---|---|\n{rows}"
    )


def _anchor(title: str) -> str:
    name = title.strip("`")
    name = name.lower().replace(" ", "-")
    return f"job-{name}" if title.startswith("`") else f"section-{name}"


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The sections of which a key's value can be one."""
    if inspect.isclass(annotation) and issubclass(annotation, Section):
        return [annotation]
    return [found for part in typing.get_args(annotation) for found in _sections(part)]


def _type(annotation: Any) -> str:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return " or ".join(f'`"{part}"`' for part in parts)
    inner = [_type(part) for part in parts if inspect.isclass(part) or typing.get_args(part)]
    if origin is Annotated:
        text = inner[0]
    elif origin in (Union, UnionType):
        text = " or ".join(dict.fromkeys(t for t in inner if t != NoneType.__name__))
    elif origin is list:
        text = f"list of {inner[0]}"
    elif origin is dict:
        text = f"mapping of {inner[0]} to {inner[1]}"
    elif _sections(annotation):
        text = f"[{annotation.__name__}](#{_anchor(annotation.__name__)})"
    else:
        text = _NAMES.get(annotation, str(annotation.__name__))
    return text


def _bounds(field: FieldInfo) -> str:
    limits = [
        f"{sign} {value}"
        for bound in field.metadata
        for name, sign in _BOUNDS.items()
        if (value := getattr(bound, name, None)) is not None
    ]
    return f", {', '.join(limits)}" if limits else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined:
        return "none"
    if isinstance(value, BaseModel):
        return "its defaults"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if value not in ([], {}) else "empty"


def _described(name: str, field: FieldInfo) -> str:
    """The key's description; if it has none, that of its section."""
    text = field.description or _LAYOUT.get(name)
    sections = _sections(field.annotation)
    if text is None and len(sections) == 1:
        text = (inspect.getdoc(sections[0]) or "").splitlines()[0]
    return (text or "").replace("|", "\\|").rstrip(".")
