"""Recipes as JSON: one object, of a version, with exactly the fields of the recipe."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields, replace
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.state.strict_json import strict_json
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.features.calendar_days import CalendarDay
from spark_auc.features.crosses import Crosses
from spark_auc.features.derived import Derived
from spark_auc.features.differences import Difference
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.kinds.registry import HASHED_KINDS, NUMERIC_KINDS, SPLIT_KINDS
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.readings import Reading
from spark_auc.features.recipe import Recipe
from spark_auc.features.time_zones import DEFAULT
from spark_auc.trees.forest_json import as_dict, of_dict

T = TypeVar("T")
_FORMAT, _VERSION = "spark_auc recipe", 1
_DERIVED: dict[str, type[Derived]] = {kind.KIND: kind for kind in (Difference, CalendarDay)}


def to_json(recipe: Recipe) -> str:
    """The recipe as a JSON object."""
    stored = {"format": _FORMAT, "version": _VERSION} | asdict(recipe)
    for block in ("numeric", "hashed", "derived"):
        columns = getattr(recipe, block)
        stored[block] = [{"as": column.kind} | _given(column) for column in columns]
    # Recipes without trees, pairs, a zone, words for missing text, readings, derived columns or a
    # head are stored as by versions that knew none.
    del stored["trees"], stored["pairs"]
    for name in ("chosen_by", "head"):
        if stored[name] is None:
            del stored[name]
    for name in ("absent", "readings", "derived"):
        if not stored[name]:
            del stored[name]
    if recipe.zone == DEFAULT:
        del stored["zone"]
    if recipe.trees:
        stored["trees"] = asdict(recipe.trees) | {
            "columns": [{"as": c.kind} | asdict(c) for c in recipe.trees.columns],
            "forest": as_dict(recipe.trees.forest),
        }
    if recipe.pairs:
        both = [[asdict(column) for column in pair.columns] for pair in recipe.pairs]
        stored["pairs"] = [[{"as": "spline"} | column for column in pair] for pair in both]
    return json.dumps(stored, allow_nan=False, ensure_ascii=False)


def map_json(recipe: Recipe) -> str:
    """The map of rows as a JSON object: the recipe without the head of a ranker."""
    return to_json(replace(recipe, head=None))


def _given(column: Any) -> dict[str, Any]:
    """The fields of a column without those that are None, which earlier versions did not know."""
    return {name: value for name, value in asdict(column).items() if value is not None}


def from_json(text: str | bytes) -> Recipe:
    """The recipe that `to_json` stored.

    Raises
    ------
    ModelFormatError
        The text is not JSON, has another format or version, lacks a field, or has an unknown
        field, a value of another type or an impossible value.
    """
    try:
        stored = strict_json(text)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(
            f"found a recipe that is not JSON ({error}), expected the text that to_json returned; "
            "read it again from its source"
        ) from None
    if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
        raise _invalid("", f"{str(stored)[:60]!r}", f"an object with format {_FORMAT!r}")
    if stored.get("version") != _VERSION or isinstance(stored.get("version"), bool):
        raise _invalid(" version", repr(stored.get("version"))[:60], str(_VERSION))
    optional = {name: read for name, read in _OPTIONAL.items() if name in stored}
    readers = {"format": _text, "version": _whole} | _RECIPE | optional
    try:
        known = _taken(stored, "the recipe", readers)
        del known["format"], known["version"]
        return Recipe(**{"absent": ()} | known)
    except ConfigError as error:
        raise ModelFormatError(f"found a damaged recipe: {error}") from None


Reader = Callable[[Any, str], Any]


def _invalid(where: str, found: str, expected: str) -> ModelFormatError:
    return ModelFormatError(
        f"found {found} as{where or ' a recipe'}, expected {expected}; read the recipe that this "
        "version stored, or fit it again"
    )


def _taken(stored: Any, where: str, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The values of an object with exactly the fields of ``readers``."""
    if not isinstance(stored, dict) or stored.keys() != readers.keys():
        found = sorted(stored)[:60] if isinstance(stored, dict) else repr(stored)[:60]
        raise _invalid(f" fields of {where}", str(found), str(sorted(readers)))
    return {
        name: read(stored[name], f" {name} of {where}")
        for name, read in readers.items()
        if name != "as"
    }


