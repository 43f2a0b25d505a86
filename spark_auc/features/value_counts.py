"""The distribution of a numeric column: exact for few distinct values, else a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import mixed
from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import COUNTS, INCREASING
from spark_auc.core.state.schema import Schema, array, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Bool, Float, Int, Keys

# Distinct values that a state keeps. A share of the rows below a value then has a standard error of
# about 0.4%.
LIMIT = 2**14
# Each value is tallied in one bucket of each group. A value that holds more than 1/_FREQUENT of the
# rows can be read from its buckets, unless another frequent value is in all of them.
_GROUPS, _BUCKETS, _FREQUENT = 3, 256, 128
_BITS = 64
_POWERS = np.uint64(1) << np.arange(_BITS, dtype=np.uint64)
# Most bytes of a state: values, counts and tallies.
MOST_BYTES = 16 * LIMIT + 8 * _GROUPS * _BUCKETS * (1 + _BITS)


def _inconsistent(state: Mapping[str, Any]) -> str | None:
    tallies, kept = state["tallies"], int(state["counts"].sum())
    if state["values"].size > LIMIT or (state["counts"] < 1).any():
        return "its values are too many, or have no rows"
    if tallies is None:
        return None
    totals = tallies[:, :, 0].sum(axis=1)
    if (tallies > tallies[:, :, :1]).any() or (totals != totals[0]).any() or totals[0] < kept:
        return "its tallies contradict each other or the counts"
    return None


@dataclass(frozen=True, eq=False)
class ValueCounts(SchemaState):
    """Finite values of a column and the number of rows of each.

    All distinct values are kept while there are at most `LIMIT`. Of more values, those with the
    least hashes are kept, a sample of the distinct values, with exact counts. A frequent value may
    be absent from this sample, so that all rows are also tallied by hash and by bit of the value
    (combinatorial group testing [1]_), from which frequent values are read. All parts of the state
    depend on the rows only, in any order and any partition.

    Parameters
    ----------
    values : (v,)
        Distinct values, ascending.
    counts : (v,)
        Number of rows of each.
    tallies : (3, 256, 65), optional
        For each bucket of each group: the number of rows, and the number of rows whose value has
        bit ``k`` (of its 64) set. None while all distinct values are kept.

    References
    ----------
    .. [1] G. Cormode and S. Muthukrishnan. What's hot and what's not: tracking most frequent items
       dynamically. ACM TODS 30(1), 2005.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "ValueCounts",
        1,
        {
            "values": reals("v", rule=INCREASING),
            "counts": array("<i8", "v", rule=COUNTS),
            "tallies": array("<i8", _GROUPS, _BUCKETS, 1 + _BITS, rule=COUNTS, optional=True),
        },
        _inconsistent,
    )

    values: Float
    counts: Int
    tallies: Int | None

    @classmethod
    def zero(cls) -> ValueCounts:
        """The state of no rows."""
        return cls(np.empty(0), np.empty(0, np.int64), None)

    @classmethod
    def of(cls, values: Float) -> ValueCounts:
        """The state of values ``(n,)``; those that are not finite are left out."""
        # Both zeros are one value.
        finite = values[np.isfinite(values)] + 0.0
        return _kept(*np.unique(finite, return_counts=True), None)

    def merge(self, other: ValueCounts) -> ValueCounts:
        """The state of both sets of rows."""
        values = np.concatenate([self.values, other.values])
        counts = np.concatenate([self.counts, other.counts])
        order = np.argsort(values, kind="stable")
        values, counts = values[order], counts[order]
        firsts = np.flatnonzero(np.append(np.True_, values[1:] != values[:-1])[: values.size])
        if firsts.size:
            values, counts = values[firsts], np.add.reduceat(counts, firsts)
        tallies = None
        if self.tallies is not None or other.tallies is not None:
            tallies = self._tallied() + other._tallied()
        return _kept(values, counts, tallies)

    def _tallied(self) -> Int:
        return _tallies(self.values, self.counts) if self.tallies is None else self.tallies

    @property
    def rows(self) -> int:
        """Number of rows with finite values."""
        return int(self.counts.sum() if self.tallies is None else self.tallies[0, :, 0].sum())

    @property
    def distinct(self) -> float:
        """Number of distinct values, estimated if not all are kept."""
        if self.tallies is None:
            return float(self.values.size)
        largest = float(mixed(_bits(self.values)).max(initial=np.uint64(1)))
        return max(self.values.size - 1, 1) * 2.0**64 / largest

    def weighted(self) -> tuple[Float, Float]:
        """Ascending values and their numbers of rows ``(u,)``, estimated if not all are kept.

        Frequent values have their own number of rows. The other values of the sample share the
        remaining rows in proportion to their counts.
        """
        if self.tallies is None:
            return self.values, self.counts.astype(float)
        frequent, rows = self._frequent(self.tallies)
        places, known = self._find(frequent)
        rows[known] = self.counts[places[known]]
        others = np.delete(self.values, places[known])
        counts = np.delete(self.counts, places[known]).astype(float)
        remaining = max(self.rows - rows.sum(), 0.0)
        counts *= remaining / max(counts.sum(), 1.0)
        values, weights = np.append(others, frequent), np.append(counts, rows)
        order = np.argsort(values)
        return values[order], weights[order]

    def share_of_repeated(self, least: int) -> float:
        """The share of rows whose value has ``least`` rows, estimated if not all are kept."""
        values, rows = self.weighted()
        places, known = self._find(values)
        own = rows.copy()
        own[known] = self.counts[places[known]]
        return float(rows[own >= least].sum() / max(rows.sum(), 1.0))

    def rows_of(self, values: Float) -> Float:
        """Number of rows of each of some values ``(m,)``.

        If not all distinct values are kept, an upper bound for values of greater hashes than those
        that are.
        """
        places, known = self._find(values)
        rows = np.zeros(values.size)
        rows[known] = self.counts[places[known]]
        if self.tallies is not None:
            bits = _bits(values)
            others = ~known & (mixed(bits) > mixed(_bits(self.values)).max(initial=np.uint64(0)))
            rows[others] = _agreeing(bits[others], self.tallies)
        return rows

    def _find(self, values: Float) -> tuple[NDArray[np.intp], Bool]:
        """The place of each of some values ``(m,)`` among those kept, and whether it is kept."""
        places = np.searchsorted(self.values, values)
        return places, np.append(self.values, np.nan)[places] == values

    def _frequent(self, tallies: Int) -> tuple[Float, Float]:
        """Values that hold more than 1/128 of the rows, and about the number of rows of each."""
        least = self.rows / _FREQUENT
        totals, ones = tallies[:, :, 0], tallies[:, :, 1:]
        group, bucket = np.nonzero(totals > least)
        # If a value holds most rows of a bucket, its bits are those of most rows.
        is_set = 2 * ones[group, bucket] > totals[group, bucket][:, None]
        bits = np.unique((is_set * _POWERS).sum(axis=1, dtype=np.uint64))
        bits = bits[np.isfinite(bits.view(float))]
        rows = _agreeing(bits, tallies)
        return bits.view(float)[rows > least], rows[rows > least]


