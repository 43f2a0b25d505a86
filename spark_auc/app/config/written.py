"""A configuration as YAML text with comments, which are the descriptions of its keys."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Collection, Mapping
from typing import Any

import yaml

from spark_auc.app.config.described import keys_of
from spark_auc.app.config.load import EXPONENT
from spark_auc.app.config.sections import Section

_WIDTH = 98
# Items of a list on one line.
_SHORT = 4


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes text which `spark_auc.app.config.load` would read as a number."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+.0123456789"))


def written(
    section: type[Section],
    content: Mapping[str, Any],
    shown: Collection[str] = (),
    notes: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """The YAML text of a section; a key that occurs again is described once.

    Parameters
    ----------
    section
        Its class.
    content
        Its keys, as a file has them. `spark_auc.app.config.load.load` reads the text as the same.
    shown
        Dotted names of keys that the text also has if they are not set, behind a ``#``.
    notes
        Comments of the items of lists, by key and item.

    Raises
    ------
    KeyError
        The section has no key of ``content`` or ``shown``.
    """
    return "\n".join(_lines(section, content, shown, notes or {}, set())) + "\n"


def _lines(
    section: type[Section],
    content: Mapping[str, Any],
    shown: Collection[str],
    notes: Mapping[str, Mapping[str, str]],
    described: set[tuple[type[Section], str]],
) -> list[str]:
    keys = keys_of(section)
    wanted = {*content, *(name.partition(".")[0] for name in shown)}
    if unknown := wanted - {key.name for key in keys}:
        raise KeyError(*unknown)
    lines = []
    for key in keys:
        inside = [name.partition(".")[2] for name in shown if name.startswith(f"{key.name}.")]
        value = content.get(key.name, {})
        if key.name not in wanted:
            continue
        if (section, key.name) not in described:
            described.add((section, key.name))
            comment = key.description.partition(". ")[0]
            lines += textwrap.wrap(comment, _WIDTH, initial_indent="# ", subsequent_indent="# ")
        before = "" if key.name in content else "#"
        if len(key.sections) == 1 and isinstance(value, Mapping) and (value or inside):
            lines.append(f"{before}{key.name}:")
            inner = _lines(key.sections[0], value, inside, notes, described)
            lines += [f"{before}  {line}" for line in inner]
        elif before:
            default = "" if key.default in ("none", "empty", "required") else f" {key.default}"
            lines.append(f"#{key.name}:{default}")
        elif isinstance(value, list) and len(value) > _SHORT:
            lines.append(f"{key.name}:")
            known = notes.get(key.name, {})
            lines += [f"  - {_flow(item)}{_note(known, item)}" for item in value]
        else:
            lines.append(f"{key.name}: {_flow(value)}")
    return lines


def _note(notes: Mapping[str, str], item: Any) -> str:
    text = notes.get(item, "") if isinstance(item, str) else ""
    return f"  # {' '.join(text.split())}" if text else ""


def _flow(value: Any) -> str:
    """A value on one line."""
    text = yaml.dump(
        value,
        Dumper=_Dumper,
        default_flow_style=True,
        allow_unicode=True,
        sort_keys=False,
        width=sys.maxsize,
    )
    return str(text).removesuffix("...\n").strip()
