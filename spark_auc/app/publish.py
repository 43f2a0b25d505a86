"""Outputs that appear whole or not at all, on any file system.

No rename is atomic everywhere, so each publication is a new directory under ``versions``, and
``manifest.json``, written last, says which one is current and what is in it. A job that dies
leaves the manifest, and with it the previous version, as they were.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import posixpath
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyarrow import fs

from spark_auc.errors import ConfigError, ModelFormatError

_log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
VERSIONS = "versions"
_FORMAT = 1
# Bulk data are checked by size alone: hashing them would read them all once more.
_LARGEST_HASHED = 64 * 2**20


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
        """From a URI, or a path of this machine."""
        if "://" not in location:
            filesystem: fs.FileSystem = fs.LocalFileSystem()
            path = posixpath.abspath(location.removeprefix("file:"))
            return cls(f"file://{path}", filesystem, path)
        scheme, rest = location.split("://", 1)
        known = {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
        try:
            filesystem, path = fs.FileSystem.from_uri(f"{known}://{rest}")
        except (pa.ArrowInvalid, OSError, ImportError) as error:
            raise ConfigError(
                f"found the location {location!r} ({error}), expected a file, s3, gs or hdfs "
                "location that this machine can reach; check the address and its credentials"
            ) from None
        return cls(location.rstrip("/"), filesystem, path.rstrip("/"))

    def __truediv__(self, name: str) -> Directory:
        return Directory(f"{self.uri}/{name}", self.filesystem, f"{self.path}/{name}")

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

    def replace(self, name: str, content: bytes) -> None:
        """Write a file that appears whole, and stays though the machine lose its power."""
        self.write(f"{name}.new", content)
        path = f"{self.path}/{name}"
        _synchronize(self.filesystem, f"{path}.new")
        self.filesystem.move(f"{path}.new", path)
        _synchronize(self.filesystem, self.path)

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file."""
        text = json.dumps(content, indent=2, allow_nan=False, sort_keys=False)
        self.write(name, text.encode() + b"\n")


def _synchronize(filesystem: fs.FileSystem, path: str) -> None:
    """Have a local file or directory on disk; other file systems see to it themselves."""
    if isinstance(filesystem, fs.LocalFileSystem):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_free(location: str, replace: bool) -> Directory:
    """Make sure that something may be published there.

    Raises
    ------
    ConfigError
        Something is there already and is not to be replaced, or is no publication.
    """
    directory = Directory.of(location)
    names = set(directory.names()) - {VERSIONS}
    if MANIFEST in names and not replace:
        raise ConfigError(
            f"found an output at {location!r} already, expected none; set output.replace=true "
            "or another output.path"
        )
    if foreign := sorted(names - {MANIFEST, f"{MANIFEST}.new"}):
        raise ConfigError(
            f"found {foreign[0]!r} in {location!r}, which no job of this package wrote; expected "
            "an empty or new directory; set another output.path"
        )
    return directory


@contextmanager
def publication(location: str, replace: bool, kind: str) -> Iterator[Directory]:
    """A new directory to fill, which becomes current when the block ends without an error."""
    directory = check_free(location, replace)
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}"
    version = directory / VERSIONS / name
    before = _manifest(directory)
    try:
        yield version
        manifest = {
            "format": _FORMAT,
            "kind": kind,
            "directory": f"{VERSIONS}/{name}",
            "files": {
                file: {"bytes": size, "sha256": _hash(version, file, size)}
                for file, size in sorted(version.files().items())
            },
        }
        directory.write_json(f"{MANIFEST}.new", manifest)
    except BaseException:
        if version.filesystem.get_file_info(version.path).type == fs.FileType.Directory:
            version.filesystem.delete_dir(version.path)
        raise
    target = f"{directory.path}/{MANIFEST}"
    directory.filesystem.move(f"{target}.new", target)
    _log.info("published %s at %s", kind, version.uri)
    # The version before may still be read; those before it are no longer.
    kept = {name, before["directory"].rsplit("/", 1)[-1] if before else name}
    for old in (directory / VERSIONS).names():
        if old not in kept and old < name:
            directory.filesystem.delete_dir(f"{directory.path}/{VERSIONS}/{old}")


def _hash(version: Directory, file: str, size: int) -> str | None:
    if size > _LARGEST_HASHED:
        return None
    return hashlib.sha256(version.read(file)).hexdigest()


def _manifest(directory: Directory) -> dict[str, Any] | None:
    info = directory.filesystem.get_file_info(f"{directory.path}/{MANIFEST}")
    if not info.is_file:
        return None
    try:
        found = json.loads(directory.read(MANIFEST))
        assert isinstance(found["directory"], str)
        assert isinstance(found["files"], dict)
    except (ValueError, KeyError, TypeError, AssertionError):
        raise ModelFormatError(
            f"found a damaged {MANIFEST} in {directory.uri}, expected one that a job of this "
            "package wrote; publish again"
        ) from None
    if found.get("format") != _FORMAT:
        raise ModelFormatError(
            f"found a publication of format {found.get('format')} at {directory.uri}, expected "
            f"{_FORMAT}; publish again with this version of spark_auc"
        )
    return dict(found)


def current(location: str, kind: str) -> Directory:
    """The current version of a publication, with every file checked against the manifest.

    Raises
    ------
    ConfigError
        Nothing is published there, or something of another kind.
    ModelFormatError
        The manifest is damaged or of another format, or a file is missing, truncated or changed.
    """
    directory = Directory.of(location)
    manifest = _manifest(directory)
    if manifest is None or manifest["kind"] != kind:
        found = f"a published {manifest['kind']}" if manifest else "nothing published"
        raise ConfigError(
            f"found {found} at {location!r}, expected a published {kind}; check the path"
        )
    return _checked(directory, manifest, hashes=True)


def _checked(directory: Directory, manifest: dict[str, Any], *, hashes: bool) -> Directory:
    version = directory / str(manifest["directory"])
    sizes = version.files()
    for name, expected in manifest["files"].items():
        size = sizes.get(name, -1)
        if size != expected["bytes"]:
            found = "no file" if size < 0 else f"{size} bytes"
            raise ModelFormatError(
                f"found {found} at {version.uri}/{name}, expected {expected['bytes']} bytes; "
                "restore it or publish again"
            )
        if hashes and expected["sha256"] and _hash(version, name, size) != expected["sha256"]:
            raise ModelFormatError(
                f"found a changed file {version.uri}/{name}, expected it as it was published; "
                "restore it or publish again"
            )
    return version


def resolve(location: str) -> str:
    """The location as a URI, in the current version where it lies in a publication.

    ``out/train`` is the part ``train`` of what is published at ``out``. Sizes are checked, not
    hashes, which would read bulk data twice.

    Raises
    ------
    ModelFormatError
        The manifest is damaged or of another format, or a file is missing or truncated.
    """
    whole = location.rstrip("/")
    parent, _, part = whole.rpartition("/")
    for owner, inside in ((whole, ""), (parent or ".", part)):
        try:
            directory = Directory.of(owner)
        except ConfigError:
            # Spark reaches file systems that Arrow does not.
            return location
        manifest = _manifest(directory)
        if manifest is not None:
            version = _checked(directory, manifest, hashes=False)
            return f"{version.uri}/{inside}".rstrip("/")
    return location if "://" in location else Directory.of(location).uri
