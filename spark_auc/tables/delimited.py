"""Delimited text: names, fields and malformed records."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from spark_auc.errors import DataError
from spark_auc.tables.layouts import Layout
from spark_auc.tables.names import folded
from spark_auc.tables.quotes import Dialect, lines_of, without_blanks
from spark_auc.tables.table import Batches
from spark_auc.tables.text_ranges import (
    BATCH_ROWS,
    SHOWN,
    Range,
    TextFiles,
    lines_before,
    listed,
    mark_of,
    ranges_of,
    reading,
    text_stream,
)

_HEXADECIMAL = r"^[ \t]*[+-]?0[xX]"
_SEPARATORS = ",;\t|"
_BLANKS = " \t"
_QUOTE, _MARK = b'"', b"\xef\xbb\xbf"


@dataclass(frozen=True)
class DelimitedFiles(TextFiles):
    """Files of delimited text; columns are text, or of the types of a layout."""

    @classmethod
    def of(
        cls,
        paths: Sequence[str],
        separator: str | None = None,
        *,
        trimmed: bool = False,
        layout: Layout | None = None,
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
        layout
            The layout of text without quotes, instead of a separator. Default: files begin with a
            header, all columns are text, and quotes may enclose fields.

        Raises
        ------
        DataError
            A file is unreadable, has no lines, another header than the first or the layout, or a
            quote that is not closed.
        StorageError
            A store failed.
        """
        files, size = listed(paths)
        first, origin, ranges = None, repr(paths[0]), list[Range]()
        if layout is not None:
            first, origin, separator = layout.names, "the layout", layout.separator
        for file in files:
            with reading(file.path):
                if layout is None or layout.header:
                    names, separator, begin = _header(file.path, separator, trimmed)
                    first = first or names
                    if names != first:
                        raise DataError(
                            f"found the header {[*names]} in {file.path!r}, expected {[*first]} as "
                            f"in {origin}; correct or remove the file"
                        )
                else:
                    begin = mark_of(file.path)
                assert separator is not None
                dialect = Dialect(separator, trimmed, quotes=layout is None)
                ranges += ranges_of(file, begin, dialect, size)
        assert first is not None, "files"
        texts = pa.schema([(name, pa.string()) for name in first])
        return cls(layout.schema if layout else texts, dialect, tuple(ranges))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.schema.names)

    def _batches(self, content: bytes, names: list[str]) -> Batches:
        convert = pv.ConvertOptions(
            column_types=self.schema,
            include_columns=names,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        )
        separator, trimmed, quotes = self.dialect
        data, has_blanks = np.frombuffer(content, np.uint8), False
        if trimmed and (b" " in content or b"\t" in content):
            data, has_blanks = without_blanks(data, separator)
        has_quotes = _QUOTE in content
        if has_quotes and not quotes and _quoted_field(separator).search(content):
            raise pa.ArrowInvalid("quotes")
        read = pv.ReadOptions(
            column_names=[*self.names], use_threads=False, block_size=data.size + 1
        )
        parse = pv.ParseOptions(
            delimiter=separator,
            quote_char='"' if quotes else False,
            newlines_in_values=quotes and has_quotes,
        )
        rows = pv.read_csv(pa.BufferReader(pa.py_buffer(data)), read, parse, convert)
        integers = [n for n in names if pa.types.is_integer(self.schema.field(n).type)]
        if integers and (b"0x" in content or b"0X" in content):
            convert.column_types = dict.fromkeys(integers, pa.string())
            convert.include_columns = integers
            texts = pv.read_csv(pa.BufferReader(pa.py_buffer(data)), read, parse, convert)
            if any(map(_is_hexadecimal, texts.columns)):
                raise pa.ArrowInvalid("a hexadecimal integer")
        for batch in rows.to_batches(BATCH_ROWS):
            if has_blanks:
                columns = [pc.utf8_trim(column, _BLANKS) for column in batch.columns]
                yield pa.RecordBatch.from_arrays(columns, batch.schema.names)
            else:
                yield batch

    def _fault(
        self, path: str, place: int, content: bytes, names: Sequence[str], error: Exception
    ) -> DataError:
        """The error of the first malformed record among those of a place."""
        separator, trimmed, quotes = self.dialect
        reader = csv.reader(
            io.StringIO(content.decode(errors="replace"), newline=""),
            delimiter=separator,
            quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
            skipinitialspace=trimmed,
        )
        lines = 1
        # The limit of a field is that of the standard library.
        with suppress(csv.Error):
            for record in reader:
                if record and (wrong := self._wrong(record, names)):
                    return DataError(
                        f"found the row {separator.join(record)[:SHOWN]!r} in line "
                        f"{lines_before(path, place) + lines} of {path} with {wrong}"
                    )
                lines = reader.line_num + 1
        return DataError(
            f"found a malformed record in {path!r} ({error}), expected {len(self.names)} fields in "
            "UTF-8; correct or remove it"
        )

    def _wrong(self, record: Sequence[str], names: Sequence[str]) -> str | None:
        """What is wrong with the fields of a record, and what is expected."""
        if len(record) != len(self.names):
            return f"{len(record)} fields, expected {len(self.names)}; correct or remove it"
        if not self.dialect.quotes and any(field.startswith('"') for field in record):
            return "quotes, expected fields without quotes; read the file as csv with a header"
        for name, text, field in zip(self.names, record, self.schema, strict=True):
            if name in names and not _is_of(text, field.type):
                noun = "an integer" if pa.types.is_integer(field.type) else "a number"
                return (
                    f"{text[:SHOWN]!r} in column {name!r}, expected {noun}; correct it, or read "
                    "the column as text"
                )
        return None


def separator_in(header: str) -> str:
    """The one of comma, semicolon, tabulator and ``|`` that a line has most outside of quotes."""
    return max(_SEPARATORS, key=re.sub('"[^"]*"', "", header).count)


def separator_of(path: str) -> str:
    """The separator of a file; see `DelimitedFiles.of`, also for the errors."""
    with reading(path):
        return _header(path, None, trimmed=True)[1]


@lru_cache
def _quoted_field(separator: str) -> re.Pattern[bytes]:
    """The beginning of a field that quotes enclose."""
    return re.compile(rb'(?:^|[\r\n%s])"' % re.escape(separator.encode()))


def _is_hexadecimal(texts: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a text is a hexadecimal integer, which Arrow reads and no other reader does."""
    return bool(pc.any(pc.match_substring_regex(texts, _HEXADECIMAL)).as_py())


def _is_of(text: str, kind: pa.DataType) -> bool:
    """Whether a type has the value of a field; an empty field is missing."""
    if pa.types.is_integer(kind) and _is_hexadecimal(pa.array([text])):
        return False
    try:
        pa.array([text.strip(_BLANKS) if text else None], pa.string()).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


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
    with text_stream(path) as stream:
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
