"""Files, local or of an object store, and their state when they were listed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from spark_auc.errors import DataError
from spark_auc.storage.file_systems import is_local, opened, reached


@dataclass(frozen=True)
class ListedFile:
    """A file, and its state when it was listed.

    Parameters
    ----------
    path
        Path on the local file system, or URI.
    size
        Size in bytes.
    modified
        Time of the last change, in nanoseconds since 1970.
    footer
        BLAKE2b hash of the footer, 16 bytes; empty for files without one.
    """

    path: str
    size: int
    modified: int
    footer: bytes = b""

    @classmethod
    def of(cls, path: str) -> ListedFile:
        """The current state of a file without a footer."""
        return cls(path, *_state(path))

    def is_unchanged(self) -> bool:
        """Whether size and time of the last change are still the same."""
        return _state(self.path) == (self.size, self.modified)


def _state(path: str) -> tuple[int, int]:
    """Size in bytes, and time of the last change."""
    _, filesystem, key = opened(path)
    if is_local(path):
        status = os.stat(key)
        return status.st_size, status.st_mtime_ns
    with reached(path, filesystem):
        info = filesystem.get_file_info(key)
    if not info.is_file:
        raise FileNotFoundError(f"no file {path}")
    return info.size, info.mtime_ns


@contextmanager
def input_file(path: str) -> Iterator[pa.NativeFile]:
    """A file to read, local or of an object store; see `reached` for errors of a store."""
    _, filesystem, key = opened(path)
    with reached(path, filesystem), filesystem.open_input_file(key) as file:
        yield file


def check_same(path: str, same: bool) -> None:
    """`DataError` if a file is not the same as when it was listed."""
    if not same:
        raise DataError(
            f"found {path} changed since it was listed; expected the same file with the same time "
            "of change on every machine until the job ends; run again"
        )
