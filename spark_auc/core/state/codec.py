"""Bytes of a state: a checksum, a JSON header, then raw little-endian arrays.

Every state serialises through these two functions, so that bytes of another kind or version,
damaged ones and crafted ones are refused in one place. What the arrays of a kind must be like
says its `spark_auc.core.state.schema.Schema`.

A state is, in order: four letters; the number of this format (4 bytes); the `checksum` (8 bytes)
of all that follows; the length of the header (8 bytes); the header; the arrays. Each of these
parts begins at a multiple of 8 bytes, as processors want numbers, also those of a state in a
state. Of the latter the checksum has the first 16 bytes, its own checksum among them, so that no
byte is read once more for each state that it is in.

Reading allocates no more than what the bytes that are there can mean: 64 bytes for each of them,
which is a number of 8 bytes for each bit of a bitmap of zeros.
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
from spark_auc.core.state.packing import looked_up, tabulated, with_zeros, without_zeros, words_of
from spark_auc.errors import ModelFormatError

Data: TypeAlias = bytes | memoryview

_LETTERS, _FORMAT = b"SAUC", 2
_PREFIX = struct.Struct("<4sIQQ")
# The checksum is of what comes after it; where it ends.
_CHECKED = 16
_LENGTH = np.dtype("<u4")
_WORTH_PACKING = 4096
_ALIGNMENT = 8
# How an array is stored, as flags: without its zeros, after a bitmap of them; as a table of its
# values and each one's number in it. A state in a state is stored as it is.
_ZEROS, _TABLE = 1, 2
_STATE = "state"
_NUMBERS = {"|b1", "|i1", "|u1", *(f"<{k}{n}" for k in "iuf" for n in (2, 4, 8))}
_TEXT = re.compile(r"<U[1-9]\d{0,6}")
# Far above what any machine holds, and far below where products of it overflow.
_MOST_ELEMENTS = 2**48
_SURROGATES, _LAST_CHARACTER = (0xD800, 0xDFFF), 0x10FFFF


def encode(
    kind: str,
    version: int,
    arrays: Mapping[str, NDArray[Any] | bytes],
    repeating: Collection[str] = (),
) -> bytes:
    """Bytes of ``arrays`` under a header that names the kind and version of the state.

    An array with many zeros is stored without them. One that ``repeating`` names is stored as a
    table of its values if they are few, as sums over rows of indicators are: about a third of the
    bytes of large arrays, which `decode` has to copy. What is bytes already is a state in this
    state.
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
            if name in repeating and (found := tabulated(words_of(values))):
                layout |= _TABLE
                table, values = found
                parts += [np.array(table.size, _LENGTH), table]
        described.append([name, stored.dtype.str, list(array.shape), layout])
        parts.append(values)
    return sealed(_header(kind, version, described), parts)


def _header(kind: str, version: int, described: list[list[Any]]) -> bytes:
    return json.dumps({"kind": kind, "version": version, "arrays": described}).encode()


