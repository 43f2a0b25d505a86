"""What every learner that takes rows one after another can do, and what they share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from scipy import sparse

from spark_auc.core.kernels import Entries, sparse_entries
from spark_auc.core.state.schema import Fields, Relation, Size, schema_of
from spark_auc.core.types import Bool, Float, Rows
from spark_auc.errors import ConfigError, DataError


class Learner(Protocol):
    """Takes rows in their order; its state is all that the next rows depend on."""

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""
        ...

    def learn(self, X: Rows, y: Bool, weight: Float | None = None) -> None:
        """Take rows ``(n, d)``, dense or CSR, of which ``y`` ``(n,)`` are positive."""
        ...

    def score(self, X: Rows) -> Float:
        """Scores ``(n,)`` of rows ``(n, d)``."""
        ...

    def to_bytes(self) -> bytes:
        """Versioned bytes of the whole state, settings included."""
        ...

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The learner that `to_bytes` stored; `ModelFormatError` if it is none."""
        ...


class LinearLearner(Learner, Protocol):
    """A learner whose scores are ``X w``."""

    @property
    def w(self) -> Float:
        """Weights ``(d,)``."""
        ...


@dataclass(eq=False)
class Stored:
    """A learner whose fields, numbers and arrays, are its whole state.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    """

    FIELDS: ClassVar[Fields] = {"dimension": Size("d", 1)}
    RELATIONS: ClassVar[tuple[Relation, ...]] = ()

    dimension: int

    def to_bytes(self) -> bytes:
        """Versioned bytes of all fields."""
        return schema_of(type(self)).encode({f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The learner that `to_bytes` stored; `ModelFormatError` if it is none."""
        return schema_of(cls).restore(data, cls._restored)

    @classmethod
    def _restored(cls, **values: Any) -> Self:
        made = cls(**{f.name: values.pop(f.name) for f in fields(cls) if f.init})
        for name, value in values.items():
            setattr(made, name, value.copy() if isinstance(value, np.ndarray) else value)
        return made


def entries(X: Rows, dimension: int) -> Entries:
    """Values, column numbers and row starts of dense or CSR rows ``(n, d)``, as kernels take them.

    Raises
    ------
    DataError
        The rows are of another dimension.
    """
    rows, columns = X.shape
    if columns != dimension:
        raise DataError(
            f"found rows of {columns} features, expected {dimension}; give the learner rows of "
            "one dimension"
        )
    if isinstance(X, np.ndarray):
        indices = np.tile(np.arange(columns, dtype=np.uint32), rows)
        starts = np.arange(0, X.size + 1, max(columns, 1), dtype=np.uint32)
        return np.ascontiguousarray(X, float).ravel(), indices, starts
    values, indices, starts = sparse_entries(sparse.csr_matrix(X))
    return values, indices, np.asarray(starts, np.uint32)


def unweighted(weight: Float | None, name: str) -> None:
    """Refuse row weights where the algorithm has no place for them."""
    if weight is not None:
        raise ConfigError(
            f"found row weights, expected none: {name} is not defined with them; leave weightCol "
            "out"
        )
