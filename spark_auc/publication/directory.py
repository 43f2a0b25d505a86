"""Directories on the local file system, and on other file systems that Arrow supports."""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import fs

from spark_auc.errors import ConfigError
from spark_auc.publication.redaction import redacted

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


def is_local(location: str) -> bool:
    """Whether a location is a local path: without a scheme, or with the scheme ``file``."""
    match = _SCHEME.fullmatch(location)
    return match is None or match[1].lower() == "file"


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
    def of(cls, location: str) -> Directory:
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
        match = _SCHEME.fullmatch(location)
        scheme, rest = (match[1].lower(), match[2]) if match else ("file", location)
        if "\0" in location or (match and not rest.startswith("/")):
            raise ConfigError(
                f"found the location {location!r}, expected a path, or a URI such as s3://a/b or "
                f"file:/a/b; for a local path write ./{location}"
            )
        if scheme == "file":
            if match and rest.startswith("//"):
                host, _, rest = rest[2:].partition("/")
                if host not in {"", "localhost"}:
                    raise ConfigError(
                        f"found the location {location!r} with the host {host!r}, expected none "
                        "in a file URI; write file:///a/b"
                    )
            path = posixpath.abspath(f"/{rest}" if match else rest)
            # posixpath.abspath keeps two leading slashes.
            path = f"/{path.lstrip('/')}"
            return cls(f"file://{path}", fs.LocalFileSystem(), path)
        arrow_scheme = {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
        try:
            address = rest if rest.startswith("//") else f"//{rest}"
            filesystem, path = fs.FileSystem.from_uri(f"{arrow_scheme}:{address}")
        except (pa.ArrowInvalid, OSError, ImportError) as error:
            raise ConfigError(
                f"found the location {location!r} ({error}), expected a file, s3, gs or hdfs "
                "location that this machine can access; check the address and its credentials, or "
                "set the local path where it is mounted"
            ) from None
        return cls(location.rstrip("/"), filesystem, path.rstrip("/"))

    def __truediv__(self, name: str) -> Directory:
        return Directory(
            f"{self.uri.rstrip('/')}/{name}", self.filesystem, f"{self.path.rstrip('/')}/{name}"
        )

    @property
    def local(self) -> bool:
        """Whether the directory is on the local file system."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def parent(self) -> tuple[Directory, str] | None:
        """The parent directory and this directory's name; None for a root directory."""
        above, _, name = self.path.rstrip("/").rpartition("/")
        if not name or not (above or self.local):
            return None
        uri = self.uri[: -len(name) - 1]
        return Directory(uri, self.filesystem, above or "/"), name

    def names(self) -> list[str]:
        """Names of the entries; empty if the directory does not exist."""
        selector = fs.FileSelector(self.path, allow_not_found=True)
        return [info.base_name for info in self.filesystem.get_file_info(selector)]

    def files(self) -> dict[str, int]:
        """Sizes in bytes of all files below, by relative name; without Hadoop's .crc files."""
        selector = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        return {
            info.path[len(self.path) + 1 :]: info.size
            for info in self.filesystem.get_file_info(selector)
            if info.is_file and not info.base_name.endswith(".crc")
        }

    def read(self, name: str) -> bytes:
        """Read a file."""
        with self.filesystem.open_input_stream(f"{self.path}/{name}") as stream:
            return bytes(stream.read())

    def write(self, name: str, content: bytes) -> None:
        """Write a file, and create its directory if necessary."""
        path = f"{self.path}/{name}"
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
