"""The file systems of locations: local paths, object stores, and others that Arrow supports.

Credentials of S3 are those of the usual chain: the environment, the files and roles of AWS. None
is part of a URI, and a file system is never sent to another machine: a task makes its own.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from os import fspath

import pyarrow as pa
from pyarrow import fs

from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError, StorageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
# Hadoop's names of S3.
_S3 = ("s3", "s3a", "s3n")
# A request without an answer takes at most _ATTEMPTS times the sum of both seconds, and pauses.
_REQUEST_SECONDS, _CONNECT_SECONDS, _ATTEMPTS = 10.0, 5.0, 8
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
# What decompresses files, by their suffixes.
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
# The suffixes of Hadoop's other codecs.
OTHER_CODECS = (".lz4", ".deflate", ".snappy", ".passthrough")


def scheme_of(location: AnyPath) -> str:
    """The scheme of a location in lower case; "file" for a path."""
    match = _match(fspath(location))
    return match[1].lower() if match else "file"


def is_pattern(location: AnyPath) -> bool:
    """Whether a location, if nothing exists at it, is a pattern of locations."""
    return any(letter in os.fspath(location) for letter in "*?[{")


def compression_of(location: AnyPath) -> str | None:
    """What decompresses a file, by its suffix; None for other files."""
    name = fspath(location).lower()
    return next((kind for end, kind in COMPRESSED.items() if name.endswith(end)), None)


def is_local(location: AnyPath) -> bool:
    """Whether a location is a local path: without a scheme, or with the scheme ``file``."""
    return scheme_of(location) == "file"


def _match(location: str) -> re.Match[str] | None:
    """The scheme of a URI and what follows; None for a path, and for one that exists here."""
    match = _SCHEME.fullmatch(location)
    if match and not match[2].startswith("/") and os.path.lexists(location):
        return None
    return match


def is_store(location: AnyPath) -> bool:
    """Whether a location is in an object store that Arrow reads."""
    return scheme_of(location) in {*_S3, "gs", "gcs", "abfs", "abfss"}


def is_object_store(filesystem: fs.FileSystem) -> bool:
    """Whether a file system is an object store, which has no rename and no append."""
    return filesystem.type_name in {"s3", "gcs", "abfs"}


def opened(location: AnyPath) -> tuple[str, fs.FileSystem, str]:
    """The file system of a location.

    Parameters
    ----------
    location
        A local path, or a URI with one slash or more after the scheme. As in Spark, the path is
        not decoded: ``%20`` stands for three characters.

    Returns
    -------
    str, pyarrow.fs.FileSystem, str
        The URI for Spark, and file system and path for Arrow.

    Raises
    ------
    ConfigError
        Arrow does not support the scheme or cannot connect, or the scheme has no slash after it.
    """
    location = fspath(location)
    match, scheme = _match(location), scheme_of(location)
    rest = match[2] if match else location
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
        return f"file://{path}", fs.LocalFileSystem(), path
    try:
        if scheme in _S3:
            path = rest.strip("/")
            return location.rstrip("/"), _s3(path), path
        address = rest if rest.startswith("//") else f"//{rest}"
        filesystem, path = fs.FileSystem.from_uri(f"{scheme}:{address}")
    except (pa.ArrowInvalid, OSError, ImportError) as error:
        raise ConfigError(
            f"found the location {location!r} ({error}), expected a file, s3, gs or hdfs "
            "location that this machine can access; check the address and its credentials, or "
            "set the local path where it is mounted"
        ) from None
    return location.rstrip("/"), filesystem, path.rstrip("/")


def _s3(path: str) -> fs.FileSystem:
    bucket = path.partition("/")[0]
    if not bucket or re.search(r"[\s?#@:]", bucket) or "?" in path:
        raise pa.ArrowInvalid(
            "no plain bucket and key; set endpoint, region and credentials by the environment "
            "variables of AWS"
        )
    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
    region = next((os.environ[name] for name in _REGIONS if os.environ.get(name)), None)
    if region is None and endpoint is None:
        region = fs.resolve_s3_region(bucket)
    return _client(region, endpoint, _REQUEST_SECONDS, _CONNECT_SECONDS, _ATTEMPTS)


@lru_cache(maxsize=16)
def _client(
    region: str | None, endpoint: str | None, request: float, connect: float, attempts: int
) -> fs.FileSystem:
    """A file system whose connections are used again."""
    return fs.S3FileSystem(
        region=region,
        endpoint_override=endpoint,
        request_timeout=request,
        connect_timeout=connect,
        # The other strategy stops to retry after some faults, in a job of any length.
        retry_strategy=fs.AwsDefaultS3RetryStrategy(max_attempts=attempts),
        # A small file is then one request, which can be repeated.
        allow_delayed_open=True,
    )


def content_of(uri: str, filesystem: fs.FileSystem, path: str) -> bytes:
    """The content of a file.

    Raises
    ------
    StorageError
        The store failed, or its answers are cut short.
    FileNotFoundError
        There is no such file.
    """
    with reached(uri, filesystem):
        for _ in range(_ATTEMPTS):
            with filesystem.open_input_file(path) as file:
                size, content = file.size(), bytes(file.read())
            # Arrow takes an answer that ends within its head for one of no bytes.
            if len(content) == size and (content or not filesystem.get_file_info(path).size):
                return content
        raise OSError(f"{len(content)} bytes of {path}")


@contextmanager
def reached(uri: str, filesystem: fs.FileSystem) -> Iterator[None]:
    """Translate the errors of a store inside the block; those of local files remain.

    Raises
    ------
    StorageError
        The store refused a request, or did not answer.
    FileNotFoundError
        There is no such file.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if isinstance(filesystem, fs.LocalFileSystem):
            raise
        text = " ".join(str(error).split())
        raise StorageError(
            f"found that the store of {uri} failed ({text[:500]}), expected an answer; check the "
            "address, the credentials of this machine and the store, and run again"
        ) from None
