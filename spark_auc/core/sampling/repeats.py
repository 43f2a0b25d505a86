"""Telling equal rows apart, so that each copy of a row is drawn by itself.

Copies of a row are interchangeable: it does not matter which of them is the first. So the number
of earlier copies in a row's place (the partition or row group that it is read from) tells copies
apart as surely as a position, and does not depend on the order of the rows there, which may change
when a shuffle is repeated.

The first copy in a place has the identity of its content alone, so that rows of which there are no
copies are drawn alike in any partitioning. First copies in two places then are one to the draws. A
sample tells whether it met such copies: their moments are equal. Only then the place enters every
identity, and draws depend on how the rows are partitioned.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch, Change, mix, mixed
from spark_auc.core.kernels import compiled
from spark_auc.core.types import Int, Keys

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SMALLEST_TABLE = 1 << 10


class Repeats:
    """What one task knows of the rows that it has met.

    A table of the keys of one place at a time, 12 bytes a slot and at most half full.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._place: int | None = None
        self._clear()

    def _clear(self) -> None:
        self._used = 0
        self._keys = np.empty(_SMALLEST_TABLE, np.uint64)
        self._counts = np.zeros(_SMALLEST_TABLE, np.uint32)

    def identities(self, batch: Batch) -> tuple[Keys, Keys, Int]:
        """Tell rows ``(n,)`` apart.

        Returns
        -------
        first, second, copies : (n,)
            Identities without the place of first copies, identities with the place of all rows,
            and the number of earlier copies of each row in its place.

        Raises
        ------
        ValueError
            The rows of a place do not come one after another.
        """
        keys = batch._replace(key=None).keys()
        if batch.key is not None:
            keys = mixed(keys ^ mixed(batch.key))
        places = np.zeros(keys.size, np.int64) if batch.place is None else batch.place
        copies = np.empty(keys.size, np.int64)
        starts = np.flatnonzero(np.append(True, places[1:] != places[:-1])[: keys.size])
        ends = np.append(starts[1:], keys.size)[: starts.size]
        for start, end in zip(starts, ends, strict=True):
            self._enter(int(places[start]))
            self._count(keys[start:end], copies[start:end])
        by_place = _placed(keys, places.view(np.uint64), copies.view(np.uint64))
        return np.where(copies > 0, by_place, keys), by_place, copies

    def _enter(self, place: int) -> None:
        if place == self._place:
            return
        if place in self._known:
            raise ValueError(f"rows of place {place} come again after those of other places")
        self._known.add(place)
        self._place = place
        self._clear()

    def _count(self, keys: Keys, copies: Int) -> None:
        done = 0
        while done < keys.size:
            done, self._used = _counted(keys, done, self._keys, self._counts, self._used, copies)
            if done < keys.size:
                self._keys, self._counts = _grown(self._keys, self._counts)


def told_apart(by_place: bool = False) -> Change:
    """The change that gives each row the key of its own, and keeps equal rows in one group.

    Parameters
    ----------
    by_place
        Whether first copies in different places are told apart too; see the module.
    """

    def change(batches: Iterator[Batch]) -> Iterator[Batch]:
        met = Repeats()
        for batch in batches:
            first, second, _ = met.identities(batch)
            yield batch._replace(
                key=second if by_place else first, group=batch.groups(), place=None
            )

    return change


@compiled()
def _placed(keys: Keys, places: Keys, copies: Keys) -> Keys:
    out = np.empty_like(keys)
    for i in range(keys.size):
        out[i] = mix(mix(keys[i] ^ mix(places[i] + _GOLDEN)) + (copies[i] + np.uint64(1)) * _GOLDEN)
    return out


@compiled()
def _counted(
    keys: Keys, first: int, table: Keys, counts: NDArray[np.uint32], used: int, copies: Int
) -> tuple[int, int]:
    """Count keys from number ``first`` on as long as half of the table is free."""
    mask = np.uint64(table.size - 1)
    for i in range(first, keys.size):
        if 2 * used >= table.size:
            return i, used
        slot = keys[i] & mask
        while counts[slot] and table[slot] != keys[i]:
            slot = (slot + np.uint64(1)) & mask
        if not counts[slot]:
            table[slot] = keys[i]
            used += 1
        copies[i] = counts[slot]
        counts[slot] += np.uint32(1)
    return keys.size, used


@compiled()
def _grown(table: Keys, counts: NDArray[np.uint32]) -> tuple[Keys, NDArray[np.uint32]]:
    """The same counts in a table of twice the size."""
    wider = np.empty(2 * table.size, np.uint64)
    found = np.zeros(2 * table.size, np.uint32)
    mask = np.uint64(wider.size - 1)
    for k in range(table.size):
        if counts[k]:
            slot = table[k] & mask
            while found[slot]:
                slot = (slot + np.uint64(1)) & mask
            wider[slot] = table[k]
            found[slot] = counts[k]
    return wider, found