def sealed(header: bytes, parts: Iterable[NDArray[Any] | bytes]) -> bytes:
    """The bytes of a header and of what it describes, under their checksum."""
    header += b" " * _missing(len(header))
    length = struct.pack("<Q", len(header))
    words = [np.frombuffer(length + header, np.uint64)]
    pieces: list[bytes | memoryview] = [header]
    for part in parts:
        if isinstance(part, bytes):
            words.append(np.frombuffer(part, np.uint64, _CHECKED // 8))
            pieces.append(part)
            continue
        stored = part.reshape(-1).view(np.uint8)
        whole = stored.size - stored.size % _ALIGNMENT
        last = stored[whole:].tobytes()
        last += bytes(_missing(len(last)))
        words += [stored[:whole].view(np.uint64), np.frombuffer(last, np.uint64)]
        pieces += [stored[:whole].data, last]
    prefix = _PREFIX.pack(_LETTERS, _FORMAT, checksum(words), len(header))
    return b"".join([prefix, *pieces])


def _missing(size: int) -> int:
    """Bytes from the end of something to where the next part may begin."""
    return -size % _ALIGNMENT


def decode(kind: str, version: int, data: Data) -> dict[str, NDArray[Any] | memoryview]:
    """Read-only arrays that `encode` stored, and the bytes of states in this state.

    Arrays may lie in ``data``, which is kept as long as they are.

    Raises
    ------
    ModelFormatError
        The bytes are not a state, are of another kind or version, or are damaged.
    """
    found, found_version, described, position = _opened(data, f"a {kind!r} state")
    if found != kind or found_version != version:
        newer = found == kind and found_version > version
        raise ModelFormatError(
            f"found a state {_short(found)} of version {found_version}, expected {kind!r} of "
            f"version {version}; "
            + (
                "read it with the newer spark_auc that wrote it"
                if newer
                else "read it with what wrote it, or write it again with this version of spark_auc"
            )
        )
    try:
        arrays, found_checksum = _arrays(described, data, position)
        if found_checksum != _PREFIX.unpack_from(data)[2]:
            raise ValueError("its checksum is another")
    except (ValueError, TypeError) as error:
        raise ModelFormatError(
            f"found a truncated or damaged {kind!r} state of {len(data)} bytes ({error}), "
            "expected those that to_bytes() returned; read it again from its source"
        ) from None
    return arrays


def kind_of(data: Data, kinds: Collection[str]) -> str:
    """Of which of some kinds a state is; `ModelFormatError` if it is of none."""
    found = _opened(data, f"a state ({', '.join(kinds)})")[0]
    if found not in kinds:
        raise ModelFormatError(
            f"found a state {_short(found)}, expected one of {', '.join(kinds)}; read it with what "
            "wrote it"
        )
    return found


def _short(text: str) -> str:
    """Text that came from outside, as a message may show it."""
    return ascii(text[:60])


def _opened(data: Data, expected: str) -> tuple[str, int, list[Any], int]:
    """Kind, version, descriptions of arrays, and where the arrays begin."""
    if len(data) < _PREFIX.size or data[: len(_LETTERS)] != _LETTERS:
        raise ModelFormatError(
            f"found {len(data)} bytes that are no saved state, expected {expected}; "
            "pass the bytes that to_bytes() returned"
        )
    _, stored, _, length = _PREFIX.unpack_from(data)
    if stored != _FORMAT:
        # Before the second format a header came at once.
        older = data[8:9] == b"{"
        raise ModelFormatError(
            f"found a state in format {1 if older else stored}, expected {expected} in format "
            f"{_FORMAT}; "
            + ("write it again" if older else "read it with the spark_auc that wrote it")
        )
    position = _PREFIX.size + length
    header = bytes(data[_PREFIX.size : position])
    try:
        if len(header) != length or len(data) % _ALIGNMENT:
            raise ValueError("it ends too early")
        content = json.loads(header)
        kind, version, described = content["kind"], content["version"], content["arrays"]
        if not (isinstance(kind, str) and type(version) is int and isinstance(described, list)):
            raise ValueError("its header is none")
        # There is one way to write a header: without repeated keys, other keys or other numbers.
        again = _header(kind, version, described)
        if again + b" " * _missing(len(again)) != header:
            raise ValueError("its header is none")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFormatError(
            f"found a truncated or damaged state of {len(data)} bytes ({_short(str(error))}), "
            f"expected {expected}; read it again from its source"
        ) from None
    return kind, version, described, position


def _arrays(
    described: list[Any], data: Data, position: int
) -> tuple[dict[str, NDArray[Any] | memoryview], int]:
    """The arrays, and the checksum that the state should have."""
    whole = np.frombuffer(data, np.uint8)
    if not whole[_CHECKED:].view(np.uint64).flags.aligned:
        whole = whole.copy()
    rest = _Rest(whole, position, _CHECKED, [])
    arrays: dict[str, NDArray[Any] | memoryview] = {}
    for name, dtype, shape, layout in described:
        if not isinstance(name, str) or name in arrays:
            raise ValueError(f"there is no array {_short(str(name))}, or there are two")
        if not isinstance(shape, list) or not _is_shape(shape):
            raise ValueError(f"array {_short(name)} has a shape that none has")
        count = prod(shape)
        if dtype == _STATE and layout == 0 and len(shape) == 1:
            rest.check(rest.position + min(_CHECKED, count))
            arrays[name] = rest.take(np.uint8, count).data
            rest.unchecked = rest.position
            continue
        text = isinstance(dtype, str) and _TEXT.fullmatch(dtype)
        layouts = range(1 if text else 4)
        if not (text or dtype in _NUMBERS) or type(layout) is not int or layout not in layouts:
            raise ValueError(f"array {_short(name)} is of a type that none is stored in")
        values = rest.values(np.dtype(dtype), count, layout)
        if text:
            _check_text(values, name)
        elif dtype == "|b1" and values.view(np.uint8).max(initial=0) > 1:
            raise ValueError(f"array {_short(name)} holds what is neither true nor false")
        values.flags.writeable = False
        arrays[name] = values.reshape(shape)
    if rest.position != rest.data.size:
        raise ValueError(f"{rest.data.size - rest.position} bytes follow it")
    rest.check(rest.position)
    return arrays, checksum(rest.words)


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
        raise ValueError(f"array {_short(name)} holds what is no text")


@dataclass
class _Rest:
    """Bytes that are yet to be read."""

    data: NDArray[np.uint8]
    position: int
    unchecked: int
    words: list[NDArray[np.uint64]]

    def check(self, end: int) -> None:
        """Note what the checksum is of: what comes before an end, and has not been noted."""
        self.words.append(self.data[self.unchecked : end + _missing(end)].view(np.uint64))

    def take(self, dtype: DTypeLike, count: int) -> NDArray[Any]:
        """The next so many values, in ``data``."""
        end = self.position + np.dtype(dtype).itemsize * count
        behind = end + _missing(end)
        if behind > self.data.size or (behind > end and self.data[end:behind].any()):
            raise ValueError("it ends too early")
        values = self.data[self.position : end].view(dtype)
        self.position = behind
        return values

    def values(self, dtype: np.dtype[Any], count: int, layout: int) -> NDArray[Any]:
        """The next so many values, as they are stored in a layout."""
        stored = count
        if layout & _ZEROS:
            bitmap = self.take(np.uint8, -(-count // 8))
            stored = int(np.count_nonzero(np.unpackbits(bitmap, count=count)))
        if layout & _TABLE:
            table = words_of(self.take(dtype, int(self.take(_LENGTH, 1)[0])))
            numbers = self.take(np.uint8, 2 * stored).reshape(2, stored)
            values = looked_up(table, numbers).view(dtype)
        else:
            values = self.take(dtype, stored)
        if layout & _ZEROS:
            values = with_zeros(bitmap, words_of(values), count).view(dtype)
        return values
