"""The protocol of online learners, and the storage and checks they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from scipy import sparse

from spark_auc.core.kernels import Entries, sparse_entries
from spark_auc.core.state.schema import Fields, Size
from spark_auc.core.state.schema_state import FieldState
from spark_auc.core.types import Bool, Float, Rows
from spark_auc.errors import ConfigError, DataError


class Learner(Protocol):
    """Learns rows in sequence.

    The result depends on the stored state and the sequence of rows, and on nothing else.
    """

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""

    def learn(self, X: Rows, y: Bool, weight: Float | None = None) -> None:
        """Learn rows in sequence.

        Parameters
        ----------
        X : (n, d), dense or CSR
            Rows.
        y : (n,)
            True for positive rows.
        weight : (n,), optional
            Row weights > 0; 1 by default.

        Raises
        ------
        ConfigError
            The algorithm does not support row weights.
        DataError
            The rows have another dimension.
        """

    def score(self, X: Rows) -> Float:
        """Scores ``(n,)`` of rows ``(n, d)``."""

    def to_bytes(self) -> bytes:
        """Versioned bytes of the state and the settings."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The learner from the bytes of `to_bytes`; `ModelFormatError` if they are invalid."""


class LinearLearner(Learner, Protocol):
    """A learner whose scores are ``X w``."""

    @property
    def w(self) -> Float:
        """Weights ``(d,)``."""


@dataclass(eq=False)
class Stored(FieldState):
    """A learner whose state is its dataclass fields: numbers and arrays.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    """

    FIELDS: ClassVar[Fields] = {"dimension": Size("d", 1)}

    dimension: int


def entries(X: Rows, dimension: int) -> Entries:
    """Values, column numbers and row starts of dense or CSR rows ``(n, d)``, for kernels.

    Raises
    ------
    DataError
        The rows have another dimension.
    """
    rows, columns = X.shape
    if columns != dimension:
        raise DataError(
            f"found rows of {columns} features, expected {dimension}; use the features that the "
            "learner was made for"
        )
    if isinstance(X, np.ndarray):
        indices = np.tile(np.arange(columns, dtype=np.uint32), rows)
        starts = np.arange(0, X.size + 1, max(columns, 1), dtype=np.uint32)
        return np.ascontiguousarray(X, float).ravel(), indices, starts
    values, indices, starts = sparse_entries(sparse.csr_matrix(X))
    return values, indices, np.asarray(starts, np.uint32)


def unweighted(weight: Float | None, name: str) -> None:
    """`ConfigError` if there are row weights, which the algorithm ``name`` does not define."""
    if weight is not None:
        raise ConfigError(
            f"found row weights, expected none, because {name} does not define them; remove "
            "weightCol"
        )
