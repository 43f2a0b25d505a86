"""Forests as JSON: one object, of a version, with exactly the fields of the forest."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from spark_auc.core.state.strict_json import strict_json
from spark_auc.errors import ModelFormatError
from spark_auc.trees.forest import Forest

_FORMAT, _VERSION = "spark_auc trees", 1
# JSON has no infinite numbers.
_INFINITE = {np.inf: "inf", -np.inf: "-inf"}


def to_json(forest: Forest) -> str:
    """The forest as a JSON object."""
    return json.dumps(as_dict(forest), allow_nan=False)


def as_dict(forest: Forest) -> dict[str, Any]:
    """The forest as JSON types."""
    stored: dict[str, Any] = {"format": _FORMAT, "version": _VERSION}
    for name, value in asdict(forest).items():
        stored[name] = value.tolist() if isinstance(value, np.ndarray) else value
    stored["threshold"] = [_INFINITE.get(value, value) for value in stored["threshold"]]
    return stored


def from_json(text: str | bytes) -> Forest:
    """The forest that `to_json` stored.

    Raises
    ------
    ModelFormatError
        The text is not JSON, has another format or version, lacks a field, or has an unknown
        field, a value of another type, or nodes that are no trees.
    """
    try:
        stored = strict_json(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"text that is not JSON ({error})", "the text that to_json returned") from (
            None
        )
    return of_dict(stored)


def of_dict(stored: Any) -> Forest:
    """The forest that `as_dict` made JSON types; errors are those of `from_json`."""
    if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
        raise _invalid(f"{str(stored)[:60]!r}", f"an object with format {_FORMAT!r}")
    if type(version := stored.get("version")) is not int or version != _VERSION:
        raise _invalid(f"version {version!r}"[:60], str(_VERSION))
    if stored.keys() != {"format", "version", *_READERS}:
        raise _invalid(f"fields {sorted(stored)}"[:200], str(sorted(_READERS)))
    return Forest(**{name: read(stored[name], name) for name, read in _READERS.items()})


def _invalid(found: str, expected: str) -> ModelFormatError:
    return ModelFormatError(
        f"found {found} as trees, expected {expected}; read the trees that this version stored, "
        "or read the model of their library again"
    )


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise _invalid(f"{name} {value!r}"[:60], "text")
    return value


def _whole(value: Any, name: str) -> int:
    if type(value) is not int:
        raise _invalid(f"{name} {value!r}"[:60], "a whole number")
    return value


def _number(value: Any, name: str) -> float:
    try:
        if type(value) in (int, float) or value in ("inf", "-inf"):
            return float(value)
    except OverflowError:
        pass
    raise _invalid(f"{name} {value!r}"[:60], "a number")


def _array(dtype: type, read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def array(value: Any, name: str) -> Any:
        if not isinstance(value, list):
            raise _invalid(f"{name} {value!r}"[:60], "a list")
        try:
            return np.array([read(item, name) for item in value], dtype)
        except OverflowError:
            raise _invalid(f"a number in {name}", f"numbers of type {dtype.__name__}") from None

    return array


_TYPES = {
    "threshold": np.float64,
    "values": np.float64,
    "rule": np.uint8,
    "words": np.uint32,
}
_SCALARS: dict[str, Callable[[Any, str], Any]] = {
    "columns": _whole,
    "categories": _text,
    "offset": _number,
}
_READERS: dict[str, Callable[[Any, str], Any]] = {
    f.name: _SCALARS[f.name]
    if f.name in _SCALARS
    else _array(
        _TYPES.get(f.name, np.int32),
        _number if _TYPES.get(f.name) is np.float64 else _whole,
    )
    for f in fields(Forest)
}
