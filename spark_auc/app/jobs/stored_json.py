"""Facts of a state that are stored as JSON, and checked against the types of their fields."""

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
    """A value that JSON takes, as an array of bytes."""
    return np.frombuffer(json.dumps(value, allow_nan=False).encode(), np.uint8)


def json_of(kind: type[T]) -> Callable[[NDArray[np.uint8]], T]:
    """What reads values of a type, or dataclasses with exactly their fields, from `as_json`.

    It raises `ValueError` for anything else.
    """
    adapter = TypeAdapter(kind)
    names = {f.name for f in fields(kind)} if is_dataclass(kind) else None

    def read(stored: NDArray[np.uint8]) -> T:
        data = stored.tobytes()
        try:
            content: Any = json.loads(data)
            again = json.dumps(content, allow_nan=False).encode()
        except RecursionError as error:
            raise ValueError(str(error)) from None
        # There is one way to write it: repeated keys, NaN and the like are none.
        if again != data or (names is not None and set(content) != names):
            raise ValueError("its JSON is none that is written")
        return adapter.validate_json(data, strict=True)

    return read
