"""Directories on this machine and on any file system that Arrow reaches."""

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

from spark_auc.app.config.redaction import redacted
from spark_auc.errors import ConfigError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


def is_local(location: str) -> bool:
    """Whether a location is a path of this machine: without a scheme, or with that of files."""
    match = _SCHEME.fullmatch(location)
    return match is None or match[1].lower() == "file"


@dataclass(frozen=True)
class Directory:
    """A directory on some file system.

    Parameters
    ----------
    uri
        As Spark takes it.
    filesystem, path
        As Arrow takes it.
    """

    uri: str
    filesystem: fs.FileSystem
    path: str

    @classmethod
    def of(cls, location: str) -> Directory:
        """From a URI, with one slash or more after the scheme, or a path of this machine.

        A path is taken as it is written, as Spark takes it: ``%20`` is three characters.

        Raises
        ------
        ConfigError
            The scheme is unknown to Arrow, or has no slash after it.
        """
        match = _SCHEME.fullmatch(location)
        scheme, rest = (match[1].lower(), match[2]) if match else ("file", location)
        if "\0" in location or (match and not rest.startswith("/")):
            raise ConfigError(
                f"found the location {location!r}, expected a path, or a URI such as s3://a/b or "
                f"file:/a/b; for a path of this machine write ./{location}"
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
            # POSIX keeps two leading slashes.
            path = f"/{path.lstrip('/')}"
            return cls(f"file://{path}", fs.LocalFileSystem(), path)
        known = {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
        try:
            address = rest if rest.startswith("//") else f"//{rest}"
            filesystem, path = fs.FileSystem.from_uri(f"{known}:{address}")
        except (pa.ArrowInvalid, OSError, ImportError) as error:
            raise ConfigError(
                f"found the location {location!r} ({error}), expected a file, s3, gs or hdfs "
                "location that this machine can reach; check the address and its credentials, or "
                "give the path at which this machine has it mounted"
            ) from None
        return cls(location.rstrip("/"), filesystem, path.rstrip("/"))

    def __truediv__(self, name: str) -> Directory:
        return Directory(
            f"{self.uri.rstrip('/')}/{name}", self.filesystem, f"{self.path.rstrip('/')}/{name}"
        )

    @property
    def local(self) -> bool:
        """Whether it is on this machine."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def parent(self) -> tuple[Directory, str] | None:
        """The directory above and the name in it; None of a root."""
        above, _, name = self.path.rstrip("/").rpartition("/")
        if not name or not (above or self.local):
            return None
        uri = self.uri[: -len(name) - 1]
        return Directory(uri, self.filesystem, above or "/"), name

    def names(self) -> list[str]:
        """What lies directly in it; empty where there is no such directory."""
        selector = fs.FileSelector(self.path, allow_not_found=True)
        return [info.base_name for info in self.filesystem.get_file_info(selector)]

    def files(self) -> dict[str, int]:
        """Sizes of all files below it by relative name, without checksums kept beside them."""
        selector = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        return {
            info.path[len(self.path) + 1 :]: info.size
            for info in self.filesystem.get_file_info(selector)
            if info.is_file and not info.base_name.endswith(".crc")
        }

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with self.filesystem.open_input_stream(f"{self.path}/{name}") as stream:
            return bytes(stream.read())

    def write(self, name: str, content: bytes) -> None:
        """Write a file, making its directory."""
        path = f"{self.path}/{name}"
        self.filesystem.create_dir(posixpath.dirname(path), recursive=True)
        with self.filesystem.open_output_stream(path) as stream:
            stream.write(content)

    def replace(self, name: str, content: bytes, *, through: str | None = None) -> None:
        """Write a file that appears whole, and stays though the machine lose its power.

        Parameters
        ----------
        name, content
            Of the file.
        through
            Name under which it is written first; by default ``name`` with ".new" behind. Local
            files need it; a file of an object store appears when its last byte is there.
        """
        if not self.local:
            self.write(name, content)
            return
        first = through or f"{name}.new"
        self.write(first, content)
        self.flush(first)
        os.replace(f"{self.path}/{first}", f"{self.path}/{name}")
        self.flush(posixpath.dirname(name))

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file, without the secrets of its content."""
        text = json.dumps(redacted(content), indent=2, allow_nan=False, sort_keys=False)
        self.write(name, text.encode() + b"\n")

    def flush(self, name: str = "") -> None:
        """Have a local file on disk, or the names in a directory: itself where none is named."""
        if self.local:
            _synchronize(posixpath.join(self.path, name))

    def synchronize(self) -> None:
        """Have all files and directories below it on disk, and the names of those above.

        Other file systems than that of this machine see to it themselves.
        """
        if not self.local:
            return
        for here, _, files in os.walk(self.path, topdown=False):
            for file in files:
                _synchronize(os.path.join(here, file))
            _synchronize(here)
        for above in _above(self.path):
            with suppress(PermissionError):
                _synchronize(above)


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = posixpath.dirname(path)
        yield path


def _synchronize(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
