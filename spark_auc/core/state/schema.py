"""What the bytes of each kind of state must be like: names, types, shapes and what holds of them.

A state has a `Schema` beside it, a line for each of its fields. Sizes in shapes are numbers or
names; a name stands for one size wherever it occurs, and ``"d+1"`` for one more than it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from spark_auc.core.state.codec import Data, decode, encode
from spark_auc.core.state.rules import COUNTS, MOST_COLUMNS, Array, Rule
from spark_auc.errors import ModelFormatError, SparkAUCError

T = TypeVar("T")
Values: TypeAlias = Mapping[str, Any]
# What is wrong with values, where something is.
Relation: TypeAlias = Callable[[Any], str | None]


ANY = ("...",)


class Stored(Protocol):
    """What is restored from bytes."""

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        ...

    @classmethod
    def from_bytes(cls, data: bytes) -> Any:
        """What `to_bytes` stored."""
        ...


@dataclass(frozen=True)
class Field:
    """An array, or a number where it has no shape.

    Parameters
    ----------
    types
        Those it may have, as numpy writes them; the first for what is of no such type. ``"U"``
        for text of any length.
    shape
        Its sizes; `ANY` where they are what they are.
    rule
        What must hold of it.
    optional
        Whether it may be missing, which is None in the state.
    repeating
        See `spark_auc.core.state.codec.encode`.
    """

    types: tuple[str, ...]
    shape: tuple[int | str, ...] = ()
    rule: Rule | None = None
    optional: bool = False
    repeating: bool = False

    def stored(self, value: Any) -> Array:
        """The array for a value."""
        array = np.asarray(value)
        kept = "U" in self.types if array.dtype.kind == "U" else array.dtype.str in self.types
        return array if kept else array.astype(self.types[0])

    def restored(self, name: str, array: Array, sizes: dict[str, int]) -> Any:
        """The value for an array; `ValueError` if it can be none of this field."""
        dtype = "U" if array.dtype.kind == "U" else array.dtype.str
        fits = self.shape == ANY or (
            len(array.shape) == len(self.shape)
            and all(map(_fits, self.shape, array.shape, [sizes] * len(self.shape)))
        )
        if not fits or dtype not in self.types:
            known = ", ".join(f"{k} = {v}" for k, v in sizes.items())
            raise ValueError(
                f"{name} is {array.dtype.str}{list(array.shape)} where "
                f"{' or '.join(self.types)}[{', '.join(map(str, self.shape))}] belongs"
                + (f" with {known}" if known else "")
            )
        if self.rule and not self.rule.holds(array):
            raise ValueError(f"{name} is not {self.rule.words}")
        return array if self.shape else array.item()


def _fits(expected: int | str, found: int, sizes: dict[str, int]) -> bool:
    if isinstance(expected, int):
        return found == expected
    name, _, more = expected.partition("+")
    return found - int(more or 0) == sizes.setdefault(name, found - int(more or 0)) >= 0


@dataclass(frozen=True)
class Size:
    """A number that is a size in shapes.

    Parameters
    ----------
    name
        Its name there.
    least
        The least that it may be.
    """

    name: str
    least: int = 0
    optional: bool = False

    def stored(self, value: Any) -> Array:
        """The array for a value."""
        return np.asarray(value, np.int64)

    def restored(self, name: str, array: Array, sizes: dict[str, int]) -> int:
        """The value for an array; `ValueError` if it can be none of this field."""
        value: int = WHOLE.restored(name, array, sizes)
        if not self.least <= value <= MOST_COLUMNS or sizes.setdefault(self.name, value) != value:
            raise ValueError(f"{name} is {value}, which is no {self.name} of its arrays")
        return value


@dataclass(frozen=True)
class Part:
    """A state in the state; ``kind`` is None where its bytes are all that is asked for."""

    kind: type[Stored] | None
    optional: bool = False

    def restored(self, data: memoryview) -> Any:
        """The state of some bytes."""
        return bytes(data) if self.kind is None else self.kind.from_bytes(data)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Parts(Part):
    """States in the state, as many as there are, in their order."""


def array(dtype: str, *shape: int | str, rule: Rule | None = None, optional: bool = False) -> Field:
    """An array of one type."""
    return Field((dtype,), shape, rule, optional)


def reals(*shape: int | str, rule: Rule | None = None) -> Field:
    """Doubles; without a rule they may be infinite or NaN, as what overflowed is."""
    return array("<f8", *shape, rule=rule)


Fields: TypeAlias = Mapping[str, Field | Size | Part]


def schema_of(kind: Any) -> Schema:
    """The schema of a dataclass that is stored by its fields.

    Its ``FIELDS``, and those it inherits, say what its arrays are like, and which of its numbers
    are sizes or have rules; of other numbers and text it is known. Its ``RELATIONS`` are those of
    a `Schema`.
    """
    return _schema_of(kind)


@cache
def _schema_of(kind: Any) -> Schema:
    given: dict[str, Field | Size | Part] = {}
    for base in reversed(kind.__mro__):
        given |= vars(base).get("FIELDS", {})
    # Settings are checked by what takes them.
    known = {"int": WHOLE, "float": REAL, "bool": FLAG, "str": TEXT}
    stored: dict[str, Field | Size | Part] = {}
    for f in fields(kind):
        default = COUNT if f.type == "int" and not f.init else known.get(str(f.type))
        if not (found := given.get(f.name, default)):
            raise TypeError(f"found no line for {f.name} in {kind.__name__}.FIELDS; add one")
        stored[f.name] = found
    return Schema(kind.__name__, 1, stored, *kind.RELATIONS)


REAL = reals()
WHOLE = array("<i8")
COUNT = array("<i8", rule=COUNTS)
FLAG = array("|b1")
TEXT = array("U")


class Schema:
    """How a kind of state is written and read.

    Parameters
    ----------
    kind, version
        Of the state.
    fields
        Its fields by name.
    relations
        Each tells what is wrong with the values of all fields together, by name, if anything is.
    """

    def __init__(
        self,
        kind: str,
        version: int,
        fields: Fields,
        *relations: Relation,
    ) -> None:
        self.kind, self.version, self.fields, self.relations = kind, version, fields, relations

    def encode(self, values: Values) -> bytes:
        """Versioned bytes of a value for each field."""
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
            The bytes are not such a state, or nothing that `encode` could have stored.
        """
        return self.restore(data, dict)

    def restore(self, data: Data, make: Callable[..., T]) -> T:
        """What ``make`` makes of the values, given by name; errors as in `decode`."""
        arrays = decode(self.kind, self.version, data)
        sizes: dict[str, int] = {}
        try:
            values = {name: _taken(name, f, arrays, sizes) for name, f in self.fields.items()}
            if arrays:
                raise ValueError(f"nothing has a field {min(arrays)[:60]!a}")
            for relation in self.relations:
                if wrong := relation(values):
                    raise ValueError(wrong)
            return make(**values)
        except ModelFormatError:
            raise
        except (ValueError, SparkAUCError) as error:
            raise ModelFormatError(
                f"found a damaged {self.kind!r} state of {len(data)} bytes ({error}), expected "
                "one that to_bytes() returned; read it again from its source"
            ) from None


def _bytes(part: bytes | Stored) -> bytes:
    return part if isinstance(part, bytes) else part.to_bytes()


def _taken(
    name: str,
    field: Field | Size | Part,
    arrays: dict[str, Array | memoryview],
    sizes: dict[str, int],
) -> Any:
    """The value of a field, whose arrays are taken away."""
    if isinstance(field, Parts):
        mine = [key for key in arrays if key.startswith(f"{name}/")]
        if mine != [f"{name}/{k}" for k in range(len(mine))]:
            raise ValueError(f"{name} are not numbered")
        return tuple(_part(key, field, arrays.pop(key)) for key in mine)
    if name not in arrays:
        if not field.optional:
            raise ValueError(f"there is no {name}")
        return None
    found = arrays.pop(name)
    if isinstance(field, Part):
        return _part(name, field, found)
    if isinstance(found, memoryview):
        raise ValueError(f"{name} is a state")
    return field.restored(name, found, sizes)


def _part(name: str, field: Part, found: Array | memoryview) -> Any:
    if not isinstance(found, memoryview):
        raise ValueError(f"{name} is no state")
    return field.restored(found)
