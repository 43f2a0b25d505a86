"""Schemas of stored states: names, types, shapes, rules and relations of their fields.

The module of a state declares its `Schema`, with a line for each field. Sizes in shapes are numbers
or names; a name stands for the same size wherever it occurs, and ``"d+1"`` for that size plus 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from spark_auc.core.state.codec import Data, decode, encode, version_of
from spark_auc.core.state.rules import COUNTS, MOST_COLUMNS, Array, Rule
from spark_auc.errors import ModelFormatError, SparkAUCError

T = TypeVar("T")
Values: TypeAlias = Mapping[str, Any]
# A check of all values together: the fault that it finds, or None.
Relation: TypeAlias = Callable[[Any], str | None]
# The shape of an array of any shape.
ANY = ("...",)


class Stored(Protocol):
    """A class whose instances are stored as bytes."""

    def to_bytes(self) -> bytes:
        """Versioned bytes."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Any:
        """The instance that `to_bytes` stored."""


@dataclass(frozen=True)
class Field:
    """A field that is an array, or a scalar if its shape is empty.

    Parameters
    ----------
    types
        Allowed types, as numpy writes them; ``"U"`` is text of any length. A value of another type
        is converted to the first.
    shape
        Sizes, as numbers or names; `ANY` for any shape.
    rule
        Condition on the values.
    optional
        Whether the field may be None, which is stored as a missing array.
    repeating
        Whether the values often repeat; see `spark_auc.core.state.codec.encode`.
    """

    types: tuple[str, ...]
    shape: tuple[int | str, ...] = ()
    rule: Rule | None = None
    optional: bool = False
    repeating: bool = False

    def stored(self, value: Any) -> Array:
        """The array in which a value is stored."""
        array = np.asarray(value)
        allowed = "U" in self.types if array.dtype.kind == "U" else array.dtype.str in self.types
        return array if allowed else array.astype(self.types[0])

    def restored(self, name: str, array: Array, sizes: dict[str, int]) -> Any:
        """The value of a stored array; `ValueError` for another type or shape, or a broken rule."""
        dtype = "U" if array.dtype.kind == "U" else array.dtype.str
        fits = self.shape == ANY or (
            len(array.shape) == len(self.shape)
            and all(map(_fits, self.shape, array.shape, [sizes] * len(self.shape)))
        )
        if not fits or dtype not in self.types:
            named_sizes = ", ".join(f"{k} = {v}" for k, v in sizes.items())
            raise ValueError(
                f"{name} is {array.dtype.str}{list(array.shape)} instead of "
                f"{' or '.join(self.types)}[{', '.join(map(str, self.shape))}]"
                + (f" with {named_sizes}" if named_sizes else "")
            )
        if self.rule and not self.rule.holds(array):
            raise ValueError(f"{name} is not {self.rule.words}")
        return array if self.shape else array.item()


def _fits(expected: int | str, size: int, sizes: dict[str, int]) -> bool:
    if isinstance(expected, int):
        return size == expected
    name, _, addend = expected.partition("+")
    return size - int(addend or 0) == sizes.setdefault(name, size - int(addend or 0)) >= 0


@dataclass(frozen=True)
class Size:
    """A field that is a size in the shapes of other fields.

    Parameters
    ----------
    name
        Name of the size in shapes.
    least
        Smallest allowed value.
    optional
        Whether the field may be None.
    """

    name: str
    least: int = 0
    optional: bool = False

    def stored(self, value: Any) -> Array:
        """The array in which a value is stored."""
        return np.asarray(value, np.int64)

    def restored(self, name: str, array: Array, sizes: dict[str, int]) -> int:
        """The value of a stored array; `ValueError` if it contradicts the shapes."""
        value: int = WHOLE.restored(name, array, sizes)
        if not self.least <= value <= MOST_COLUMNS or sizes.setdefault(self.name, value) != value:
            raise ValueError(f"{name} is {value}, which is no {self.name} of its arrays")
        return value


@dataclass(frozen=True)
class Part:
    """A field that is a nested state.

    Parameters
    ----------
    kind
        Class of the nested state; None to restore its bytes only.
    optional
        Whether the field may be None.
    """

    kind: type[Stored] | None
    optional: bool = False

    def restored(self, data: memoryview) -> Any:
        """The nested state of its stored bytes."""
        return bytes(data) if self.kind is None else self.kind.from_bytes(data)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Parts(Part):
    """A field that is a tuple of any number of nested states."""


def array(dtype: str, *shape: int | str, rule: Rule | None = None, optional: bool = False) -> Field:
    """A field of one type."""
    return Field((dtype,), shape, rule, optional)


def reals(*shape: int | str, rule: Rule | None = None) -> Field:
    """A field of doubles; without a rule they may be infinite or NaN, as after an overflow."""
    return array("<f8", *shape, rule=rule)


Fields: TypeAlias = Mapping[str, Field | Size | Part]


