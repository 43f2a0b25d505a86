"""Pages that MkDocs makes from the code: the public names, and every key of the configuration."""

from __future__ import annotations

import inspect
import typing
from functools import cached_property
from typing import Any

from pydantic import BaseModel

import spark_auc
from spark_auc.app.config.described import Key, keys_of
from spark_auc.app.config.jobs import Configuration
from spark_auc.app.config.sections import sections_of
from spark_auc.app.config.training import params_section, public_names

_PAGES = {
    "reference/api.md": lambda text: text + _public_names(),
    "reference/configuration.md": lambda text: text + _configuration(),
}
# Defaults that are words about a value.
_WORDS = {"required", "none", "its defaults", "empty"}


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
    whole = [key for key in keys_of(Configuration) if not key.sections]
    text += _section("The file", "Its keys beside the sections.", whole, shared)
    for name, field in Configuration.model_fields.items():
        for section in sections_of(field.annotation):
            text += _table(f"`{name}`", section, shared)
    for section in shared:
        text += _table(section.__name__, section, shared)
    for name in public_names("learner"):
        text += _table(f"Training of {name}", params_section("learner", name), shared)
    for name in public_names("embedding"):
        text += _table(f"Embedding {name}", params_section("embedding", name), shared)
    return text


def _table(title: str, section: type[BaseModel], shared: list[type[BaseModel]]) -> str:
    return _section(title, inspect.getdoc(section) or "", keys_of(section), shared)


def _section(title: str, doc: str, keys: list[Key], shared: list[type[BaseModel]]) -> str:
    rows = ""
    for key in keys:
        shared += [part for part in key.sections if part not in shared]
        kind = key.kind(lambda choice: f"`{choice}`", _link)
        kind = kind.replace(">=", "≥").replace("<=", "≤")
        default = key.default if key.default in _WORDS else f"`{key.default}`"
        described = key.description.replace("|", "\\|")
        rows += f"| `{key.name}` | {kind} | {default} | {described} |\n".replace("\n|", "|")
    return (
        f"\n\n## {title} {{#{_anchor(title)}}}\n\n{doc}\n\n"
        f"| key | type | default | description |\n|---|---|---|---|\n{rows}"
    )


def _anchor(title: str) -> str:
    name = title.strip("`")
    name = name.lower().replace(" ", "-")
    return f"job-{name}" if title.startswith("`") else f"section-{name}"


def _link(section: type[BaseModel]) -> str:
    return f"[{section.__name__}](#{_anchor(section.__name__)})"
