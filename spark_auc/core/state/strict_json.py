"""JSON as the standard has it: no NaN, and no field twice."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def strict_json(text: str | bytes) -> Any:
    """The value of a JSON text; `ValueError` or `RecursionError` for any other text."""
    return json.loads(text, parse_constant=_refused, object_pairs_hook=_distinct)


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a field is repeated")
    return values
