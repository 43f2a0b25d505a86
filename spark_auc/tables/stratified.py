"""Hashes that divide the rows of each class in the same share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from spark_auc.core.state.schema import Schema, array
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Bool, Float, Int, Keys
from spark_auc.tables.hashes import xxhash64

# Ranges of hashes. The rows of one range are not divided.
_RANGES = 1 << 16
# A value is common if a thousandth of the rows have it, and at least 10 rows, or a twentieth of
# fewer than 200; and rows have few possible values if a quarter of them have common ones.
_SHARE, _ROWS, _SHARE_OF_FEW = 1e-3, 10, 0.05
_LEAST = 0.25
# A common value of one label belongs to copies if at least so many rows of the rarer label would be
# expected among its rows.
_EXPECTED = 5


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
            cells = y * _RANGES + ranges_of(uniform)
            rows += np.bincount(cells, minlength=rows.size)
        return cls(rows.reshape(2, _RANGES))

    def merge(self, other: ClassHashes) -> ClassHashes:
        """The state of both sets of rows."""
        return ClassHashes(self.rows + other.rows)

    def common(self) -> Bool:
        """Ranges ``(r,)`` of values that many rows have by chance, and not as copies of a row.

        Copies of a row have its label. Where values are few, most occur with both labels.
        """
        both = self.rows.sum(axis=0)
        rows = both.sum()
        many = both >= max(_SHARE * rows, min(_ROWS, _SHARE_OF_FEW * rows))
        smaller = self.rows[self.rows.sum(axis=1).argmin()]
        mixed = many & self.rows.all(axis=0)
        if 2 * smaller[mixed].sum() <= smaller[many].sum() or both[many].sum() < _LEAST * rows:
            return np.zeros(_RANGES, np.bool_)
        return np.asarray(mixed | many & (both * smaller.sum() < _EXPECTED * rows))

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


def ranges_of(uniform: Float) -> Int:
    """The ranges ``(n,)`` of hashes in [0, 1)."""
    return (uniform * _RANGES).astype(np.int64)


@dataclass(eq=False)
class RowDraws:
    """Numbers in [0, 1) by which rows are divided: one for the rows of a value, or one for each.

    The rows of a part are drawn in order.

    Parameters
    ----------
    seed
        An integer of 32 bits.
    common : (r,), optional
        See `ClassHashes.common`. Default: none.
    part
        Number of the part.
    """

    seed: int
    common: Bool | None = None
    part: int = 0
    _rows: dict[int, int] = field(default_factory=dict)

    def of(self, arrays: Sequence[pa.Array], y: Bool) -> Float:
        """Numbers ``(n,)`` of the next rows, from their columns and whether they are positive."""
        hashes = xxhash64(arrays, salt=self.seed)
        found = unit(hashes)
        if self.common is not None:
            drawn = np.flatnonzero(self.common[ranges_of(found)])
            keys = hashes[drawn] >> np.uint64(1) << np.uint64(1) | y[drawn]
            # Equal values of two parts are drawn independently.
            numbers = self._numbers(keys) + (self.part << 32)
            found[drawn] = unit(xxhash64([pa.array(keys), pa.array(numbers)], salt=self.seed))
        return found

    def _numbers(self, keys: Keys) -> Int:
        """How many rows of its key are before each row ``(n,)`` of a part."""
        values, inverse, rows = np.unique(keys, return_inverse=True, return_counts=True)
        known = [self._rows.get(value, 0) for value in values.tolist()]
        self._rows.update(zip(values.tolist(), (known + rows).tolist(), strict=True))
        numbers = np.empty(keys.size, np.int64)
        numbers[np.argsort(inverse, kind="stable")] = np.arange(keys.size)
        return numbers + (known - (np.cumsum(rows) - rows))[inverse]


def unit(hashes: Keys) -> Float:
    """Hashes ``(n,)`` as numbers in [0, 1)."""
    return np.asarray((hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53)
