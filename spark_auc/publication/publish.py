"""Publish the output of a job completely or not at all, on any file system.

Object stores have no atomic rename. A job therefore writes a new directory under ``versions``, and
at the end ``manifest.json``, which names the current version and lists its files. If a job dies,
the manifest and the previous version remain current.

Several jobs may publish at one location; each writes a directory of its own. The first job to end
makes its version current. A job that started before that and ends later raises `ConflictError`
(exit code 75), whatever ``output.replace`` is, since it replaces only the version that was current
when the job started. On a local file system a lock ensures this order. Elsewhere the job reads the
manifest before and after writing it. If two jobs write within the time between these, the later
manifest remains, and is whole; the other job raises the error only if it still reads its own.

A failed job deletes its version. A successful job deletes versions that were superseded at least
ten minutes ago; readers may still use younger ones. A directory that no manifest names may belong
to a running job: it remains, and the log lists it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from os import fspath

from pyarrow import fs

from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError, ConflictError, ModelFormatError, StorageError
from spark_auc.publication.directory import Directory
from spark_auc.publication.manifest import (
    MANIFEST,
    VERSIONS,
    Manifest,
    Superseded,
    content_of,
)

_log = logging.getLogger(__name__)

_GRACE_SECONDS = 600.0
_LOCK_FILE = ".lock"


def check_free(location: AnyPath, replace: bool) -> Directory:
    """Check that a job may publish at a location.

    Parameters
    ----------
    location
        A path or a URI.
    replace
        Whether to replace the current version.

    Raises
    ------
    ConfigError
        The location contains a publication and ``replace`` is false, or it contains other files.
    """
    location = fspath(location)
    directory = Directory.of(location)
    names = set(directory.names()) - {VERSIONS}
    if MANIFEST in names and not replace:
        raise ConfigError(
            f"found an existing output at {location!r}, expected none; set output.replace=true "
            "or another output.path"
        )
    if foreign := sorted(names - {MANIFEST, f"{MANIFEST}.new"}):
        raise ConfigError(
            f"found {foreign[0]!r} in {location!r}, which no job of this package wrote; expected "
            "an empty or new directory; set another output.path"
        )
    return directory


@contextmanager
def publication(
    location: AnyPath, replace: bool, kind: str, *, keep: int = 0
) -> Iterator[Directory]:
    """A new directory for output files, which becomes current when the block ends without error.

    Parameters
    ----------
    location, replace
        See `check_free`.
    kind
        Kind of the output: "model", "data", "scores" or "evaluation".
    keep
        Number of superseded versions that are never deleted; see
        `spark_auc.publication.versions.kept`.

    Raises
    ------
    ConfigError
        See `check_free`.
    ConflictError
        Another job published at the location during the block.
    ModelFormatError
        The block wrote no files, or another process deleted or changed them.
    """
    directory = check_free(location, replace)
    name = f"{VERSIONS}/{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}"
    version = directory / name
    before = content_of(directory)
    try:
        yield version
        manifest = _new_manifest(directory, kind, name, before, keep)
        with _lock(directory):
            _check_unchanged(directory, before)
            manifest.checked(directory, hashes=False)
            content = manifest.to_bytes()
            try:
                directory.replace(MANIFEST, content, through=f"{name}/{MANIFEST}.new")
            except StorageError:
                # A store may have taken a file although its answer was lost.
                if content_of(directory) != content:
                    raise
            _check_unchanged(directory, content)
    except BaseException:
        _withdraw(directory, version)
        raise
    _log.info("published %s at %s", kind, version.uri)
    for expired in manifest.expired(_GRACE_SECONDS, keep):
        _delete(directory / expired)
    _log_unnamed(directory, manifest)


def _new_manifest(
    directory: Directory, kind: str, name: str, before: bytes | None, keep: int
) -> Manifest:
    """Make the manifest of a version, and flush its files to disk."""
    superseded: list[Superseded] = []
    if before is not None:
        try:
            previous = Manifest.parse(before, directory)
            names = set((directory / VERSIONS).names())
            files = previous.files if keep else {}
            superseded = [
                version
                for version in (
                    Superseded(directory=previous.directory, until=datetime.now(UTC), files=files),
                    *previous.superseded,
                )
                if version.directory.rpartition("/")[-1] in names
            ]
        except ModelFormatError as error:
            _log.warning("the previous manifest is unreadable and is replaced: %s", error)
    version = directory / name
    if not version.files():
        raise ModelFormatError(
            f"found no files in {version.uri}, expected the files of this job; make sure that no "
            "other process deletes them, and run the job again"
        )
    manifest = Manifest.of(directory, kind, name, superseded)
    version.synchronize()
    return manifest


def _check_unchanged(directory: Directory, expected: bytes | None) -> None:
    if content_of(directory) != expected:
        raise ConflictError(
            f"found a version at {directory.uri} that another job published during this job, "
            f"expected {'the version from its start' if expected else 'none'}; the other version "
            "remains: run this job again to replace it, or set another output.path"
        )


@contextmanager
def _lock(directory: Directory) -> Iterator[None]:
    """Lock a local publication: other jobs wait until the block ends to write the manifest."""
    if not directory.local:
        yield
        return
    path = f"{directory.path}/{VERSIONS}/{_LOCK_FILE}"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        # The file belongs to another user; only NFS needs write access to lock it.
        descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            # The operating system releases the lock when the process ends or dies.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            _log.warning("no lock at %s: the file system has none (%s)", directory.uri, error)
        yield
    finally:
        os.close(descriptor)


def _withdraw(directory: Directory, version: Directory) -> None:
    """Delete a version, unless the manifest names it; the error of the job remains."""
    try:
        content = content_of(directory) or b""
    except StorageError as error:
        _log.warning("cannot delete %s: %s", version.uri, error)
        return
    if version.path.rpartition("/")[-1].encode() not in content:
        _delete(version)


def _delete(version: Directory) -> None:
    try:
        if version.filesystem.get_file_info(version.path).type == fs.FileType.Directory:
            version.filesystem.delete_dir(version.path)
    except OSError as error:
        _log.warning("cannot delete %s: %s", version.uri, error)


def _log_unnamed(directory: Directory, manifest: Manifest) -> None:
    named = {manifest.directory, *(version.directory for version in manifest.superseded)}
    unnamed = [
        name
        for name in sorted((directory / VERSIONS).names())
        if f"{VERSIONS}/{name}" not in named and name != _LOCK_FILE
    ]
    if unnamed:
        _log.warning(
            "found %d directories in %s/%s that no manifest names (%s, ...), from running or dead "
            "jobs; delete those of dead jobs",
            len(unnamed),
            directory.uri,
            VERSIONS,
            unnamed[0],
        )
