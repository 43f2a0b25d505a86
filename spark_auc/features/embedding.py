"""What every map of features can do, and what the maps share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from spark_auc.core.state.schema import Fields, Relation, schema_of
from spark_auc.core.types import Rows
from spark_auc.core.validation import check_whole
from spark_auc.errors import DataError


class Embedding(Protocol):
    """A fixed map of each row by itself, so that rows may be mapped anywhere in any batches."""

    @property
    def input_dimension(self) -> int:
        """Number of features ``d`` of the rows it takes."""
        ...

    @property
    def dimension(self) -> int:
        """Number of features ``F`` of the rows it gives."""
        ...

    @property
    def takes_missing(self) -> bool:
        """Whether a feature may be missing (NaN) or infinite."""
        ...

    def names(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """Names of the ``F`` features, given those of the ``d``; None where they have none."""
        ...

    def transform(self, X: Rows) -> Rows:
        """Map rows ``(n, d)``, dense or CSR, to ``(n, F)``: always dense, or always CSR."""
        ...

    def to_bytes(self) -> bytes:
        """Versioned bytes of the whole map."""
        ...

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The map that `to_bytes` stored; `ModelFormatError` if it is none."""
        ...


class Mixing:
    """What holds of a map whose features are each of many columns."""

    @property
    def takes_missing(self) -> bool:
        """See `Embedding.takes_missing`."""
        return False

    def names(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """See `Embedding.names`."""
        return None


@dataclass(frozen=True, eq=False)
class Stored(Mixing):
    """A map whose fields, numbers and arrays, are all of it."""

    FIELDS: ClassVar[Fields] = {}
    RELATIONS: ClassVar[tuple[Relation, ...]] = ()

    def to_bytes(self) -> bytes:
        """Versioned bytes of all fields."""
        return schema_of(type(self)).encode({f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The map that `to_bytes` stored; `ModelFormatError` if it is none."""
        return schema_of(cls).restore(data, cls._restored)

    @classmethod
    def _restored(cls, **values: Any) -> Self:
        return cls(**{k: v.copy() if isinstance(v, np.ndarray) else v for k, v in values.items()})


def check_columns(X: Rows, expected: int) -> None:
    """Refuse rows of another number of features with `DataError`."""
    if X.shape[1] != expected:
        raise DataError(
            f"found rows of {X.shape[1]} features, expected {expected}; give the embedding rows "
            "of the features it was made for"
        )


def generator(seed: int) -> np.random.Generator:
    """Random numbers that are the same wherever they are drawn.

    Raises
    ------
    ConfigError
        The seed is not a whole number from 0 on.
    """
    check_whole("seed", seed, 0)
    return np.random.Generator(np.random.PCG64(int(seed)))
