"""Parquet files as their footers tell them, and whether Arrow reads from them what Spark does."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as kinds

Wanted: TypeAlias = Sequence[tuple[str, pa.DataType]]

_MAGIC = b"PAR1"
_TAIL = 8
# Reading footers is waiting, where the files lie on a disk of the network.
_THREADS = 16
# Values that Arrow and Spark read to the same bits.
_NUMBERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
_SAME = frozenset([pa.bool_(), pa.string(), *_NUMBERS])
_LISTS = (".list.element", ".list.item")


class UnlikeError(Exception):
    """Why Arrow may read other rows from files than Spark does."""


@dataclass(frozen=True)
class ListedFile:
    """A file, and how it looked when it was listed.

    Parameters
    ----------
    path
        On this machine's file system.
    size
        In bytes.
    modified
        Time of change, in nanoseconds since 1970.
    footer
        Hash of the footer.
    """

    path: str
    size: int
    modified: int
    footer: bytes

    def is_there(self) -> bool:
        """Whether size and time of change are still the same."""
        found = os.stat(self.path)
        return (found.st_size, found.st_mtime_ns) == (self.size, self.modified)


@dataclass(frozen=True)
class RowGroup:
    """One row group of a file, and its number of rows."""

    file: ListedFile
    number: int
    rows: int


def opened(path: str) -> tuple[ListedFile, pq.FileMetaData]:
    """A file as it is now, and its metadata.

    Raises
    ------
    OSError, pyarrow.ArrowException
        It is no whole Parquet file.
    UnlikeError
        It is encrypted.
    """
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        file.seek(max(0, status.st_size - _TAIL))
        tail = file.read()
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] == b"PARE":
            raise UnlikeError(f"{path} is encrypted")
        if tail[4:] != _MAGIC or length + 2 * len(_MAGIC) + 4 > status.st_size:
            raise OSError("no footer at the end")
        file.seek(-_TAIL - length, os.SEEK_END)
        footer = file.read(length)
    metadata = pq.read_metadata(pa.BufferReader(_MAGIC + footer + tail))
    if metadata.serialized_size != length:
        # A signature follows where columns are encrypted, which Arrow cannot even be asked about.
        raise UnlikeError(f"{path} has encrypted columns")
    digest = hashlib.blake2b(footer, digest_size=16).digest()
    return ListedFile(path, status.st_size, status.st_mtime_ns, digest), metadata


def row_groups(paths: Sequence[str], wanted: Wanted) -> tuple[RowGroup, ...]:
    """The row groups of files whose columns are all as wanted.

    Parameters
    ----------
    paths
        The files.
    wanted
        Names of the columns to be read, and the Arrow types of the columns as Spark knows them.

    Raises
    ------
    UnlikeError
        A file is unreadable or encrypted, or has a column otherwise.
    """

    def of(path: str) -> list[RowGroup]:
        file, metadata = _metadata(path)
        _check(path, metadata, wanted)
        rows = (metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
        return [RowGroup(file, k, count) for k, count in enumerate(rows) if count]

    with ThreadPoolExecutor(min(_THREADS, len(paths))) as pool:
        return tuple(group for groups in pool.map(of, paths) for group in groups)


def _metadata(path: str) -> tuple[ListedFile, pq.FileMetaData]:
    try:
        return opened(path)
    except (OSError, pa.ArrowException) as error:
        raise UnlikeError(f"{path} is unreadable ({error})") from None


def _check(path: str, metadata: pq.FileMetaData, wanted: Wanted) -> None:
    try:
        found = metadata.schema.to_arrow_schema()
    except pa.ArrowException as error:
        raise UnlikeError(f"{path} has a schema that Arrow cannot read ({error})") from None
    names, folded = set(found.names), Counter(name.lower() for name in found.names)
    leaves = (metadata.schema.column(k) for k in range(len(metadata.schema)))
    lists = {leaf.path for leaf in leaves if leaf.max_repetition_level}
    older = {path for path in lists if not path.endswith(_LISTS)}
    for name, expected in wanted:
        if name not in names or folded[name.lower()] != 1:
            raise UnlikeError(f"{path} has no column of the name {name!r} alone")
        kind = found.field(name).type
        if not _alike(kind, expected):
            raise UnlikeError(
                f"{path} has column {name!r} of {kind}, which Arrow may read otherwise than Spark "
                f"reads {expected}"
            )
        if any(leaf == name or leaf.startswith(f"{name}.") for leaf in older):
            raise UnlikeError(f"{path} has lists of an older form in column {name!r}")


def _alike(found: pa.DataType, expected: pa.DataType) -> bool:
    """Whether Arrow's values are Spark's, once what pyarrow notes of its own is undone."""
    if kinds.is_dictionary(found):
        return _alike(found.value_type, expected)
    if kinds.is_struct(expected):
        return (
            kinds.is_struct(found)
            and [f.name for f in found] == [f.name for f in expected]
            and all(_alike(f.type, e.type) for f, e in zip(found, expected, strict=True))
        )
    if kinds.is_list(expected):
        a_list = kinds.is_list(found) or kinds.is_large_list(found)
        return (a_list or kinds.is_fixed_size_list(found)) and _alike(
            found.value_type, expected.value_type
        )
    return expected in _SAME and (
        found == expected or (kinds.is_string(expected) and kinds.is_large_string(found))
    )
