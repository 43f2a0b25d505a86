"""The protocol of feature maps, and the storage and checks they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np

from spark_auc.core.state.schema_state import FieldState
from spark_auc.core.types import Rows
from spark_auc.core.validation import check_whole
from spark_auc.errors import DataError


class Embedding(Protocol):
    """A fixed feature map of rows, independent of other rows and of the batches."""

    @property
    def input_dimension(self) -> int:
        """Number of input features ``d``."""

    @property
    def dimension(self) -> int:
        """Number of output features ``F``."""

    @property
    def takes_missing(self) -> bool:
        """Whether input values may be missing (NaN) or infinite."""

    def names(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """Names of the ``F`` output features.

        Parameters
        ----------
        columns
            Names of the ``d`` input features.

        Returns
        -------
        tuple of str, optional
            None if each output feature depends on many columns.
        """

    def transform(self, X: Rows) -> Rows:
        """Map rows ``(n, d)``, dense or CSR, to ``(n, F)``.

        The form of the result, dense or CSR, depends on the class of the map only.

        Raises
        ------
        DataError
            The rows have another dimension.
        """

    def to_bytes(self) -> bytes:
        """Versioned bytes of the map."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The map from the bytes of `to_bytes`; `ModelFormatError` if they are invalid."""


class Mixing:
    """Base of maps whose output features depend on many columns: no names, no missing values."""

    @property
    def takes_missing(self) -> bool:
        """See `Embedding.takes_missing`."""
        return False

    def names(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """See `Embedding.names`."""
        return None


class Stored(FieldState, Mixing):
    """A map that is stored as its dataclass fields: numbers and arrays."""


def check_columns(X: Rows, expected: int) -> None:
    """`DataError` if the rows have another number of features than expected."""
    if X.shape[1] != expected:
        raise DataError(
            f"found rows of {X.shape[1]} features, expected {expected}; use the features that "
            "the embedding was made for"
        )


def generator(seed: int) -> np.random.Generator:
    """A random generator whose numbers do not depend on the platform.

    Raises
    ------
    ConfigError
        The seed is not a whole number of at least 0.
    """
    check_whole("seed", seed, 0)
    return np.random.Generator(np.random.PCG64(int(seed)))