def schema_of(kind: Any) -> Schema:
    """The schema of a dataclass whose fields are stored; `TypeError` for an undeclared field.

    The class attribute ``FIELDS``, together with inherited ones, declares arrays, sizes and numbers
    with rules. Other numbers and text are inferred from their annotations. ``RELATIONS`` are the
    relations of the `Schema`.
    """
    declared: dict[str, Field | Size | Part] = {}
    for base in reversed(kind.__mro__):
        declared |= vars(base).get("FIELDS", {})
    # The class checks the ranges of its settings itself.
    inferred = {"int": WHOLE, "float": REAL, "bool": FLAG, "str": TEXT}
    stored: dict[str, Field | Size | Part] = {}
    for f in fields(kind):
        default = COUNT if f.type == "int" and not f.init else inferred.get(str(f.type))
        if not (field := declared.get(f.name, default)):
            raise TypeError(f"found no {f.name} in {kind.__name__}.FIELDS, expected all; add it")
        stored[f.name] = field
    return Schema(kind.__name__, 1, stored, *kind.RELATIONS)


REAL = reals()
WHOLE = array("<i8")
COUNT = array("<i8", rule=COUNTS)
FLAG = array("|b1")
TEXT = array("U")


class Schema:
    """Writes, reads and validates the states of a kind.

    Parameters
    ----------
    kind, version
        Kind and version of the state.
    fields
        Fields by name.
    relations
        Checks of the values of all fields together, by name; each returns the fault, or None.
    earlier
        For each earlier version that is still read, with the same fields: the function from its
        values to those of this version.
    """

    def __init__(
        self,
        kind: str,
        version: int,
        fields: Fields,
        *relations: Relation,
        earlier: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] | None = None,
    ) -> None:
        self.kind, self.version, self.fields, self.relations = kind, version, fields, relations
        self.earlier = earlier or {}

    def encode(self, values: Values) -> bytes:
        """Versioned bytes of the values of all fields, by name."""
        if values.keys() != self.fields.keys():
            raise TypeError(
                f"found fields {sorted(values)} of {self.kind}, expected {sorted(self.fields)}; "
                "give its schema a line for each field"
            )
        arrays: dict[str, Array | bytes] = {}
        for name, field in self.fields.items():
            value = values[name]
            if value is None and field.optional:
                continue
            if isinstance(field, Parts):
                arrays |= {f"{name}/{k}": _bytes(part) for k, part in enumerate(value)}
            else:
                arrays[name] = _bytes(value) if isinstance(field, Part) else field.stored(value)
        repeating = [n for n, f in self.fields.items() if isinstance(f, Field) and f.repeating]
        return encode(self.kind, self.version, arrays, repeating)

    def decode(self, data: Data) -> dict[str, Any]:
        """The values that `encode` stored.

        Raises
        ------
        ModelFormatError
            The bytes are no state of this kind and version, or break its schema.
        """
        return self.restore(data, dict)

    def restore(self, data: Data, make: Callable[..., T]) -> T:
        """The result of ``make`` with the values as keyword arguments; errors as in `decode`."""
        upgrade = self.earlier.get(version_of(data)) if self.earlier else None
        arrays = decode(self.kind, version_of(data) if upgrade else self.version, data)
        sizes: dict[str, int] = {}
        try:
            values = {name: _taken(name, f, arrays, sizes) for name, f in self.fields.items()}
            if arrays:
                raise ValueError(f"it has an unknown field {min(arrays)[:60]!a}")
            for relation in self.relations:
                if fault := relation(values):
                    raise ValueError(fault)
            return make(**(upgrade(values) if upgrade else values))
        except ModelFormatError:
            raise
        except (ValueError, SparkAUCError) as error:
            raise ModelFormatError(
                f"found a damaged {self.kind!r} state of {len(data)} bytes ({error}), expected "
                "the bytes that to_bytes() returned; read it again from its source"
            ) from None


def _bytes(part: bytes | Stored) -> bytes:
    return part if isinstance(part, bytes) else part.to_bytes()


def _taken(
    name: str,
    field: Field | Size | Part,
    arrays: dict[str, Array | memoryview],
    sizes: dict[str, int],
) -> Any:
    """The value of a field; its arrays are removed from ``arrays``."""
    if isinstance(field, Parts):
        keys = [key for key in arrays if key.startswith(f"{name}/")]
        if keys != [f"{name}/{k}" for k in range(len(keys))]:
            raise ValueError(f"{name} are not numbered from 0")
        return tuple(_part(key, field, arrays.pop(key)) for key in keys)
    if name not in arrays:
        if not field.optional:
            raise ValueError(f"its field {name} is missing")
        return None
    stored = arrays.pop(name)
    if isinstance(field, Part):
        return _part(name, field, stored)
    if isinstance(stored, memoryview):
        raise ValueError(f"{name} is a state")
    return field.restored(name, stored, sizes)


def _part(name: str, field: Part, stored: Array | memoryview) -> Any:
    if not isinstance(stored, memoryview):
        raise ValueError(f"{name} is no state")
    return field.restored(stored)
