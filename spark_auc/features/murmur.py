"""Hashes of tokens ``name=value``, equal to those of Spark ML's FeatureHasher.

The hash is MurmurHash3_x86_32 of the UTF-8 bytes with seed 42 (``hashUnsafeBytes2`` of Spark's
``Murmur3_x86_32``), and a token's index is ``nonNegativeMod(hash, dimension)``. The hash of
``name=`` is computed once for a column. A value continues it. The kernels that hash columns are
in `spark_auc.features.tokens`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled

_SEED = np.uint32(42)
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_ADDEND = np.uint32(0xE6546B64)
_F1, _F2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_WORD = np.uint64(0xFFFFFFFF)


class Prefix(NamedTuple):
    """The state of the hash after the bytes of a prefix.

    Parameters
    ----------
    state
        The state after the whole words (4 bytes) of the prefix.
    rest
        The 0 to 3 bytes after these words, as a little-endian number.
    shift
        Number of bits of ``rest``.
    length
        Length of the prefix in bytes.
    """

    state: np.uint32
    rest: np.uint64
    shift: np.uint64
    length: np.uint64


@compiled()
def _scrambled(word: np.uint32) -> np.uint32:
    word = np.uint32(word * _C1)
    word = np.uint32((word << np.uint32(15)) | (word >> np.uint32(17)))
    return np.uint32(word * _C2)


@compiled()
def _continued(state: np.uint32, word: np.uint32) -> np.uint32:
    state = np.uint32(state ^ _scrambled(word))
    state = np.uint32((state << np.uint32(13)) | (state >> np.uint32(19)))
    return np.uint32(np.uint32(state * np.uint32(5)) + _ADDEND)


@compiled()
def little_endian(data: NDArray[np.uint8], at: np.uint64) -> np.uint64:
    """The number of four bytes."""
    # LLVM makes one load of the four.
    return (
        np.uint64(data[at])
        | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
    )


@compiled()
def after(prefix: Prefix, data: NDArray[np.uint8], start: np.uint64, end: np.uint64) -> np.uint32:
    """The hash of a prefix followed by ``data[start:end]``."""
    state, rest, shift, at = prefix.state, prefix.rest, prefix.shift, start
    while at + np.uint64(4) <= end:
        rest |= little_endian(data, at) << shift
        state = _continued(state, np.uint32(rest & _WORD))
        rest >>= np.uint64(32)
        at += np.uint64(4)
    bits = shift
    while at < end:
        rest |= np.uint64(data[at]) << bits
        bits += np.uint64(8)
        at += np.uint64(1)
    if bits >= np.uint64(32):
        state = _continued(state, np.uint32(rest & _WORD))
        rest >>= np.uint64(32)
    # Without remaining bytes the scrambled word is 0.
    state ^= _scrambled(np.uint32(rest))
    state ^= np.uint32(prefix.length + (end - start))
    state = np.uint32((state ^ (state >> np.uint32(16))) * _F1)
    state = np.uint32((state ^ (state >> np.uint32(13))) * _F2)
    return np.uint32(state ^ (state >> np.uint32(16)))


@compiled()
def _prefix(data: NDArray[np.uint8]) -> Prefix:
    state, words = _SEED, data.size // 4
    for k in range(words):
        state = _continued(state, np.uint32(little_endian(data, np.uint64(4 * k))))
    rest = np.uint64(0)
    for k in range(4 * words, data.size):
        rest |= np.uint64(data[k]) << np.uint64(8 * (k - 4 * words))
    return Prefix(state, rest, np.uint64(8 * (data.size - 4 * words)), np.uint64(data.size))


def prefix_of(text: str) -> Prefix:
    """The state of the hash after a text."""
    made = _prefix(np.frombuffer(text.encode(), np.uint8))
    # Compiled functions return Python's integers, whose type as arguments is another.
    return Prefix(np.uint32(made.state), *map(np.uint64, made[1:]))


def hash_of(prefix: Prefix, value: str) -> int:
    """The signed hash of a prefix followed by a text, as Spark's Scala code returns it."""
    data = np.frombuffer(value.encode(), np.uint8)
    return int(np.uint32(after(prefix, data, np.uint64(0), np.uint64(data.size))).astype(np.int32))
