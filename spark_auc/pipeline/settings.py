"""Settings of the public stages: one declaration gives a Param, its check and its documentation.

A stage's settings are a ``TypedDict`` whose values are annotated with a `Setting`::

    class ToySettings(TypedDict, total=False):
        step: Annotated[float, Setting("Length of a step.", 0.1, Range(gt=0))]

`spark_auc.spark.params` makes Params of them, `spark_auc.app.config` keys of the configuration.
This module does not import pyspark: a configuration is checked before Spark is loaded.
"""

from __future__ import annotations

import inspect
import math
import numbers
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from operator import or_
from os import PathLike, fspath
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypedDict, Union, get_args, get_origin, get_type_hints

from spark_auc.errors import ConfigError

_BOUNDS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
_TYPE_ERROR = "TypeError\n    A Param is unknown or of another type.\n"
_SECTION = re.compile(r"^[A-Z][A-Za-z ]+\n-{3,}$", re.MULTILINE)
_WIDTH = 95


@dataclass(frozen=True)
class Range:
    """Bounds of a number, or of each number of a list."""

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None

    def bounds(self) -> dict[str, float]:
        """The bounds that are set, by name."""
        return {f.name: b for f in fields(self) if (b := getattr(self, f.name)) is not None}

    def holds(self, value: float) -> bool:
        """Whether a number is within the bounds."""
        return (
            (self.gt is None or value > self.gt)
            and (self.ge is None or value >= self.ge)
            and (self.lt is None or value < self.lt)
            and (self.le is None or value <= self.le)
        )

    def __str__(self) -> str:
        return " and ".join(f"{_BOUNDS[name]} {bound:g}" for name, bound in self.bounds().items())


@dataclass(frozen=True)
class Setting:
    """What a setting has besides its name and type.

    Parameters
    ----------
    doc
        Its description: the Param's, the class's and the configuration's.
    default
        Its default; None where it has none.
    range
        Bounds of its numbers.
    choices
        Strings that it takes, if they are not all. A type ``Literal`` declares them too, for
        type checkers; this is for choices that another module holds.
    """

    doc: str
    default: Any = None
    range: Range = Range()
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declared:
    """A setting with its name and type, without None."""

    name: str
    kind: Any
    setting: Setting

    def convert(self, value: Any) -> Any:
        """The value as the type has it.

        Raises
        ------
        TypeError
            It is of another type.
        ConfigError
            It is out of range, or not one of the choices.
        """
        message = (
            f"found {self.name} {value!r}, expected {self.expected()}; set {self.name} to such a "
            "value"
        )
        try:
            converted = _converted(self.kind, _without_paths(value))
        except _NoChoiceError:
            raise ConfigError(message) from None
        except TypeError:
            raise TypeError(message) from None
        items = converted if isinstance(converted, list) else [converted]
        if not items or not all(map(self._holds, items)):
            raise ConfigError(message)
        return converted

    def _holds(self, item: Any) -> bool:
        if isinstance(item, list):
            return bool(item) and all(map(self._holds, item))
        is_number = isinstance(item, int | float) and not isinstance(item, bool)
        return not is_number or (math.isfinite(item) and self.setting.range.holds(item))

    def expected(self) -> str:
        """The values that the setting takes, for a message."""
        return _expected(self.kind, str(self.setting.range))

    def documentation(self) -> str:
        """The setting's entry in a class's section Parameters."""
        default = self.setting.default
        ending = "optional" if default is None else f"default {default!r}"
        text = textwrap.fill(self.setting.doc, _WIDTH - 4)
        typed = _typed(self.kind, str(self.setting.range))
        return f"{self.name} : {typed}, {ending}\n{textwrap.indent(text, '    ')}\n"

    def parameter(self) -> inspect.Parameter:
        """The setting as an argument of a constructor."""
        default = self.setting.default
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=self.kind if default is not None else self.kind | None,
        )


class LabelSettings(TypedDict, total=False):
    """The label column."""

    labelCol: Annotated[
        str, Setting("Label: 0/1, -1/+1, or any two values with positiveLabel.", "label")
    ]
    positiveLabel: Annotated[
        int | float | str | bool | None,
        Setting("Label of the positive class; labels 0/1 and -1/+1 do not need it."),
    ]


class WeightSettings(TypedDict, total=False):
    """The weight column."""

    weightCol: Annotated[
        str | None,
        Setting("Row weights; rows of weight 0 do not train. By default 1 for each row."),
    ]


