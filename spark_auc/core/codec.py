"""Versioned bytes of a state: a JSON header, then raw little-endian arrays.

Every mergeable state serialises through these two functions, so a state of another kind or
version, or a truncated one, is refused in one place and never read as numbers.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from spark_auc.core.packing import looked_up, tabulated, with_zeros, without_zeros, words_of
from spark_auc.errors import ModelFormatError

_MAGIC = b"SAUC"
_LENGTH = np.dtype("<u4")
_WORTH_PACKING = 4096
_ALIGNMENT = 8
# How an array is stored, as flags: without its zeros, after a bitmap of them; as a table of its
# values and each one's number in it.
_ZEROS, _TABLE = 1, 2


def encode(
    kind: str,
    version: int,
    arrays: Mapping[str, NDArray[Any]],
    repeating: Collection[str] = (),
) -> bytes:
    """Bytes of ``arrays`` under a header that names the kind and version of the state.

    An array with many zeros is stored without them. One that ``repeating`` names is stored as a
    table of its values if they are few, as sums over rows of indicators are: about a third of the
    bytes of large arrays, which `decode` has to copy.
    """
    described, parts = [], []
    for name, array in arrays.items():
        stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        layout, values = 0, stored
        if stored.size >= _WORTH_PACKING and stored.dtype.kind in "biuf":
            words = words_of(stored)
            if np.count_nonzero(words) < 0.9 * words.size:
                layout |= _ZEROS
                bitmap, values = without_zeros(words)
                parts.append(bitmap)
            if name in repeating and (found := tabulated(words_of(values))):
                layout |= _TABLE
                table, values = found
                parts += [np.array(table.size, _LENGTH), table]
        described.append([name, stored.dtype.str, list(array.shape), layout])
        parts.append(values)
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
        rest = _Rest(data, position)
        arrays = {}
        for name, dtype, shape, layout in header["arrays"]:
            count = stored = int(np.prod(shape, dtype=np.int64))
            if layout not in range(4) or count < 0:
                raise ValueError(f"array {name!r} of layout {layout!r} and shape {shape}")
            if layout & _ZEROS:
                bitmap = rest.take(np.uint8, -(-count // 8))
                stored = int(np.count_nonzero(np.unpackbits(bitmap, count=count)))
            if layout & _TABLE:
                table = words_of(rest.take(dtype, int(rest.take(_LENGTH, 1)[0])))
                numbers = rest.take(np.uint8, 2 * stored).reshape(2, stored)
                values = looked_up(table, numbers).view(dtype)
            else:
                values = rest.take(dtype, stored)
            if layout & _ZEROS:
                values = with_zeros(bitmap, words_of(values), count).view(dtype)
            values.flags.writeable = False
            arrays[name] = values.reshape(shape)
        position = rest.position
    except (ValueError, KeyError, TypeError, SyntaxError) as error:
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


@dataclass
class _Rest:
    """Bytes that are yet to be read."""

    data: bytes
    position: int

    def take(self, dtype: DTypeLike, count: int) -> NDArray[Any]:
        """The next so many values."""
        values = np.frombuffer(self.data, dtype, count, self.position)
        self.position += values.nbytes
        return values


def kind_of(data: bytes) -> str:
    """The kind of state that `encode` stored."""
    start = len(_MAGIC) + _LENGTH.itemsize
    length = int(np.frombuffer(data, _LENGTH, 1, len(_MAGIC))[0])
    return str(json.loads(data[start : start + length])["kind"])
