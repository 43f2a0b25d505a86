"""Thresholds of hashes that divide the rows of each class in the same share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_auc.core.state.schema import Schema, array
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Bool, Float, Int

# Ranges of hashes. The rows of one range are not divided.
_RANGES = 1 << 16


@dataclass(frozen=True, eq=False)
class ClassHashes(SchemaState):
    """Rows of each class by ranges of their hashes.

    Parameters
    ----------
    rows : (2, r)
        Numbers of negative and of positive rows.
    """

    SCHEMA: ClassVar[Schema] = Schema("ClassHashes", 1, {"rows": array("<i8", 2, _RANGES)})
    BYTES: ClassVar[int] = 16 * _RANGES

    rows: Int

    @classmethod
    def of(cls, batches: Iterable[tuple[Bool, Float]]) -> ClassHashes:
        """The state of whether rows are positive, and their hashes in [0, 1)."""
        rows = np.zeros(2 * _RANGES, np.int64)
        for y, uniform in batches:
            cells = y * _RANGES + (uniform * _RANGES).astype(np.int64)
            rows += np.bincount(cells, minlength=rows.size)
        return cls(rows.reshape(2, _RANGES))

    def merge(self, other: ClassHashes) -> ClassHashes:
        """The state of both sets of rows."""
        return ClassHashes(self.rows + other.rows)

    def thresholds(self, share: float) -> Float:
        """Hashes ``(2,)`` below which about a share of the rows of each class is.

        Rows are on both sides, unless all rows of a class have one hash.
        """
        found = np.full(2, share)
        for k, below in enumerate(np.cumsum(self.rows, axis=1)):
            divides = np.flatnonzero((below > 0) & (below < below[-1]))
            if divides.size:
                nearest = np.abs(below[divides] - share * below[-1]).argmin()
                found[k] = (divides[nearest] + 1) / _RANGES
        return found