class DimensionSettings(TypedDict, total=False):
    """The number of features."""

    numFeatures: Annotated[
        int | None,
        Setting(
            "Number of features; (indices, values) columns need it, from others it is read.",
            None,
            Range(ge=1),
        ),
    ]


FEATURES = (
    "Features: a vector or array column, a list of two array columns (indices, values), or a list "
    "of numeric columns."
)


def declared(settings: type) -> dict[str, Declared]:
    """The settings of a ``TypedDict``, by name, those of its bases first."""
    settings_by_name = {}
    for name, hint in get_type_hints(settings, include_extras=True).items():
        kind, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        setting = next((item for item in metadata if isinstance(item, Setting)), None)
        if setting is None:
            raise TypeError(
                f"found {settings.__name__}.{name} without a Setting, expected "
                "Annotated[type, Setting(...)]; add one"
            )
        parts = [part for part in parts_of(kind) if part is not NoneType]
        if setting.choices:
            parts = [Literal[setting.choices]]
        settings_by_name[name] = Declared(name, reduce(or_, parts), setting)
    return settings_by_name


def documented(doc: str, settings: Iterable[Declared]) -> str:
    """A class's docstring with a section Parameters, and what every constructor raises."""
    doc = re.sub(
        r"(?<=^Raises\n------\n)(?!TypeError)", _TYPE_ERROR, inspect.cleandoc(doc), flags=re.M
    )
    section = _SECTION.search(doc)
    at = section.start() if section else len(doc)
    entries = "".join(setting.documentation() for setting in settings)
    return f"{doc[:at].rstrip()}\n\nParameters\n----------\n{entries}\n{doc[at:]}".rstrip() + "\n"


def parts_of(kind: Any) -> tuple[Any, ...]:
    """The alternatives of a type."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


class _NoChoiceError(Exception):
    """The value has the type of a choice, but is none."""


def _without_paths(value: Any) -> Any:
    """Paths of pathlib as text, also among the values of a mapping: Params are saved as JSON."""
    if isinstance(value, Mapping):
        return {name: _without_paths(item) for name, item in value.items()}
    return fspath(value) if isinstance(value, PathLike) else value


def _converted(kind: Any, value: Any) -> Any:
    parts = parts_of(kind)
    if len(parts) > 1:
        if type(value) in parts:
            return value
        wrong: Exception = TypeError()
        for part in parts:
            try:
                return _converted(part, value)
            except _NoChoiceError as no_choice:
                wrong = no_choice
            except TypeError:
                pass
        raise wrong
    if get_origin(kind) is Literal:
        if value in get_args(kind):
            return value
        raise _NoChoiceError if isinstance(value, str) else TypeError
    if get_origin(kind) is list:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise TypeError
        return [_converted(get_args(kind)[0], item) for item in value]
    if kind in _SCALARS:
        return _SCALARS[kind](value)
    if isinstance(value, get_origin(kind) or kind):
        return value
    raise TypeError


def _to_int(value: Any) -> int:
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise TypeError


def _to_float(value: Any) -> float:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(value)
    raise TypeError


def _to_str(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise TypeError


_SCALARS = {int: _to_int, float: _to_float, str: _to_str}
_NAMES = {bool: "True or False", int: "a whole number", float: "a finite number", str: "a string"}
_PLURALS = {int: "whole numbers", float: "finite numbers", str: "strings"}


def _expected(kind: Any, bounds: str) -> str:
    parts = parts_of(kind)
    if len(parts) > 1:
        return " or ".join(_expected(part, bounds) for part in parts)
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if get_origin(kind) is list:
        return f"a list of one or more {_plural(get_args(kind)[0])} {bounds}".rstrip()
    name = _NAMES.get(kind, f"a {kind.__name__}")
    return f"{name} {bounds}".rstrip() if kind in (int, float) else name


def _plural(kind: Any) -> str:
    return f"lists of {_plural(get_args(kind)[0])}" if get_origin(kind) is list else _PLURALS[kind]


def _typed(kind: Any, bounds: str) -> str:
    """The type as numpydoc writes it."""
    parts = parts_of(kind)
    if len(parts) > 1:
        return " or ".join(_typed(part, bounds) for part in parts)
    if get_origin(kind) is Literal:
        return f"{{{', '.join(map(repr, get_args(kind)))}}}"
    if get_origin(kind) is list:
        return f"list of {_typed(get_args(kind)[0], bounds)}"
    name: str = kind.__name__
    return f"{name} {bounds}".rstrip() if kind in (int, float) else name
