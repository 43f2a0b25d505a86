"""Text in ranges of whole records, which tasks of any engine read."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_auc.core.parallel import mapped
from spark_auc.errors import DataError
from spark_auc.storage.file_systems import compression_of, is_local, opened, reached
from spark_auc.storage.listed_files import ListedFile, check_same, input_file
from spark_auc.tables.partitions import NO_PARTITIONS, values_of, with_partitions
from spark_auc.tables.quotes import Dialect, Lines, lines_of
from spark_auc.tables.table import Batches

# Bytes of a range. Ranges depend on the files alone, so that results do not depend on tasks.
_RANGE_BYTES = 8 * 2**20
_MOST_RANGES = 10_000
# Bytes to read at once for the end of a line.
_LINE_BYTES = 2**16
# Requests at once to a store, each of which waits for it.
REQUESTS = 16
_QUOTE, _LINE_FEED, _MARK = b'"', b"\n", b"\xef\xbb\xbf"
# Rows of a batch, and characters of a row in an error.
BATCH_ROWS, SHOWN = 10_000, 200


class Range(NamedTuple):
    """The records of a file that begin within a range of bytes; all of a compressed file."""

    file: ListedFile
    start: int
    end: int


@dataclass(frozen=True)
class TextFiles(ABC):
    """Files of text with the same columns.

    Parameters
    ----------
    schema
        The columns within the files.
    dialect
        Where records end.
    ranges
        The ranges of the files, in their order.
    partitions
        Columns whose values are in the names of directories.
    """

    schema: pa.Schema
    dialect: Dialect
    ranges: tuple[Range, ...]
    partitions: pa.Schema = NO_PARTITIONS

    @property
    def columns(self) -> pa.Schema:
        """All columns."""
        return with_partitions(self.schema, self.partitions)

    def read(self, number: int, names: Sequence[str]) -> Batches:
        """The records of a range.

        Parameters
        ----------
        number
            The number of the range.
        names
            The columns to make of them.

        Raises
        ------
        DataError
            The file is unreadable, changed since it was listed, or has a malformed record.
        StorageError
            A store failed.
        """
        part = self.ranges[number]
        path = part.file.path
        values = values_of(path, self.partitions)
        # Any column has the number of rows.
        own = [n for n in dict.fromkeys(names) if n not in values] or self.schema.names[:1]
        with reading(path):
            check_same(path, part.file.is_unchanged())
            for place, content in contents(part, self.dialect):
                try:
                    for batch in self._batches(content, own):
                        rows = batch.num_rows
                        columns = [
                            pa.repeat(values[name], rows) if name in values else batch.column(name)
                            for name in names
                        ]
                        yield pa.RecordBatch.from_arrays(columns, [*names])
                except pa.ArrowInvalid as error:
                    raise self._fault(path, place, content, own, error) from None
            # Another process may have overwritten the file during the read.
            check_same(path, part.file.is_unchanged())

    @abstractmethod
    def _batches(self, content: bytes, names: list[str]) -> Batches:
        """Columns of whole records; `ArrowInvalid` if one of them is malformed."""

    @abstractmethod
    def _fault(
        self, path: str, place: int, content: bytes, names: Sequence[str], error: Exception
    ) -> DataError:
        """The error of the first malformed record among those of a place."""


def listed(paths: Sequence[str]) -> tuple[tuple[ListedFile, ...], int]:
    """Files as they are now, and the bytes of each range of them."""
    files = list[ListedFile]()
    for path in paths:
        with reading(path):
            files.append(ListedFile.of(path))
    total = sum(file.size for file in files)
    return tuple(files), max(_RANGE_BYTES, -(-total // _MOST_RANGES))


@lru_cache(maxsize=64)
def ranges_of(file: ListedFile, begin: int, dialect: Dialect, size: int) -> tuple[Range, ...]:
    """Ranges of whole records of about a size, from some bytes on."""
    if compression_of(file.path):
        return (Range(file, begin, file.size),)

    def lines_from(place: int) -> tuple[Range, Lines]:
        """The lines that begin within ``size`` bytes from a place, and records as they begin."""
        start = place if place == begin else _after_feed(file, place)
        lines = Range(file, start, max(start, _after_feed(file, place + size)))
        return lines, _quoted(lines, dialect, enclosed=False)

    threads = None if is_local(file.path) else REQUESTS
    bounds, opened = list[int](), -1
    for lines, quotes in mapped(lines_from, range(begin, file.size, size), threads):
        found = quotes if opened < 0 else _quoted(lines, dialect, enclosed=True)
        if lines.start < lines.end and found.first >= 0:
            bounds.append(lines.start + found.first)
        # Quotes that enclose the beginning are those of an earlier line.
        if found.opened < 0 or opened < 0 or found.opened > 0:
            opened = -1 if found.opened < 0 else lines.start + found.opened
    if opened >= 0:
        line = 1 + lines_before(file.path, opened)
        raise DataError(
            f"found a quote that is not closed in line {line} of {file.path}, expected its end; "
            "correct the file"
        )
    return tuple(Range(file, a, b) for a, b in pairwise([*bounds, file.size]))


def _quoted(lines: Range, dialect: Dialect, *, enclosed: bool) -> Lines:
    if not dialect.quotes:
        return Lines(0, lines.end - lines.start, -1)
    content = _bytes(lines)
    if _QUOTE not in content:
        return Lines(-1, 0, 0) if enclosed else Lines(0, len(content), -1)
    return lines_of(np.frombuffer(content, np.uint8), dialect, enclosed=enclosed)


def _after_feed(file: ListedFile, place: int) -> int:
    """The place after the first line feed from a place on, or that after the file."""
    while place < file.size:
        content = _bytes(Range(file, place, min(place + _LINE_BYTES, file.size)))
        if (feed := content.find(_LINE_FEED)) >= 0:
            return place + feed + 1
        place += len(content)
    return file.size


def contents(part: Range, dialect: Dialect) -> Iterator[tuple[int, bytes]]:
    """Places and bytes of the whole records of a range, in several blocks of a compressed file."""
    path = part.file.path
    if not compression_of(path):
        yield part.start, _bytes(part)
        return
    with text_stream(path) as stream:
        place = len(stream.read(part.start))
        rest, opened = b"", -1
        while block := stream.read(_RANGE_BYTES):
            rest += block
            data = np.frombuffer(rest, np.uint8)
            if dialect.quotes:
                _, end, opened = lines_of(data, dialect, enclosed=False)
            else:
                end = rest.rfind(_LINE_FEED) + 1
            if end:
                yield place, rest[:end]
                place, rest = place + end, rest[end:]
        if opened >= 0:
            raise DataError(
                f"found a quote that is not closed in {path!r}, expected its end; correct the file"
            )
        if rest:
            yield place, rest


def lines_before(path: str, place: int) -> int:
    """Number of line feeds before a place of a text."""
    count = 0
    with text_stream(path) as stream:
        while place and (block := stream.read(min(place, _RANGE_BYTES))):
            count, place = count + block.count(_LINE_FEED), place - len(block)
    return count


def mark_of(path: str) -> int:
    """Bytes of the mark of byte order at the beginning of a text."""
    with text_stream(path) as stream:
        return len(_MARK) if stream.read(len(_MARK)) == _MARK else 0


@contextmanager
def reading(path: str) -> Iterator[None]:
    """`DataError` for a local file that cannot be read inside the block."""
    try:
        yield
    except (OSError, EOFError) as error:
        raise DataError(
            f"found the unreadable file {path!r} ({error}), expected text; replace or remove it"
        ) from error


@contextmanager
def text_stream(path: str) -> Iterator[io.BufferedReader]:
    """The text of a file from its beginning, decompressed."""
    _, filesystem, key = opened(path)
    compression = compression_of(path)
    with reached(path, filesystem), filesystem.open_input_stream(key, compression) as stream:
        yield io.BufferedReader(stream)


def _bytes(part: Range) -> bytes:
    with input_file(part.file.path) as file:
        return bytes(file.read_at(part.end - part.start, part.start))