def _kept(values: Float, counts: Int, tallies: Int | None) -> ValueCounts:
    """The state of distinct values; beyond the limit, those with the least hashes are kept."""
    if values.size > LIMIT:
        tallies = _tallies(values, counts) if tallies is None else tallies
        kept = np.sort(np.argpartition(mixed(_bits(values)), LIMIT)[:LIMIT])
        values, counts = values[kept], counts[kept]
    return ValueCounts(values, counts, tallies)


def _bits(values: Float) -> Keys:
    return np.ascontiguousarray(values).view(np.uint64)


def _places(bits: Keys) -> list[NDArray[np.int64]]:
    """The bucket of each value ``(n,)`` in each group."""
    hashes = mixed(bits)
    return [
        ((hashes >> np.uint64(8 * g)) & np.uint64(_BUCKETS - 1)).astype(np.int64)
        for g in range(_GROUPS)
    ]


def _agreeing(bits: Keys, tallies: Int) -> Float:
    """The least number of rows ``(n,)`` in a bucket of a value that agree with it in a bit.

    These rows include all rows of the value.
    """
    is_set = (bits[:, None] & _POWERS) != 0
    rows = np.full(bits.size, np.inf)
    for g, place in enumerate(_places(bits)):
        total, ones = tallies[g, place, :1], tallies[g, place, 1:]
        agreeing = np.where(is_set, ones, total - ones)
        rows = np.minimum(rows, agreeing.min(axis=1, initial=np.iinfo(np.int64).max))
    return rows


def _tallies(values: Float, counts: Int) -> Int:
    tallies = np.zeros((_GROUPS, _BUCKETS, 1 + _BITS), np.int64)
    bits = _bits(values)
    for g, place in enumerate(_places(bits)):
        _tally(bits, counts, place, tallies[g])
    return tallies


@compiled()
def _tally(bits: Keys, counts: Int, places: Int, tallies: Int) -> None:
    for i in range(bits.size):
        bucket = tallies[places[i]]
        bucket[0] += counts[i]
        for k in range(_BITS):
            bucket[1 + k] += counts[i] * np.int64((bits[i] >> np.uint64(k)) & np.uint64(1))
