"""Versioned bytes of a state: a JSON header, then raw little-endian arrays.

Every mergeable state serialises through these two functions, so a state of another kind or
version, or a truncated one, is refused in one place and never read as numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_auc.errors import ModelFormatError

_MAGIC = b"SAUC"
_LENGTH = np.dtype("<u4")


def encode(kind: str, version: int, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Bytes of ``arrays`` under a header that names the kind and version of the state."""
    stored = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        for name, array in arrays.items()
    }
    header = json.dumps(
        {
            "kind": kind,
            "version": version,
            "arrays": [
                [name, a.dtype.str, list(np.shape(arrays[name]))] for name, a in stored.items()
            ],
        }
    ).encode()
    prefix = _MAGIC + np.array(len(header), _LENGTH).tobytes() + header
    return b"".join([prefix, *(a.tobytes() for a in stored.values())])


def decode(kind: str, version: int, data: bytes) -> dict[str, NDArray[Any]]:
    """Arrays that `encode` stored, as read-only views of ``data``.

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
        for name, dtype, shape in header["arrays"]:
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(data, dtype, count, position).reshape(shape)
            position += arrays[name].nbytes
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


def kind_of(data: bytes) -> str:
    """The kind of state that `encode` stored."""
    start = len(_MAGIC) + _LENGTH.itemsize
    length = int(np.frombuffer(data, _LENGTH, 1, len(_MAGIC))[0])
    return str(json.loads(data[start : start + length])["kind"])
