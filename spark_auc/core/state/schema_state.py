"""States that are stored by their attributes, according to a schema."""

from __future__ import annotations

from typing import ClassVar, Self

from spark_auc.core.state.schema import Schema


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
