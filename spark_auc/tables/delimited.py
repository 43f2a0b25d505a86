"""Delimited text with a header, in ranges of whole records, which tasks of any engine read."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from spark_auc.core.parallel import mapped
from spark_auc.errors import DataError
from spark_auc.storage.file_systems import is_local, opened, reached
from spark_auc.storage.listed_files import ListedFile, check_same, input_file
from spark_auc.tables.names import folded
from spark_auc.tables.quotes import Dialect, Lines, lines_of, without_blanks
from spark_auc.tables.table import Batches

# Bytes of a range. Ranges depend on the files alone, so that results do not depend on tasks.
_RANGE_BYTES = 8 * 2**20
_BATCH_ROWS = 10_000
# Bytes to read at once for the end of a line.
_LINE_BYTES = 2**16
# Requests at once to a store, each of which waits for it.
_REQUESTS = 16
_SEPARATORS = ",;\t|"
_BLANKS = " \t"
_QUOTE, _LINE_FEED, _MARK = b'"', b"\n", b"\xef\xbb\xbf"
# Characters of a row in an error.
_SHOWN = 200
# What decompresses files, by their suffixes. Each of them is one range.
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
# The suffixes of Hadoop's other codecs.
OTHER_CODECS = (".lz4", ".deflate", ".snappy", ".passthrough")


class Range(NamedTuple):
    """The records of a file that begin within a range of bytes; all of a compressed file."""

    file: ListedFile
    start: int
    end: int


@dataclass(frozen=True)
class DelimitedFiles:
    """Files of text with the same header, all columns of which are text.

    Parameters
    ----------
    names
        Names of the columns.
    dialect
        How fields are written.
    ranges
        The ranges of the files, in their order.
    """

    names: tuple[str, ...]
    dialect: Dialect
    ranges: tuple[Range, ...]

    @classmethod
    def of(
        cls, paths: Sequence[str], separator: str | None = None, *, trimmed: bool = False
    ) -> DelimitedFiles:
        """List the ranges of files.

        Parameters
        ----------
        paths
            Paths or URIs.
        separator
            The separator. Default: see `separator_in`, of the first line.
        trimmed
            Whether blanks around fields and names are no part of them.

        Raises
        ------
        DataError
            A file is unreadable, has no lines, another header than the first, or a quote that is
            not closed.
        StorageError
            A store failed.
        """
        first, ranges = None, list[Range]()
        for path in paths:
            with _reading(path):
                file = ListedFile.of(path)
                names, separator, begin = _header(path, separator, trimmed)
                first = first or names
                if names != first:
                    raise DataError(
                        f"found the header {[*names]} in {path!r}, expected {[*first]} as in "
                        f"{paths[0]!r}; correct or remove the file"
                    )
                ranges += _ranges(file, begin, Dialect(separator, trimmed), _RANGE_BYTES)
        assert first is not None, "files"
        assert separator is not None
        return cls(first, Dialect(separator, trimmed), tuple(ranges))

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return pa.schema([(name, pa.string()) for name in self.names])

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
            The file is unreadable, changed since it was listed, or has a record of another number
            of fields.
        StorageError
            A store failed.
        """
        part, wrong = self.ranges[number], list[pv.InvalidRow]()
        path = part.file.path
        with _reading(path):
            check_same(path, part.file.is_unchanged())
            try:
                for batch in self._batches(part, [*dict.fromkeys(names)], wrong):
                    columns = [batch.column(name) for name in names]
                    yield pa.RecordBatch.from_arrays(columns, [*names])
            except pa.ArrowInvalid as error:
                raise self._fault(path, wrong, error) from None
            # Another process may have overwritten the file during the read.
            check_same(path, part.file.is_unchanged())

    def _batches(self, part: Range, names: list[str], wrong: list[pv.InvalidRow]) -> Batches:
        def note(row: pv.InvalidRow) -> str:
            wrong.append(row)
            return "error"

        convert = pv.ConvertOptions(
            column_types=self.schema,
            include_columns=names,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        )
        separator, trimmed = self.dialect
        for content in self._contents(part):
            data, has_blanks = np.frombuffer(content, np.uint8), False
            if trimmed and (b" " in content or b"\t" in content):
                data, has_blanks = without_blanks(data, separator)
            read = pv.ReadOptions(
                column_names=[*self.names], use_threads=False, block_size=data.size + 1
            )
            parse = pv.ParseOptions(
                delimiter=separator,
                newlines_in_values=_QUOTE in content,
                invalid_row_handler=note,
            )
            rows = pv.read_csv(pa.BufferReader(pa.py_buffer(data)), read, parse, convert)
            for batch in rows.to_batches(_BATCH_ROWS):
                if has_blanks:
                    columns = [pc.utf8_trim(column, _BLANKS) for column in batch.columns]
                    yield pa.RecordBatch.from_arrays(columns, batch.schema.names)
                else:
                    yield batch

    def _contents(self, part: Range) -> Iterator[bytes]:
        """The bytes of whole records, in several blocks of a compressed file."""
        path = part.file.path
        if not compression_of(path):
            yield _bytes(part)
            return
        with _stream(path) as stream:
            _header_line(stream, *self.dialect)
            rest, opened = b"", -1
            while block := stream.read(_RANGE_BYTES):
                rest += block
                data = np.frombuffer(rest, np.uint8)
                _, end, opened = lines_of(data, self.dialect, enclosed=False)
                if end:
                    yield rest[:end]
                    rest = rest[end:]
            if opened >= 0:
                raise DataError(
                    f"found a quote that is not closed in {path!r}, expected its end; correct the "
                    "file"
                )
            if rest:
                yield rest

    def _fault(self, path: str, wrong: Sequence[pv.InvalidRow], error: Exception) -> DataError:
        if wrong:
            return DataError(
                f"found the row {wrong[0].text[:_SHOWN]!r} in {path} with "
                f"{wrong[0].actual_columns} fields, expected {len(self.names)}; correct or remove "
                "it"
            )
        return DataError(
            f"found a malformed record in {path!r} ({error}), expected {len(self.names)} fields in "
            "UTF-8; correct or remove it"
        )


