"""The stored format of a state: a checksum, a JSON header, then raw little-endian arrays.

Every state is written by `encode` and read by `decode`, which refuses bytes of another kind or
version, damaged bytes and crafted bytes. `spark_auc.core.state.schema` declares the arrays.

The layout is: four letters; the format number (4 bytes); the `checksum` of all that follows
(8 bytes); the length of the header (8 bytes); the header; the arrays. Each part, including a
nested state, begins at a multiple of 8 bytes. The outer checksum covers the first 16 bytes of a
nested state, which contain the inner checksum, so that each byte is read once at any depth.

Reading allocates at most 64 bytes per byte of input: 8 bytes for each bit of a bitmap of zeros.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from spark_auc.core.state.checksum import checksum
from spark_auc.core.state.packing import looked_up, tabulated, without_zeros, words_of
from spark_auc.errors import ModelFormatError

Data: TypeAlias = bytes | memoryview

_LETTERS, _FORMAT = b"SAUC", 2
_PREFIX = struct.Struct("<4sIQQ")
# The end of the checksum, which covers the bytes after it.
_CHECKED = 16
_LENGTH = np.dtype("<u4")
_WORTH_PACKING = 4096
_ALIGNMENT = 8
# Flags of an array's layout: a bitmap of its non-zeros before them; a table of its distinct values
# before the index of each value. A nested state is stored unchanged.
_ZEROS, _TABLE = 1, 2
_STATE = "state"
_NUMBERS = {"|b1", "|i1", "|u1", *(f"<{k}{n}" for k in "iuf" for n in (2, 4, 8))}
_TEXT = re.compile(r"<U[1-9]\d{0,6}")
# Far more than any machine holds, and far less than would overflow in products.
_MOST_ELEMENTS = 2**48
_SURROGATES, _LAST_CHARACTER = (0xD800, 0xDFFF), 0x10FFFF


def encode(
    kind: str,
    version: int,
    arrays: Mapping[str, NDArray[Any] | bytes],
    repeating: Collection[str] = (),
) -> bytes:
    """Bytes of ``arrays`` under a header with the kind and version of the state.

    Parameters
    ----------
    kind, version
        Kind and version of the state.
    arrays
        The arrays by name, of any shape; bytes are a nested state.
    repeating
        Names of arrays that may have few distinct values, as sums over rows of indicators have. A
        table of these takes about a third of the bytes, but `decode` has to copy the array.
    """
    described: list[list[Any]] = []
    parts: list[NDArray[Any] | bytes] = []
    for name, array in arrays.items():
        if isinstance(array, bytes):
            described.append([name, _STATE, [len(array)], 0])
            parts.append(array)
            continue
        stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        layout, values = 0, stored
        if stored.size >= _WORTH_PACKING and stored.dtype.kind in "biuf":
            words = words_of(stored)
            if np.count_nonzero(words) < 0.9 * words.size:
                layout |= _ZEROS
                bitmap, values = without_zeros(words)
                parts.append(bitmap)
            if name in repeating and (packed := tabulated(words_of(values))):
                layout |= _TABLE
                table, values = packed
                parts += [np.array(table.size, _LENGTH), table]
        described.append([name, stored.dtype.str, list(array.shape), layout])
        parts.append(values)
    return sealed(_header(kind, version, described), parts)


def _header(kind: str, version: int, described: list[list[Any]]) -> bytes:
    return json.dumps({"kind": kind, "version": version, "arrays": described}).encode()


def sealed(header: bytes, parts: Iterable[NDArray[Any] | bytes]) -> bytes:
    """The bytes of a header and of the arrays it describes, with their checksum."""
    header += b" " * _padding(len(header))
    length = struct.pack("<Q", len(header))
    words = [np.frombuffer(length + header, np.uint64)]
    pieces: list[bytes | memoryview] = [header]
    for part in parts:
        if isinstance(part, bytes):
            words.append(np.frombuffer(part, np.uint64, _CHECKED // 8))
            pieces.append(part)
            continue
        stored = part.reshape(-1).view(np.uint8)
        aligned = stored.size - stored.size % _ALIGNMENT
        last = stored[aligned:].tobytes()
        last += bytes(_padding(len(last)))
        words += [stored[:aligned].view(np.uint64), np.frombuffer(last, np.uint64)]
        pieces += [stored[:aligned].data, last]
    prefix = _PREFIX.pack(_LETTERS, _FORMAT, checksum(words), len(header))
    return b"".join([prefix, *pieces])


def _padding(size: int) -> int:
    """Number of bytes between the end of a part of ``size`` bytes and the next part."""
    return -size % _ALIGNMENT


def decode(kind: str, version: int, data: Data) -> dict[str, NDArray[Any] | memoryview]:
    """The read-only arrays that `encode` stored, and the bytes of nested states.

    An array may be a view of ``data``, which then lives as long as the array.

    Raises
    ------
    ModelFormatError
        The bytes are no state, are a state of another kind or version, or are damaged.
    """
    stored_kind, stored_version, described, position = _opened(data, f"a {kind!r} state")
    if stored_kind != kind or stored_version != version:
        newer = stored_kind == kind and stored_version > version
        raise ModelFormatError(
            f"found a state {_short(stored_kind)} of version {stored_version}, expected {kind!r} "
            f"of version {version}; "
            + (
                "read it with the newer spark_auc that wrote it"
                if newer
                else "read it with the class and version that wrote it, or write it again"
            )
        )
    try:
        arrays, computed_checksum = _arrays(described, data, position)
        if computed_checksum != _PREFIX.unpack_from(data)[2]:
            raise ValueError("its checksum does not match")
    except (ValueError, TypeError) as error:
        raise ModelFormatError(
            f"found a truncated or damaged {kind!r} state of {len(data)} bytes ({error}), "
            "expected the bytes that to_bytes() returned; read it again from its source"
        ) from None
    return arrays


def version_of(data: Data) -> int:
    """The version of a state; raises `ModelFormatError` for bytes that are no state."""
    return _opened(data, "a state")[1]


def kind_of(data: Data, kinds: Collection[str]) -> str:
    """The kind of a state; raises `ModelFormatError` unless it is one of ``kinds``."""
    kind = _opened(data, f"a state ({', '.join(kinds)})")[0]
    if kind not in kinds:
        raise ModelFormatError(
            f"found a state {_short(kind)}, expected one of {', '.join(kinds)}; read it with the "
            "class that wrote it"
        )
    return kind


def _short(text: str) -> str:
    """Untrusted text, shortened and escaped for a message."""
    return ascii(text[:60])


def _opened(data: Data, expected: str) -> tuple[str, int, list[Any], int]:
    """Kind, version, descriptions of the arrays, and the position of the first array."""
    if len(data) < _PREFIX.size or data[: len(_LETTERS)] != _LETTERS:
        raise ModelFormatError(
            f"found {len(data)} bytes that are no saved state, expected {expected}; "
            "pass the bytes that to_bytes() returned"
        )
    _, stored_format, _, length = _PREFIX.unpack_from(data)
    if stored_format != _FORMAT:
        older = data[8:9] == b"{"  # the start of a header in the first format
        raise ModelFormatError(
            f"found a state in format {1 if older else stored_format}, expected {expected} in "
            f"format {_FORMAT}; "
            + ("write it again" if older else "read it with the spark_auc that wrote it")
        )
    position = _PREFIX.size + length
    header = bytes(data[_PREFIX.size : position])
    try:
        if len(header) != length or len(data) % _ALIGNMENT:
            raise ValueError("its bytes end too early")
        content = json.loads(header)
        kind, version, described = content["kind"], content["version"], content["arrays"]
        if not (isinstance(kind, str) and type(version) is int and isinstance(described, list)):
            raise ValueError("its header is malformed")
        # A header has one spelling: without repeated keys, other keys or other forms of a number.
        canonical = _header(kind, version, described)
        if canonical + b" " * _padding(len(canonical)) != header:
            raise ValueError("its header is malformed")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFormatError(
            f"found a truncated or damaged state of {len(data)} bytes ({_short(str(error))}), "
            f"expected {expected}; read it again from its source"
        ) from None
    return kind, version, described, position


def _arrays(
    described: list[Any], data: Data, position: int
) -> tuple[dict[str, NDArray[Any] | memoryview], int]:
    """The arrays, and the checksum of the bytes read."""
    stored = np.frombuffer(data, np.uint8)
    if not stored[_CHECKED:].view(np.uint64).flags.aligned:
        stored = stored.copy()
    reader = _Reader(stored, position, _CHECKED, [])
    arrays: dict[str, NDArray[Any] | memoryview] = {}
    for name, dtype, shape, layout in described:
        if not isinstance(name, str) or name in arrays:
            raise ValueError(f"array name {_short(str(name))} is no text or is repeated")
        if not isinstance(shape, list) or not _is_shape(shape):
            raise ValueError(f"array {_short(name)} has an impossible shape")
        count = prod(shape)
        if dtype == _STATE and layout == 0 and len(shape) == 1:
            reader.check(reader.position + min(_CHECKED, count))
            arrays[name] = reader.take(np.uint8, count).data
            reader.unchecked = reader.position
            continue
        text = isinstance(dtype, str) and _TEXT.fullmatch(dtype)
        layouts = range(1 if text else 4)
        if not (text or dtype in _NUMBERS) or type(layout) is not int or layout not in layouts:
            raise ValueError(f"array {_short(name)} has an unknown type or layout")
        values = reader.values(np.dtype(dtype), count, layout)
        if text:
            _check_text(values, name)
        elif dtype == "|b1" and values.view(np.uint8).max(initial=0) > 1:
            raise ValueError(f"array {_short(name)} has booleans other than 0 and 1")
        values.flags.writeable = False
        arrays[name] = values.reshape(shape)
    if reader.position != reader.data.size:
        raise ValueError(f"{reader.data.size - reader.position} bytes follow its last array")
    reader.check(reader.position)
    return arrays, checksum(reader.words)


def _is_shape(shape: list[Any]) -> bool:
    most = 1
    for n in shape:
        if type(n) is not int or n < 0:
            return False
        most *= n or 1
    return most <= _MOST_ELEMENTS


def _check_text(values: NDArray[Any], name: str) -> None:
    letters = values.view(np.uint32)
    first, last = _SURROGATES
    if ((letters > _LAST_CHARACTER) | ((letters >= first) & (letters <= last))).any():
        raise ValueError(f"array {_short(name)} has invalid characters")


@dataclass
class _Reader:
    """Reads arrays in their stored order, and collects the words of the checksum."""

    data: NDArray[np.uint8]
    position: int
    unchecked: int
    words: list[NDArray[np.uint64]]

    def check(self, end: int) -> None:
        """Add the bytes from ``unchecked`` to ``end`` to the words of the checksum."""
        self.words.append(self.data[self.unchecked : end + _padding(end)].view(np.uint64))

    def take(self, dtype: DTypeLike, count: int) -> NDArray[Any]:
        """The next ``count`` values ``(count,)``, a view of ``data``."""
        end = self.position + np.dtype(dtype).itemsize * count
        next_position = end + _padding(end)
        if next_position > self.data.size or self.data[end:next_position].any():
            raise ValueError("its bytes end too early")
        values = self.data[self.position : end].view(dtype)
        self.position = next_position
        return values

    def values(self, dtype: np.dtype[Any], count: int, layout: int) -> NDArray[Any]:
        """The next ``count`` values ``(count,)``, stored in the given layout."""
        stored = count
        if layout & _ZEROS:
            bitmap = self.take(np.uint8, -(-count // 8))
            present = np.unpackbits(bitmap, count=count).view(np.bool_)
            stored = int(np.count_nonzero(present))
        if layout & _TABLE:
            table = words_of(self.take(dtype, int(self.take(_LENGTH, 1)[0])))
            numbers = self.take(np.uint8, 2 * stored).reshape(2, stored)
            values = looked_up(table, numbers).view(dtype)
        else:
            values = self.take(dtype, stored)
        if layout & _ZEROS:
            others, values = values, np.zeros(count, dtype)
            values[present] = others
        return values
