"""Published outputs for readers: the current version, those that are kept, and their files."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from os import fspath

from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.publication.directory import Directory
from spark_auc.publication.manifest import VERSIONS, Manifest, manifest_of
from spark_auc.storage.file_systems import is_local, opened

_log = logging.getLogger(__name__)

# A file or directory beside those of rows.
_HIDDEN = re.compile(r"/[._][^/=]*(/|$)")
# Suffixes of rows, also compressed. Files without a suffix are rows as well.
_DATA = re.compile(
    r"(?i)[.](csv|tsv|parquet|jsonl?|ndjson)([.](gz|bz2|zst|lz4|deflate|snappy|passthrough))?$"
)
_NO_SUFFIX = re.compile(r"(^|/)[^/.]+$")


def current(location: AnyPath, kind: str) -> Directory:
    """Directory of the current version, with every file checked against the manifest.

    Parameters
    ----------
    location
        A path or a URI.
    kind
        Expected kind of the output, such as "model".

    Raises
    ------
    ConfigError
        The location has no publication, or one of another kind.
    ModelFormatError
        The manifest is damaged or of another format, or a file is missing, truncated, changed or
        not listed.
    """
    location = fspath(location)
    directory = Directory.of(location)
    manifest = manifest_of(directory)
    if manifest is None or manifest.kind != kind:
        content = f"a published {manifest.kind}" if manifest else "no publication"
        raise ConfigError(
            f"found {content} at {location!r}, expected a published {kind}; check the path"
        )
    return manifest.checked(directory, hashes=True)


def kept(location: AnyPath, kind: str, *, hashes: bool) -> list[Directory]:
    """Directories of the superseded versions that publications keep, the latest first.

    Versions that are damaged or incomplete are left out, and the log names them.

    Parameters
    ----------
    location, kind
        See `current`.
    hashes
        Whether to compare hashes in addition to sizes, which reads the files.
    """
    directory = Directory.of(location)
    manifest = manifest_of(directory)
    names = set((directory / VERSIONS).names())
    found = []
    for version in manifest.restorable() if manifest and manifest.kind == kind else ():
        if version.directory.rpartition("/")[-1] not in names:
            continue
        try:
            found.append(version.checked(directory, hashes=hashes))
        except ModelFormatError as error:
            _log.warning("a kept version cannot be used: %s", error)
    return found


def resolve(location: AnyPath) -> str:
    """URI of a location; for a location in a publication, the URI in its current version.

    ``out/train`` is the directory ``train`` of the current version of the publication ``out``. Only
    sizes are checked: comparing hashes would read bulk data twice.

    Parameters
    ----------
    location
        A path or a URI.

    Raises
    ------
    ModelFormatError
        The manifest is damaged or of another format, or a file is missing, truncated or not
        listed.
    """
    location = fspath(location)
    try:
        target = Directory.of(location)
    except ConfigError:
        if is_local(location):
            raise
        # Spark supports file systems that Arrow does not.
        return location
    found = _version_of(target)
    if found is not None:
        version, part, _ = found
        return f"{version.uri}/{part}".rstrip("/")
    return target.uri if is_local(location) else location


def files_of(location: AnyPath) -> list[str]:
    """URIs of the files of a location; of a published output, those that its manifest lists.

    Errors are those of `resolve`.

    Parameters
    ----------
    location
        A file, a directory, or a directory of the current version as `resolve` finds it.
    """
    target = Directory.of(location)
    found = _version_of(target)
    if found is not None:
        version, part, manifest = found
        inside = f"{part}/" if part else ""
        return [f"{version.uri}/{name}" for name in manifest.files if name.startswith(inside)]
    if (above := target.parent()) and above[0].has(above[1]):
        return [target.uri]
    return [f"{target.uri}/{name}" for name in target.files()]


def data_files(location: AnyPath) -> list[str]:
    """URIs of the files of rows of a location, sorted.

    Left out are files of names with ``.`` or ``_``, and those beside data, such as README.txt:
    where some files have a suffix of data, all others.

    Parameters
    ----------
    location
        See `files_of`, also for the errors.
    """
    root, paths = opened(location)[0], files_of(location)
    found = sorted(path for path in paths if not _HIDDEN.search(path[len(root) :]))
    if not any(map(_DATA.search, found)):
        return found
    rows = [path for path in found if _DATA.search(path) or _NO_SUFFIX.search(path)]
    if others := sorted({*found} - {*rows}):
        _warn_of(*others)
    return rows


@lru_cache(maxsize=64)
def _warn_of(*others: str) -> None:
    # The files of a source are listed several times.
    _log.warning("left out %d files beside those of rows: %s", len(others), others[:3])


def _version_of(target: Directory) -> tuple[Directory, str, Manifest] | None:
    """The current version, the directory in it and the manifest; None outside of publications."""
    for directory, part in ((target, ""), target.parent() or (target, "")):
        manifest = manifest_of(directory)
        if manifest is not None:
            return manifest.checked(directory, hashes=False), part, manifest
    return None
