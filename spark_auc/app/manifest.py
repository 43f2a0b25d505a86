"""What a publication is: the directory of its version, and every file there."""

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

from spark_auc.app.directory import Directory
from spark_auc.errors import ModelFormatError

MANIFEST = "manifest.json"
VERSIONS = "versions"
_FORMAT: Literal[1] = 1
# Bulk data are checked by size alone: hashing them would read them all once more.
_LARGEST_HASHED = 64 * 2**20
_VERSION = re.compile(rf"{VERSIONS}/[0-9]{{8}}T[0-9]{{12}}-[0-9a-f]{{8}}")


def _inside(name: str) -> str:
    if "\0" in name or not all(part not in {"", ".", ".."} for part in name.split("/")):
        raise ValueError("a path that leads outside")
    return name


def _version(name: str) -> str:
    if not _VERSION.fullmatch(name):
        raise ValueError("no version of a publication")
    return name


Version = Annotated[str, AfterValidator(_version)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


class PublishedFile(_Part):
    """Size and hash of a file."""

    bytes: StrictInt = Field(ge=0)
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None

    @model_validator(mode="after")
    def _hashed(self) -> PublishedFile:
        if self.sha256 is None and self.bytes <= _LARGEST_HASHED:
            raise ValueError("a small file without its hash")
        return self


class Superseded(_Part):
    """A version that was current, and until when."""

    directory: Version
    until: AwareDatetime


class Manifest(_Part):
    """What is published.

    Parameters
    ----------
    kind
        "model", "data", ...
    directory
        Of the version, relative to the publication.
    files
        All of the version's, by their name relative to it.
    superseded
        Versions named by manifests before, latest first, as far as they may still be there.
    """

    format: Literal[1]
    kind: str
    directory: Version
    files: dict[Annotated[str, AfterValidator(_inside)], PublishedFile] = Field(min_length=1)
    superseded: list[Superseded] = Field(default_factory=list)

    @classmethod
    def of(
        cls, publication: Directory, kind: str, directory: str, superseded: list[Superseded]
    ) -> Manifest:
        """That of the files there are."""
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
        """From the bytes of the file in a publication's directory.

        Raises
        ------
        ModelFormatError
            They are damaged, of another format, or name what lies outside.
        """
        try:
            found: Any = from_json(content, allow_inf_nan=False)
            number = found.get("format") if isinstance(found, dict) else None
            if isinstance(number, int) and number != _FORMAT:
                raise ModelFormatError(
                    f"found a publication of format {number} at {publication.uri}, expected "
                    f"{_FORMAT}; publish again with this version of spark_auc"
                )
            return cls.model_validate(found)
        except (ValidationError, ValueError) as error:
            reason = (
                "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
                if isinstance(error, ValidationError)
                else str(error)
            )
            raise ModelFormatError(
                f"found a damaged {MANIFEST} in {publication.uri} ({reason}), expected one that a "
                "job of this package wrote; publish again"
            ) from None

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    def checked(self, publication: Directory, *, hashes: bool) -> Directory:
        """The version's directory, which holds the files listed, and no others.

        Parameters
        ----------
        publication
            Directory of the manifest.
        hashes
            Whether to read and compare the files, beside their sizes.

        Raises
        ------
        ModelFormatError
            A file is missing, truncated, changed, not listed, or lies outside.
        """
        version = publication / self.directory
        sizes = version.files()
        for name, expected in self.files.items():
            size = sizes.pop(name, -1)
            if size != expected.bytes:
                found = "no file" if size < 0 else f"{size} bytes"
                raise ModelFormatError(
                    f"found {found} at {version.uri}/{name}, expected {expected.bytes} bytes; "
                    "restore it or publish again"
                )
            if publication.local:
                _check_inside(publication, f"{self.directory}/{name}")
            if hashes and expected.sha256 and _hash(version, name, size) != expected.sha256:
                raise ModelFormatError(
                    f"found a changed file {version.uri}/{name}, expected it as it was published; "
                    "restore it or publish again"
                )
        if others := sorted(name for name in sizes if not _hidden(name)):
            raise ModelFormatError(
                f"found the file {version.uri}/{others[0]}, which {MANIFEST} does not list; remove "
                "it or publish again"
            )
        return version

    def expired(self, grace: float) -> list[str]:
        """Versions superseded longer ago than so many seconds."""
        now = datetime.now(UTC)
        return [
            each.directory
            for each in self.superseded
            if (now - each.until).total_seconds() >= grace and each.directory != self.directory
        ]


def _hidden(name: str) -> bool:
    """Whether Spark would not read it; file managers leave such behind."""
    return posixpath.basename(name).startswith(".")


def _hash(version: Directory, file: str, size: int) -> str | None:
    if size > _LARGEST_HASHED:
        return None
    return hashlib.sha256(version.read(file)).hexdigest()


def _check_inside(publication: Directory, name: str) -> None:
    expected = f"{os.path.realpath(publication.path).rstrip('/')}/{name}"
    if (found := os.path.realpath(expected)) != expected:
        raise ModelFormatError(
            f"found a link from {expected} to {found}, expected the file itself, for a publication "
            "has no links; publish again"
        )
