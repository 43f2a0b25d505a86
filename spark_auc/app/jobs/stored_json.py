"""Store values as JSON in a state, and check their types when they are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

T = TypeVar("T")


def as_json(value: object) -> NDArray[np.uint8]:
    """Encode a value as JSON, as an array of bytes."""
    return np.frombuffer(json.dumps(value, allow_nan=False).encode(), np.uint8)


def json_of(kind: type[T]) -> Callable[[NDArray[np.uint8]], T]:
    """Make a decoder of values of one type that `as_json` encoded.

    Parameters
    ----------
    kind
        The type. A dataclass must have exactly its fields.

    Returns
    -------
    callable
        Maps bytes to a value; raises `ValueError` for other bytes than those of `as_json`.
    """
    adapter = TypeAdapter(kind)
    names = {f.name for f in fields(kind)} if is_dataclass(kind) else None

    def read(stored: NDArray[np.uint8]) -> T:
        data = stored.tobytes()
        try:
            content: Any = json.loads(data)
            encoded = json.dumps(content, allow_nan=False).encode()
        except RecursionError as error:
            raise ValueError(str(error)) from None
        # The encoding is unique, which excludes repeated keys and NaN.
        exact = names is None or (isinstance(content, dict) and content.keys() == names)
        if encoded != data or not exact:
            raise ValueError("its JSON is not in the stored form")
        return adapter.validate_json(data, strict=True)

    return read
