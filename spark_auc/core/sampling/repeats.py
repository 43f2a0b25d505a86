"""Distinct keys for copies of a row, so that each copy is drawn independently.

A copy is identified by the number of earlier copies in its place, the partition or row group from
which it is read. Copies are interchangeable, so this does not depend on the order of the rows in
the place, which may change when a shuffle is repeated.

The key of the first copy in a place is made from its content alone, so that draws of rows without
copies are the same for any partitioning. First copies in two places then have the same key and the
same arrival times, which `FirstArrivals.tied` detects. Only in this case all keys include the
place, and draws depend on the partitioning.
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
    """Counts the copies of rows that a task reads.

    A hash table of the keys of the current place, 12 bytes per slot and at most half full.
    """

    def __init__(self) -> None:
        self._earlier_places: set[int] = set()
        self._place: int | None = None
        self._clear()

    def _clear(self) -> None:
        self._used = 0
        self._keys = np.empty(_SMALLEST_TABLE, np.uint64)
        self._counts = np.zeros(_SMALLEST_TABLE, np.uint32)

    def identities(self, batch: Batch) -> tuple[Keys, Keys, Int]:
        """Keys of the rows of the next batch.

        Returns
        -------
        by_content, by_place, copies : (n,)
            Keys in which those of first copies do not depend on the place, keys that all include
            the place, and the number of earlier copies of each row in its place.

        Raises
        ------
        ValueError
            The rows of a place are not consecutive.
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
        if place in self._earlier_places:
            raise ValueError(
                f"found rows of place {place} after those of another place, expected the rows of "
                "a place to be consecutive"
            )
        self._earlier_places.add(place)
        self._place = place
        self._clear()

    def _count(self, keys: Keys, copies: Int) -> None:
        end = 0
        while end < keys.size:
            end, self._used = _counted(keys, end, self._keys, self._counts, self._used, copies)
            if end < keys.size:
                self._keys, self._counts = _grown(self._keys, self._counts)


def distinct_keys(by_place: bool = False) -> Change:
    """The `Change` that gives copies of a row distinct keys, and leaves their group the same.

    Parameters
    ----------
    by_place
        Whether first copies in different places get distinct keys too; see the module.
    """

    def change(batches: Iterator[Batch]) -> Iterator[Batch]:
        repeats = Repeats()
        for batch in batches:
            content_keys, place_keys, _ = repeats.identities(batch)
            yield batch._replace(
                key=place_keys if by_place else content_keys, group=batch.groups(), place=None
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
    """Count keys from index ``first`` until half of the table is in use.

    Returns the index of the first key that is not counted, and the number of slots in use.
    """
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
    """The same keys and counts in a table of twice the size."""
    new_table = np.empty(2 * table.size, np.uint64)
    new_counts = np.zeros(2 * table.size, np.uint32)
    mask = np.uint64(new_table.size - 1)
    for k in range(table.size):
        if counts[k]:
            slot = table[k] & mask
            while new_counts[slot]:
                slot = (slot + np.uint64(1)) & mask
            new_table[slot] = table[k]
            new_counts[slot] = counts[k]
    return new_table, new_counts