def separator_in(header: str) -> str:
    """The one of comma, semicolon, tabulator and ``|`` that a line has most outside of quotes."""
    return max(_SEPARATORS, key=re.sub('"[^"]*"', "", header).count)


def separator_of(path: str) -> str:
    """The separator of a file; see `DelimitedFiles.of`, also for the errors."""
    with _reading(path):
        return _header(path, None, trimmed=True)[1]


def compression_of(path: str) -> str | None:
    """What decompresses a file, by its suffix; None for other files."""
    return next((kind for end, kind in COMPRESSED.items() if path.lower().endswith(end)), None)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """`DataError` for a local file that cannot be read inside the block."""
    try:
        yield
    except (OSError, EOFError) as error:
        raise DataError(
            f"found the unreadable file {path!r} ({error}), expected text; replace or remove it"
        ) from error


@contextmanager
def _stream(path: str) -> Iterator[io.BufferedReader]:
    """The text of a file from its beginning, decompressed."""
    _, filesystem, key = opened(path)
    compression = compression_of(path)
    with reached(path, filesystem), filesystem.open_input_stream(key, compression) as stream:
        yield io.BufferedReader(stream)


def _bytes(part: Range) -> bytes:
    with input_file(part.file.path) as file:
        return bytes(file.read_at(part.end - part.start, part.start))


def _header_line(stream: io.BufferedReader, separator: str | None, trimmed: bool) -> bytes:
    """The first record of a stream."""
    line = stream.readline()
    separator = separator or separator_in(line.decode(errors="replace"))

    def is_open() -> bool:
        data = np.frombuffer(line.removeprefix(_MARK), np.uint8)
        return lines_of(data, Dialect(separator, trimmed), enclosed=False).opened >= 0

    while is_open() and (more := stream.readline()):
        line += more
    return line


def _header(path: str, separator: str | None, trimmed: bool) -> tuple[tuple[str, ...], str, int]:
    """Names of the columns of a file, their separator, and the bytes before the first record."""
    with _stream(path) as stream:
        line = _header_line(stream, separator, trimmed)
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataError(
            f"found text in another encoding than UTF-8 in {path!r}, expected UTF-8; convert the "
            "file"
        ) from None
    if not text:
        raise DataError(f"found no lines in {path!r}, expected a header and rows")
    separator = separator or separator_in(text)
    given = next(csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=trimmed))
    given = [name.strip(_BLANKS) for name in given] if trimmed else given
    seen = Counter(map(folded, given))
    # The names that Spark gives to columns without a name, and to those of one name.
    names = tuple(
        f"{name}{k}" if seen[folded(name)] > 1 and name else name or f"_c{k}"
        for k, name in enumerate(given)
    )
    return names, separator, len(line)


@lru_cache(maxsize=64)
def _ranges(file: ListedFile, begin: int, dialect: Dialect, size: int) -> tuple[Range, ...]:
    """Ranges of whole records of about a size."""
    if compression_of(file.path):
        return (Range(file, begin, file.size),)

    def lines_from(place: int) -> tuple[Range, Lines]:
        """The lines that begin within ``size`` bytes from a place, and records as they begin."""
        start = place if place == begin else _after_feed(file, place)
        lines = Range(file, start, max(start, _after_feed(file, place + size)))
        return lines, _quoted(lines, dialect, enclosed=False)

    threads = None if is_local(file.path) else _REQUESTS
    bounds, opened = list[int](), -1
    for lines, quotes in mapped(lines_from, range(begin, file.size, size), threads):
        found = quotes if opened < 0 else _quoted(lines, dialect, enclosed=True)
        if lines.start < lines.end and found.first >= 0:
            bounds.append(lines.start + found.first)
        # Quotes that enclose the beginning are those of an earlier line.
        if found.opened < 0 or opened < 0 or found.opened > 0:
            opened = -1 if found.opened < 0 else lines.start + found.opened
    if opened >= 0:
        line = 1 + sum(
            _bytes(Range(file, start, min(start + size, opened))).count(_LINE_FEED)
            for start in range(0, opened, size)
        )
        raise DataError(
            f"found a quote that is not closed in line {line} of {file.path}, expected its end; "
            "correct the file"
        )
    return tuple(Range(file, a, b) for a, b in pairwise([*bounds, file.size]))


def _quoted(lines: Range, dialect: Dialect, *, enclosed: bool) -> Lines:
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
