"""The manifest of a publication: its current version, and the files of that version."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
    model_validator,
)
from pydantic_core import from_json

from spark_auc.errors import ModelFormatError
from spark_auc.publication.directory import Directory

MANIFEST = "manifest.json"
VERSIONS = "versions"
_FORMAT: Literal[1] = 1
# Larger files are checked by size alone: hashing would read them once more.
_LARGEST_HASHED = 64 * 2**20
_VERSION = re.compile(rf"{VERSIONS}/[0-9]{{8}}T[0-9]{{12}}-[0-9a-f]{{8}}")


def _inside(name: str) -> str:
    if "\0" in name or not all(part not in {"", ".", ".."} for part in name.split("/")):
        raise ValueError("a path outside the version")
    return name


def _version(name: str) -> str:
    if not _VERSION.fullmatch(name):
        raise ValueError("not the name of a version")
    return name


Version = Annotated[str, AfterValidator(_version)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


class PublishedFile(_Part):
    """Size in bytes and SHA-256 of a file; large files have no hash."""

    bytes: StrictInt = Field(ge=0)
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None

    @model_validator(mode="after")
    def _hashed(self) -> PublishedFile:
        if self.sha256 is None and self.bytes <= _LARGEST_HASHED:
            raise ValueError("a small file without hash")
        return self


Files = dict[Annotated[str, AfterValidator(_inside)], PublishedFile]


class Superseded(_Part):
    """A version that was current until the time ``until``, with its files if it can be restored."""

    directory: Version
    until: AwareDatetime
    files: Files = Field(default_factory=dict)


class Manifest(_Part):
    """Content of ``manifest.json``.

    Parameters
    ----------
    format
        Version of the manifest's format.
    kind
        Kind of the output: "model", "data", "scores" or "evaluation".
    directory
        Directory of the current version, relative to the publication.
    files
        All files of the version, by name relative to its directory.
    superseded
        Earlier versions whose directories may still exist, latest first.
    """

    format: Literal[1]
    kind: str
    directory: Version
    files: Files = Field(min_length=1)
    superseded: list[Superseded] = Field(default_factory=list)

    @classmethod
    def of(
        cls, publication: Directory, kind: str, directory: str, superseded: list[Superseded]
    ) -> Manifest:
        """Make the manifest of the files in a version's directory.

        Parameters
        ----------
        publication
            Directory of the publication.
        kind, directory, superseded
            See `Manifest`.
        """
        version = publication / directory
        files = {
            name: PublishedFile(bytes=size, sha256=_hash(version, name, size))
            for name, size in sorted(version.files().items())
            if not _hidden(name)
        }
        return cls(
            format=_FORMAT, kind=kind, directory=directory, files=files, superseded=superseded
        )

    @classmethod
    def parse(cls, content: bytes, publication: Directory) -> Manifest:
        """Parse the content of ``manifest.json``.

        Parameters
        ----------
        content
            The bytes of the file.
        publication
            Directory of the publication, for messages.

        Raises
        ------
        ModelFormatError
            The content is damaged, of another format, or names a path outside the publication.
        """
        try:
            fields: Any = from_json(content, allow_inf_nan=False)
            number = fields.get("format") if isinstance(fields, dict) else None
            if isinstance(number, int) and number != _FORMAT:
                raise ModelFormatError(
                    f"found a publication of format {number} at {publication.uri}, expected "
                    f"{_FORMAT}; publish again with this version of spark_auc"
                )
            return cls.model_validate(fields)
        except (ValidationError, ValueError) as error:
            reason = (
                "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
                if isinstance(error, ValidationError)
                else str(error)
            )
            raise ModelFormatError(
                f"found a damaged {MANIFEST} in {publication.uri} ({reason}), expected the file "
                "of a job of this package; publish again"
            ) from None

    def to_bytes(self) -> bytes:
        """The content of the file."""
        # Publications that keep no versions have the format of before: no files of superseded ones.
        is_bare = not any(version.files for version in self.superseded)
        left_out: Any = {"superseded": {"__all__": {"files"}}} if is_bare else None
        return self.model_dump_json(indent=2, exclude=left_out).encode() + b"\n"

    def restorable(self) -> list[Manifest]:
        """Manifests of the superseded versions whose files are known, the latest first."""
        return [
            Manifest(format=_FORMAT, kind=self.kind, directory=v.directory, files=v.files)
            for v in self.superseded
            if v.files
        ]

    def checked(self, publication: Directory, *, hashes: bool) -> Directory:
        """Check the files of the version, and return its directory.

        Parameters
        ----------
        publication
            Directory of the publication.
        hashes
            Whether to compare hashes in addition to sizes, which reads the files.

        Raises
        ------
        ModelFormatError
            A file is missing, truncated, changed or outside the publication, or, except on an
            object store, not listed.
        """
        version = publication / self.directory
        sizes = version.files()
        for name, expected in self.files.items():
            size = sizes.pop(name, -1)
            if size != expected.bytes:
                content = "no file" if size < 0 else f"{size} bytes"
                raise ModelFormatError(
                    f"found {content} at {version.uri}/{name}, expected {expected.bytes} bytes; "
                    "restore it or publish again"
                )
            if publication.local:
                _check_inside(publication, f"{self.directory}/{name}")
            if hashes and expected.sha256 and _hash(version, name, size) != expected.sha256:
                raise ModelFormatError(
                    f"found a changed file {version.uri}/{name}, expected its published content; "
                    "restore it or publish again"
                )
        # On an object store an attempt of a task may still end, and readers follow the manifest.
        unlisted = sorted(name for name in sizes if not _hidden(name))
        if unlisted and not publication.object_store:
            raise ModelFormatError(
                f"found the file {version.uri}/{unlisted[0]}, which {MANIFEST} does not list; "
                "remove it or publish again"
            )
        return version

    def expired(self, grace: float, keep: int = 0) -> list[str]:
        """Directories of versions superseded at least ``grace`` seconds ago, but the last ones.

        Parameters
        ----------
        grace
            Seconds for which readers may use a superseded version.
        keep
            Number of superseded versions to keep, whatever their age.
        """
        now = datetime.now(UTC)
        return [
            version.directory
            for version in self.superseded[keep:]
            if (now - version.until).total_seconds() >= grace
            and version.directory != self.directory
        ]


def _hidden(name: str) -> bool:
    """Whether the name starts with a dot, as of file managers' files, which Spark ignores."""
    return posixpath.basename(name).startswith(".")


def _hash(version: Directory, file: str, size: int) -> str | None:
    if size > _LARGEST_HASHED:
        return None
    content = version.read(file)
    if len(content) != size:
        raise ModelFormatError(
            f"found {len(content)} bytes at {version.uri}/{file}, expected {size}; make sure that "
            "no other process writes it, and run the job again"
        )
    return hashlib.sha256(content).hexdigest()


def _check_inside(publication: Directory, name: str) -> None:
    expected = f"{os.path.realpath(publication.path).rstrip('/')}/{name}"
    if (target := os.path.realpath(expected)) != expected:
        raise ModelFormatError(
            f"found a link from {expected} to {target}, expected a file, since a publication "
            "contains no links; publish again"
        )


def content_of(directory: Directory) -> bytes | None:
    """The bytes of the manifest of a directory; None if there is none."""
    return directory.read(MANIFEST) if directory.has(MANIFEST) else None


def manifest_of(directory: Directory) -> Manifest | None:
    """The manifest of a directory, if there is one; see `Manifest.parse`."""
    content = content_of(directory)
    return None if content is None else Manifest.parse(content, directory)
