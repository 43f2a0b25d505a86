"""Versioned bytes of a state: a JSON header, then raw little-endian arrays.

Every mergeable state serialises through these two functions, so a state of another kind or
version, or a truncated one, is refused in one place and never read as numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.errors import ModelFormatError

Words: TypeAlias = NDArray[np.unsignedinteger[Any]]

_MAGIC = b"SAUC"
_LENGTH = np.dtype("<u4")
_WORTH_PACKING = 4096
_ALIGNMENT = 8


def encode(kind: str, version: int, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Bytes of ``arrays`` under a header that names the kind and version of the state.

    An array with many zeros is stored as a bitmap of the others and their values.
    """
    described, parts = [], []
    for name, array in arrays.items():
        stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        worth = stored.size >= _WORTH_PACKING and stored.dtype.kind in "biuf"
        words = _words(stored) if worth else np.ones(1, np.uint8)
        packed = bool(np.count_nonzero(words) < 0.9 * words.size)
        described.append([name, stored.dtype.str, list(array.shape), packed])
        parts += _packed(words) if packed else [stored]
    header = json.dumps({"kind": kind, "version": version, "arrays": described}).encode()
    # Whoever reads the arrays in place meets the first ones where a processor wants them.
    header += b" " * (-(len(_MAGIC) + _LENGTH.itemsize + len(header)) % _ALIGNMENT)
    prefix = _MAGIC + np.array(len(header), _LENGTH).tobytes() + header
    return b"".join([prefix, *(part.data for part in parts)])


def nested(parts: Iterable[bytes]) -> dict[str, NDArray[np.uint8]]:
    """States in a state: the bytes of each as an array that `encode` takes, by their number."""
    return {str(k): np.frombuffer(part, np.uint8) for k, part in enumerate(parts)}


def decode(kind: str, version: int, data: bytes) -> dict[str, NDArray[Any]]:
    """Read-only arrays that `encode` stored.

    Raises
    ------
    ModelFormatError
        The bytes are not a state, are of another kind or version, or are truncated.
    """
    start = len(_MAGIC) + _LENGTH.itemsize
    if len(data) < start or data[: len(_MAGIC)] != _MAGIC:
        raise ModelFormatError(
            f"found {len(data)} bytes that are no saved state, expected a {kind!r} state; "
            "pass the bytes that to_bytes() returned"
        )
    position = start + int(np.frombuffer(data, _LENGTH, 1, len(_MAGIC))[0])
    try:
        header = json.loads(data[start:position])
        found = header["kind"], header["version"]
        if found != (kind, version):
            raise ModelFormatError(
                f"found a state {found[0]!r} of version {found[1]}, expected {kind!r} of version "
                f"{version}; write it again with this version of spark_auc"
            )
        arrays = {}
        for name, dtype, shape, packed in header["arrays"]:
            count = int(np.prod(shape, dtype=np.int64))
            if packed:
                bitmap = np.frombuffer(data, np.uint8, -(-count // 8), position)
                position += bitmap.nbytes
                whole = np.zeros(count, dtype)
                count = int(np.count_nonzero(np.unpackbits(bitmap, count=count)))
            values = np.frombuffer(data, dtype, count, position)
            position += values.nbytes
            if packed:
                if count:
                    _unpack(bitmap, _words(values), _words(whole))
                whole.flags.writeable = False
                values = whole
            arrays[name] = values.reshape(shape)
    except (ValueError, KeyError) as error:
        raise ModelFormatError(
            f"found a truncated or damaged {kind!r} state of {len(data)} bytes ({error}); "
            "read it again from its source"
        ) from error
    if position != len(data):
        raise ModelFormatError(
            f"found {len(data)} bytes, expected {position} for this {kind!r} state; "
            "read it again from its source"
        )
    return arrays


def _words(array: NDArray[Any]) -> Words:
    """Numbers as bits, by which a kernel tells what is 0."""
    return array.reshape(-1).view(f"u{array.dtype.itemsize}")


def _packed(words: Words) -> list[NDArray[Any]]:
    """A bitmap of the words that are not 0, in the order of `numpy.packbits`, and these words."""
    bitmap = np.empty(-(-words.size // 8), np.uint8)
    others = np.empty(np.count_nonzero(words) + 1, words.dtype)
    _pack(words, bitmap, others)
    return [bitmap, others[:-1]]


@compiled()
def _pack(words: Words, bitmap: NDArray[np.uint8], others: Words) -> None:
    count = 0
    for k in range(bitmap.size):
        bits = 0
        for j in range(8 * k, min(8 * k + 8, words.size)):
            # A branch would be guessed wrong every other time.
            some = 1 if words[j] else 0
            others[count] = words[j]
            count += some
            bits |= some << (7 - j % 8)
        bitmap[k] = bits


@compiled()
def _unpack(bitmap: NDArray[np.uint8], others: Words, words: Words) -> None:
    """Undo `_packed`; some word is not 0."""
    count = 0
    for k in range(bitmap.size):
        bits = bitmap[k]
        for j in range(8 * k, min(8 * k + 8, words.size)):
            some = bits >> (7 - j % 8) & 1
            words[j] = np.uint64(others[min(count, others.size - 1)]) * np.uint64(some)
            count += some


def kind_of(data: bytes) -> str:
    """The kind of state that `encode` stored."""
    start = len(_MAGIC) + _LENGTH.itemsize
    length = int(np.frombuffer(data, _LENGTH, 1, len(_MAGIC))[0])
    return str(json.loads(data[start : start + length])["kind"])
