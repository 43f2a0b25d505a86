"""Directories on the local file system, and on other file systems that Arrow supports."""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

from spark_auc.core.types import AnyPath
from spark_auc.publication.redaction import redacted
from spark_auc.storage.file_systems import content_of, is_object_store, opened, reached


@dataclass(frozen=True)
class Directory:
    """A directory on a file system.

    Parameters
    ----------
    uri
        The directory's URI for Spark.
    filesystem, path
        File system and path for Arrow.
    """

    uri: str
    filesystem: fs.FileSystem
    path: str

    @classmethod
    def of(cls, location: AnyPath) -> Directory:
        """Parse a location.

        Parameters
        ----------
        location
            A local path, or a URI with one slash or more after the scheme. As in Spark, the path is
            not decoded: ``%20`` stands for three characters.

        Raises
        ------
        ConfigError
            Arrow does not support the scheme or cannot connect, or the scheme has no slash after
            it.
        """
        return cls(*opened(location))

    def __truediv__(self, name: str) -> Directory:
        return Directory(
            f"{self.uri.rstrip('/')}/{name}", self.filesystem, f"{self.path.rstrip('/')}/{name}"
        )

    @property
    def local(self) -> bool:
        """Whether the directory is on the local file system."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    @property
    def object_store(self) -> bool:
        """Whether the directory is a prefix of an object store."""
        return is_object_store(self.filesystem)

    def parent(self) -> tuple[Directory, str] | None:
        """The parent directory and this directory's name; None for a root directory."""
        above, _, name = self.path.rstrip("/").rpartition("/")
        if not name or not (above or self.local):
            return None
        uri = self.uri[: -len(name) - 1]
        return Directory(uri, self.filesystem, above or "/"), name

    def names(self) -> list[str]:
        """Names of the entries; empty if the directory does not exist."""
        return [info.base_name for info in self._listed(recursive=False)]

    def files(self) -> dict[str, int]:
        """Sizes in bytes of all files below, by relative name; without Hadoop's .crc files."""
        return {
            info.path[len(self.path) + 1 :]: info.size
            for info in self._listed(recursive=True)
            if info.is_file and not info.base_name.endswith(".crc")
        }

    def reached(self) -> AbstractContextManager[None]:
        """Translates the errors of the store inside a block; see `storage.file_systems.reached`."""
        return reached(self.uri, self.filesystem)

    def _listed(self, *, recursive: bool) -> list[fs.FileInfo]:
        selector = fs.FileSelector(self.path, recursive=recursive, allow_not_found=True)
        with self.reached():
            found: list[fs.FileInfo] = self.filesystem.get_file_info(selector)
        return found

    def has(self, name: str) -> bool:
        """Whether there is a file of a name."""
        with self.reached():
            return bool(self.filesystem.get_file_info(f"{self.path}/{name}").is_file)

    def delete(self, *names: str) -> None:
        """Delete files."""
        with self.reached():
            for name in names:
                self.filesystem.delete_file(f"{self.path}/{name}")

    def read(self, name: str) -> bytes:
        """Read a file."""
        return content_of(self.uri, self.filesystem, f"{self.path}/{name}")

    def write(self, name: str, content: bytes) -> None:
        """Write a file, and create its directory if necessary."""
        path = f"{self.path}/{name}"
        with self.reached():
            if not self.object_store:
                self.filesystem.create_dir(posixpath.dirname(path), recursive=True)
            with self.filesystem.open_output_stream(path) as stream:
                stream.write(content)

    def replace(self, name: str, content: bytes, *, through: str | None = None) -> None:
        """Replace a file atomically, and flush it to disk.

        Parameters
        ----------
        name, content
            Name and content of the file.
        through
            Name of the temporary file on a local file system; None for ``name`` with the suffix
            ".new". An object store replaces a file atomically without one.
        """
        if not self.local:
            self.write(name, content)
            return
        temporary, is_new = through or f"{name}.new", not os.path.isdir(self.path)
        self.write(temporary, content)
        self.flush(temporary)
        os.replace(f"{self.path}/{temporary}", f"{self.path}/{name}")
        self.flush(posixpath.dirname(name))
        if is_new:
            self._flush_parents()

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file with redacted secrets."""
        text = json.dumps(redacted(content), indent=2, allow_nan=False, sort_keys=False)
        self.write(name, text.encode() + b"\n")

    def flush(self, name: str = "") -> None:
        """Flush a local file or directory to disk; by default this directory."""
        if self.local:
            _synchronize(posixpath.join(self.path, name))

    def synchronize(self) -> None:
        """Flush all files and directories below to disk, and the directories above.

        Only local file systems need it.
        """
        if not self.local:
            return
        for directory, _, files in os.walk(self.path, topdown=False):
            for file in files:
                _synchronize(os.path.join(directory, file))
            _synchronize(directory)
        self._flush_parents()

    def _flush_parents(self) -> None:
        for parent in _parents(self.path):
            with suppress(PermissionError):
                _synchronize(parent)


def _parents(path: str) -> Iterator[str]:
    while path != "/":
        path = posixpath.dirname(path)
        yield path


def _synchronize(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
