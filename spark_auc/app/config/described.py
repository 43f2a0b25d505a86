"""What a section of the configuration says of its keys: type, default and description.

The pages of the documentation, ``--help`` and the files of ``spark-auc init`` take it from here.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from spark_auc.app.config.sections import Section, sections_of

_LAYOUT = {"input": "rows to read, by their layout", "layout": "kind of input"}
_NAMES = {str: "text", int: "integer", float: "number", bool: "boolean", datetime: "date and time"}
_NAMES[Any] = "its Params"
_BOUNDS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
_INDENT = "    "


@dataclass(frozen=True)
class Key:
    """A key of a section.

    Parameters
    ----------
    name
        The key, as a file has it.
    field
        Its field in the section's class.
    """

    name: str
    field: FieldInfo

    @property
    def sections(self) -> list[type[Section]]:
        """The sections of which the value can be one, or has items."""
        return sections_of(self.field.annotation)

    @property
    def default(self) -> str:
        """The default as a file would have it; "required", "none", or that of a section."""
        if self.field.is_required():
            return "required"
        value = self.field.get_default(call_default_factory=True)
        if value is None or value is PydanticUndefined:
            return "none"
        if isinstance(value, BaseModel):
            return "its defaults"
        if isinstance(value, bool):
            return str(value).lower()
        return str(value) if value not in ([], {}) else "empty"

    @property
    def description(self) -> str:
        """The description; of a key without one, that of its section."""
        text, sections = self.field.description or _LAYOUT.get(self.name), self.sections
        if text is None and len(sections) == 1:
            text = (inspect.getdoc(sections[0]) or "").splitlines()[0]
        return (text or "").rstrip(".")

    def kind(
        self,
        code: Callable[[str], str] = str,
        section: Callable[[type[Section]], str] = lambda _: "section",
    ) -> str:
        """The type and bounds of the value.

        Parameters
        ----------
        code
            The form of a choice, such as ``"auto"``.
        section
            The form of a section.
        """
        limits = [
            f"{sign} {value}"
            for bound in self.field.metadata
            for name, sign in _BOUNDS.items()
            if (value := getattr(bound, name, None)) is not None
        ]
        return ", ".join([_type(self.field.annotation, code, section), *limits])


def keys_of(section: type[BaseModel]) -> list[Key]:
    """The keys of a section, in order."""
    return [Key(field.alias or name, field) for name, field in section.model_fields.items()]


def key_lines(name: str, section: type[Section], width: int) -> str:
    """A text of all keys of a section and of the sections in it, for ``--help``.

    Parameters
    ----------
    name
        The section's name, such as "train".
    section
        Its class.
    width
        Longest line, in characters.

    Returns
    -------
    str
        For each key its dotted name, type and default, and below them its description. The keys
        of a section that occurs again are listed once.
    """
    lines = []
    for entry, text in _entries(f"{name}.", section, {}):
        lines += textwrap.wrap(entry, width, subsequent_indent=_INDENT, break_on_hyphens=False)
        lines += textwrap.wrap(
            text,
            width,
            initial_indent=_INDENT,
            subsequent_indent=_INDENT,
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n"


def _entries(
    prefix: str, section: type[Section], seen: dict[type[Section], str]
) -> Iterator[tuple[str, str]]:
    """A headline and a description of each key; ``seen`` has the sections listed so far."""
    for key in keys_of(section):
        entry = f"{prefix}{key.name}: {key.kind()}"
        default = key.default
        # That of a section is that of its keys.
        if not key.sections or default == "required":
            entry += ", required" if default == "required" else f", default {default}"
        text = key.description
        known = {part: seen[part] for part in key.sections if part in seen}
        if known:
            text = f"{text}; keys as of {', '.join(known.values())}"
        yield entry, text
        for part in key.sections:
            if part in known:
                continue
            seen[part] = f"{prefix}{key.name}"
            if len(key.sections) > 1:
                yield f"{prefix}{key.name} of {part.__name__}:", inspect.getdoc(part) or ""
            yield from _entries(f"{prefix}{key.name}.", part, seen)


def _type(
    annotation: Any, code: Callable[[str], str], section: Callable[[type[Section]], str]
) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(code(f'"{part}"') for part in parts)
    inner = [
        _type(part, code, section) for part in parts if inspect.isclass(part) or get_args(part)
    ]
    if origin is Annotated:
        text = inner[0]
    elif origin in (Union, UnionType):
        text = " or ".join(dict.fromkeys(t for t in inner if t != NoneType.__name__))
    elif origin is list:
        text = f"list of {inner[0]}"
    elif origin is dict:
        text = f"mapping of {inner[0]} to {inner[1]}"
    elif found := sections_of(annotation):
        text = section(found[0])
    else:
        text = _NAMES.get(annotation, str(annotation.__name__))
    return text
