"""Outputs that appear whole or not at all, on any file system.

No rename is atomic everywhere, so each publication is a new directory under ``versions``, and
``manifest.json``, written last, says which one is current and what is in it. A job that dies
leaves the manifest, and with it the previous version, as they were.

Several jobs may publish to one place. Each fills a directory of its own. The first to end names
its version; one that began before and ends later is refused (`ConflictError`, exit code 75),
whatever ``output.replace`` says, for that speaks of what was there when the job began. On this
machine's file systems a lock makes sure of it; elsewhere the manifest is read again before and
after it is written, so that of two jobs that write it in the same instant the later one stays, and
the other says so.

A job deletes its own version where it fails, and versions that were current once and have been
superseded for ten minutes: rows may still be read from younger ones. A directory that no manifest
ever named may belong to a job at work: it stays, and the log names it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from pyarrow import fs

from spark_auc.app.directory import Directory, is_local
from spark_auc.app.manifest import MANIFEST, VERSIONS, Manifest, Superseded
from spark_auc.errors import ConfigError, ConflictError, ModelFormatError

_log = logging.getLogger(__name__)

_GRACE_SECONDS = 600.0
_LOCK = ".lock"


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
    """A new directory to fill, which becomes current when the block ends without an error.

    Raises
    ------
    ConfigError
        Something is there already and is not to be replaced, or is no publication.
    ConflictError
        Another job published there since the block began.
    """
    directory = check_free(location, replace)
    name = f"{VERSIONS}/{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}"
    version = directory / name
    before = _content(directory)
    try:
        yield version
        manifest = _whole(directory, kind, name, before)
        with _alone(directory):
            _check_unchanged(directory, before)
            manifest.checked(directory, hashes=False)
            content = manifest.to_bytes()
            directory.replace(MANIFEST, content, through=f"{name}/{MANIFEST}.new")
            _check_unchanged(directory, content)
    except BaseException:
        if name.encode() not in (_content(directory) or b""):
            _delete(version)
        raise
    _log.info("published %s at %s", kind, version.uri)
    for old in manifest.expired(_GRACE_SECONDS):
        _delete(directory / old)
    _tell_unfinished(directory, manifest)


def _whole(directory: Directory, kind: str, name: str, before: bytes | None) -> Manifest:
    """The manifest of a version whose files are on disk."""
    superseded: list[Superseded] = []
    if before is not None:
        try:
            old = Manifest.parse(before, directory)
            there = set((directory / VERSIONS).names())
            superseded = [
                each
                for each in (
                    Superseded(directory=old.directory, until=datetime.now(UTC)),
                    *old.superseded,
                )
                if each.directory.rpartition("/")[-1] in there
            ]
        except ModelFormatError as error:
            _log.warning("replaces what cannot be read: %s", error)
    version = directory / name
    if not version.files():
        raise ModelFormatError(
            f"found no files in {version.uri}, expected those that this job wrote; make sure that "
            "nothing else deletes them, and run it again"
        )
    manifest = Manifest.of(directory, kind, name, superseded)
    version.synchronize()
    return manifest


def _check_unchanged(directory: Directory, expected: bytes | None) -> None:
    if _content(directory) != expected:
        raise ConflictError(
            f"found that another job published at {directory.uri} while this one ran, expected "
            f"{'the version of its start' if expected else 'nothing'} there; what the other "
            "published stays: run this job again to replace it, or set another output.path"
        )


@contextmanager
def _alone(directory: Directory) -> Iterator[None]:
    """No other job of this machine's file system names its version in the block."""
    if not directory.local:
        yield
        return
    path = f"{directory.path}/{VERSIONS}/{_LOCK}"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        # Another user made it; NFS alone wants it to be writable.
        descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            # The system releases it when the process ends, however it ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            _log.warning("the file system has no locks (%s): %s", error.strerror, directory.uri)
        yield
    finally:
        os.close(descriptor)


def _delete(version: Directory) -> None:
    try:
        if version.filesystem.get_file_info(version.path).type == fs.FileType.Directory:
            version.filesystem.delete_dir(version.path)
    except OSError as error:
        _log.warning("%s could not be deleted: %s", version.uri, error)


def _tell_unfinished(directory: Directory, manifest: Manifest) -> None:
    named = {manifest.directory, *(each.directory for each in manifest.superseded)}
    unknown = [
        name
        for name in sorted((directory / VERSIONS).names())
        if f"{VERSIONS}/{name}" not in named and name != _LOCK
    ]
    if unknown:
        _log.warning(
            "found %d directories in %s/%s that no manifest names (%s, ...): of jobs that still "
            "run, or died; delete those of jobs that died",
            len(unknown),
            directory.uri,
            VERSIONS,
            unknown[0],
        )


def _content(directory: Directory) -> bytes | None:
    info = directory.filesystem.get_file_info(f"{directory.path}/{MANIFEST}")
    return directory.read(MANIFEST) if info.is_file else None


def _manifest(directory: Directory) -> Manifest | None:
    content = _content(directory)
    return None if content is None else Manifest.parse(content, directory)


def current(location: str, kind: str) -> Directory:
    """The current version of a publication, with every file checked against the manifest.

    Raises
    ------
    ConfigError
        Nothing is published there, or something of another kind.
    ModelFormatError
        The manifest is damaged or of another format, or a file is missing, truncated, changed or
        not listed.
    """
    directory = Directory.of(location)
    manifest = _manifest(directory)
    if manifest is None or manifest.kind != kind:
        found = f"a published {manifest.kind}" if manifest else "nothing published"
        raise ConfigError(
            f"found {found} at {location!r}, expected a published {kind}; check the path"
        )
    return manifest.checked(directory, hashes=True)


def resolve(location: str) -> str:
    """The location as a URI, in the current version where it lies in a publication.

    ``out/train`` is the part ``train`` of what is published at ``out``. Sizes are checked, not
    hashes, which would read bulk data twice.

    Raises
    ------
    ModelFormatError
        The manifest is damaged or of another format, or a file is missing, truncated or not
        listed.
    """
    try:
        whole = Directory.of(location)
    except ConfigError:
        if is_local(location):
            raise
        # Spark reaches file systems that Arrow does not.
        return location
    for directory, inside in ((whole, ""), whole.parent() or (whole, "")):
        manifest = _manifest(directory)
        if manifest is not None:
            version = manifest.checked(directory, hashes=False)
            return f"{version.uri}/{inside}".rstrip("/")
    return whole.uri if is_local(location) else location
