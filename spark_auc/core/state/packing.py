"""Lossless packing of arrays: without zeros, and as indices into a table of distinct values.

Kernels take numbers as unsigned words of the same width, whose equality is that of their bits.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled

Words: TypeAlias = NDArray[np.unsignedinteger[Any]]
Bytes = NDArray[np.uint8]

# The distinct values and their hash table fit in the second-level cache; at most half of the slots
# are in use.
_HASH_BITS = 15
_MOST_DISTINCT = 1 << _HASH_BITS - 1
# The high bits of a product with 2^64 over the golden ratio depend on all bits of the word.
_GOLDEN, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - _HASH_BITS)


def words_of(array: NDArray[Any]) -> Words:
    """The elements of a contiguous array as flat unsigned words of the same width."""
    return array.reshape(-1).view(f"u{array.dtype.itemsize}")


def without_zeros(words: Words) -> tuple[Bytes, Words]:
    """The bitmap of the non-zero words, in the bit order of `numpy.packbits`, and these words."""
    some = words != 0
    return np.packbits(some), words[some]


def tabulated(words: Words) -> tuple[Words, Bytes] | None:
    """The table of distinct words, and the 16-bit index of each word in it.

    Returns
    -------
    table, numbers : (k,), (2, n)
        ``numbers`` holds the low bytes, then the high bytes, of the indices: bytes of one kind
        compress better. None if the distinct words are too many for this to be shorter.
    """
    if words.itemsize <= 2:
        return None
    table = np.empty(min(_MOST_DISTINCT, words.size // 4), words.dtype)
    numbers = np.empty((2, words.size), np.uint8)
    count = _tabulate(words, table, numbers, np.zeros(1 << _HASH_BITS, np.uint16))
    return (table[:count], numbers) if count else None


def looked_up(table: Words, numbers: Bytes) -> Words:
    """The words ``(n,)`` that `tabulated` packed; `ValueError` for an index outside the table."""
    words = np.empty(numbers.shape[1], table.dtype)
    if not _look_up(table, numbers, words):
        raise ValueError(f"an index is outside its table of {table.size} values")
    return words


@compiled()
def _tabulate(words: Words, table: Words, numbers: Bytes, places: NDArray[np.uint16]) -> int:
    """Number the distinct words in order of appearance; return their count, or 0 for too many.

    ``places`` holds the slots of an open-addressed hash table: 1 + the index of a word, or 0.
    """
    count, last = 0, np.uint64(places.size - 1)
    for k in range(words.size):
        place = np.uint64(words[k]) * _GOLDEN >> _SHIFT
        while places[place] and table[places[place] - 1] != words[k]:
            place = (place + np.uint64(1)) & last
        if not places[place]:
            if count == table.size:
                return 0
            table[count] = words[k]
            count += 1
            places[place] = count
        number = places[place] - 1
        numbers[0, k] = number & 255
        numbers[1, k] = number >> 8
    return count


@compiled()
def _look_up(table: Words, numbers: Bytes, words: Words) -> bool:
    for k in range(words.size):
        number = np.uint64(numbers[0, k]) | np.uint64(numbers[1, k]) << np.uint64(8)
        if number >= np.uint64(table.size):
            return False
        words[k] = table[number]
    return True
