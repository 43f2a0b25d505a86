"""States and other values that are stored by their attributes, according to a schema."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Self, cast

import numpy as np

from spark_auc.core.state.schema import Fields, Relation, Schema, schema_of


class SchemaState:
    """Base of states whose attributes are the fields of their ``SCHEMA``."""

    SCHEMA: ClassVar[Schema]

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return self.SCHEMA.encode(vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The state that `to_bytes` stored; raises `ModelFormatError` for other bytes."""
        return cls.SCHEMA.restore(data, cls)


class FieldState:
    """Base of dataclasses that are stored as their fields; see `schema_of`."""

    FIELDS: ClassVar[Fields] = {}
    RELATIONS: ClassVar[tuple[Relation, ...]] = ()

    def to_bytes(self) -> bytes:
        """Versioned bytes of all fields."""
        names = (f.name for f in fields(cast(Any, self)))
        return schema_of(type(self)).encode({name: getattr(self, name) for name in names})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` stored, with arrays of its own; `ModelFormatError` for other bytes."""
        return schema_of(cls).restore(data, cls._restored)

    @classmethod
    def _restored(cls, **values: Any) -> Self:
        values = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in values.items()}
        given = [f.name for f in fields(cast(Any, cls)) if f.init]
        made = cls(**{name: values.pop(name) for name in given})
        for name, value in values.items():
            setattr(made, name, value)
        return made