def _of(kind: type[T], words: str) -> Callable[[Any, str], T]:
    def read(value: Any, where: str) -> T:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _invalid(where, repr(value)[:60], words)
        return value

    return read


_text, _whole, _flag, _list = (
    _of(str, "text"),
    _of(int, "a whole number"),
    _of(bool, "true or false"),
    _of(list, "a list"),
)


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid(where, repr(value)[:60], "a number")
    try:
        return float(value)
    except OverflowError:
        raise _invalid(where, repr(value)[:60], "a number below 1.8e308") from None


def _numbers(value: Any, where: str) -> tuple[float, ...]:
    return tuple(_number(item, where) for item in _list(value, where))


def _wholes(value: Any, where: str) -> tuple[int, ...]:
    return tuple(_whole(item, where) for item in _list(value, where))


def _texts(value: Any, where: str) -> tuple[str, ...]:
    return tuple(_text(item, where) for item in _list(value, where))


def _pairs(value: Any, where: str) -> tuple[tuple[str, ...], ...] | None:
    if value is None:
        return None
    pairs = tuple(tuple(_text(n, where) for n in _list(p, where)) for p in _list(value, where))
    if any(len(pair) != 2 for pair in pairs):
        raise _invalid(where, repr(value)[:60], "pairs of columns")
    return pairs


def _crosses(value: Any, where: str) -> Crosses | None:
    readers = {"pairs": _pairs, "bits": _whole}
    return None if value is None else Crosses(**_taken(value, where, readers))


# Readers of fields by their types.
_FIELDS: dict[Any, Reader] = {
    str: _text,
    bool: _flag,
    float: _number,
    tuple[str, ...]: _texts,
    tuple[float, ...]: _numbers,
}


def _of_type(hint: Any) -> Reader:
    """The reader of a field; None stands for a field that is absent."""
    types = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return _FIELDS[types[0]]


def _columns(kinds: Mapping[str, type[Any]]) -> Reader:
    def read(value: Any, where: str) -> tuple[Any, ...]:
        return tuple(column(item, where) for item in _list(value, where))

    def column(value: Any, where: str) -> Any:
        name = value.get("as") if isinstance(value, dict) else None
        if not isinstance(name, str) or name not in kinds:
            raise _invalid(f" the kind of a column in{where}", repr(name)[:60], str(sorted(kinds)))
        kind = kinds[name]
        hints = get_type_hints(kind)
        readers = {
            field.name: _of_type(hints[field.name])
            for field in fields(kind)
            if field.default is MISSING or field.name in value
        }
        return kind(**_taken(value, f"a column in{where}", {"as": _text} | readers))

    return read


def _readings(value: Any, where: str) -> tuple[Reading, ...]:
    readers: dict[str, Reader] = {"name": _text, "format": _text, "absent": _texts}
    return tuple(Reading(**_taken(item, where.strip(), readers)) for item in _list(value, where))


def _sample(value: Any, where: str) -> KeySample | None:
    readers = {"share": _number, "seed": _whole}
    return None if value is None else KeySample(**_taken(value, where.strip(), readers))


def _trees(value: Any, where: str) -> TreeLeaves:
    readers: dict[str, Reader] = {
        "columns": _columns(SPLIT_KINDS),
        "forest": lambda stored, _: of_dict(stored),
        "grown": _sample,
    }
    return TreeLeaves(**_taken(value, where.strip(), readers))


_splines = _columns({"spline": Spline})


def _hat_pairs(value: Any, where: str) -> tuple[Pair, ...]:
    pairs = [_splines(item, where) for item in _list(value, where)]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise _invalid(where, repr(value)[:60], "pairs of columns")
    return tuple(Pair(*pair) for pair in pairs)


_OPTIONAL: dict[str, Reader] = {
    "trees": _trees,
    "pairs": _hat_pairs,
    "chosen_by": _sample,
    "zone": _text,
    "absent": _texts,
    "readings": _readings,
    "derived": _columns(_DERIVED),
    "head": _wholes,
}


_RECIPE: dict[str, Reader] = {
    "numeric": _columns(NUMERIC_KINDS),
    "hashed": _columns(HASHED_KINDS),
    "dimension": _whole,
    "crosses": _crosses,
    "missing": _text,
    "unit": _flag,
}
