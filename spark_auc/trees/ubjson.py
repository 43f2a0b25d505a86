"""Universal Binary JSON [1]_, of which XGBoost writes a part: a reader of that part alone.

References
----------
.. [1] Universal Binary JSON, draft 12. https://ubjson.org
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_auc.errors import ModelFormatError

# The first bytes of an object: a brace, and the type of the length of a name.
OBJECTS = tuple(b"{" + kind for kind in (b"i", b"U", b"I", b"l", b"L"))
_WHOLE = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8"}
_REAL = {b"d": ">f4", b"D": ">f8"}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}
# Models nest 8 levels.
_DEPTH = 32


def from_ubjson(data: bytes | bytearray) -> Any:
    """The value of Universal Binary JSON, with arrays of one type of numbers as NumPy's.

    Parameters
    ----------
    data
        One object, whose arrays have counts.

    Raises
    ------
    ModelFormatError
        The data end early or late, nest more than 32 levels, repeat a name, or have something
        that XGBoost does not write. Memory never exceeds a small multiple of the data.
    """
    reader = _Reader(data)
    value = reader.value(0)
    if reader.left:
        raise reader.damaged(f"{reader.left} more bytes")
    return value


class _Reader:
    """Reads values from a place in the data onward."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = bytes(data)
        self._at = 0

    @property
    def left(self) -> int:
        """Number of bytes that are not read yet."""
        return len(self._data) - self._at

    def damaged(self, found: str) -> ModelFormatError:
        """The error of data with something else than a value as XGBoost writes it."""
        return ModelFormatError(
            f"found {found} at byte {self._at} of Universal Binary JSON, expected a model as "
            "XGBoost wrote it; save it again by Booster.save_model('NAME.ubj')"
        )

    def value(self, depth: int) -> Any:
        """The value of the type that comes next."""
        kind = self._bytes(1)
        if kind == b"{":
            return self._object(self._deeper(depth))
        if kind == b"[":
            return self._array(self._deeper(depth))
        if kind == b"S":
            return self._text()
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        return self._numbers(kind, 1)[0].item()

    def _deeper(self, depth: int) -> int:
        if depth == _DEPTH:
            raise self.damaged(f"more than {_DEPTH} levels")
        return depth + 1

    def _bytes(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise self.damaged(f"{self.left} bytes instead of {size}")
        self._at += size
        return self._data[self._at - size : self._at]

    # A NaN may be one that signals.
    @np.errstate(invalid="ignore")
    def _numbers(self, kind: bytes, count: int) -> np.ndarray[Any, np.dtype[Any]]:
        """Numbers of a type, as 64 bits each."""
        if kind not in _WHOLE and kind not in _REAL:
            raise self.damaged(f"the type {kind!r}")
        stored = np.dtype(_WHOLE.get(kind) or _REAL[kind])
        numbers = np.frombuffer(self._bytes(count * stored.itemsize), stored)
        return numbers.astype(np.int64 if kind in _WHOLE else np.float64)

    def _size(self) -> int:
        """A length or count; what it counts has at least a byte each."""
        kind = self._bytes(1)
        size = self._numbers(kind, 1)[0].item() if kind in _WHOLE else -1
        if not 0 <= size <= self.left:
            raise self.damaged(f"the length {size} ({kind!r})")
        return int(size)

    def _text(self) -> str:
        try:
            return self._bytes(self._size()).decode()
        except UnicodeDecodeError:
            raise self.damaged("text that is not UTF-8") from None

    def _array(self, depth: int) -> Any:
        mark = self._bytes(1)
        kind = self._bytes(1) if mark == b"$" else b""
        if (self._bytes(1) if kind else mark) != b"#":
            raise self.damaged("an array without a count")
        count = self._size()
        return self._numbers(kind, count) if kind else [self.value(depth) for _ in range(count)]

    def _object(self, depth: int) -> dict[str, Any]:
        values = dict[str, Any]()
        while self._data[self._at : self._at + 1] != b"}":
            if (name := self._text()) in values:
                raise self.damaged(f"a second {name!r:.40}")
            values[name] = self.value(depth)
        self._bytes(1)
        return values
