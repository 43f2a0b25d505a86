"""Files that tasks read themselves, local or of an object store, and their state when listed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_auc.errors import DataError
from spark_auc.storage.file_systems import is_local, opened, reached

# These settings change the files that Spark reads.
_SETTINGS = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")


class UnsupportedFilesError(Exception):
    """Tasks may read other rows than Spark from these files; the message gives the reason."""


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
    if is_local(path):
        status = os.stat(path)
        return status.st_size, status.st_mtime_ns
    _, filesystem, key = opened(path)
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


def local_paths(df: DataFrame, *settings: str) -> list[str]:
    """Sorted paths of the files of a DataFrame.

    Parameters
    ----------
    df
        The rows.
    settings
        Further settings of Spark that must not be set.

    Raises
    ------
    UnsupportedFilesError
        The rows are cached, files are not on the local file system, or a setting is on that changes
        the rows that Spark reads.
    """
    level = df.storageLevel
    if level.useMemory or level.useDisk:
        raise UnsupportedFilesError("the rows are cached")
    conf = df.sparkSession.conf
    on = [key for key in (*settings, *_SETTINGS) if str(conf.get(key, "false")).lower() != "false"]
    if on:
        raise UnsupportedFilesError(f"{', '.join(on)} is set")
    files = [urlsplit(file) for file in df.inputFiles()]
    if {file.scheme for file in files} != {"file"}:
        raise UnsupportedFilesError("the rows do not come from files of the local file system")
    return sorted(unquote(file.path) for file in files)
