"""Delimited text: names, fields and malformed records."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from spark_auc.errors import DataError
from spark_auc.tables.layouts import Layout
from spark_auc.tables.partitions import NO_PARTITIONS
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
# A field in quotes, whatever the separator.
_ENCLOSED = re.compile(r'(?m)(^|(?<=[,;\t|])) *"([^"]|"")*("|\Z)')
_QUOTE, _MARK = b'"', b"\xef\xbb\xbf"
# A first line by which spreadsheets know the separator; and lines that tell it without such a line.
_STATED, _SAMPLED = re.compile(rb"(?i)(?:\xef\xbb\xbf)?sep=([,;\t|])\r?\n"), 20


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
        partitions: pa.Schema = NO_PARTITIONS,
    ) -> DelimitedFiles:
        """List the ranges of files.

        Parameters
        ----------
        paths
            Paths or URIs.
        separator
            The separator. Default: see `separator_in`, of the first lines. A line such as ``sep=;``
            before the header goes before it.
        trimmed
            Whether blanks around fields and names are no part of them.
        layout
            The layout of text without quotes, instead of a separator. Default: files begin with a
            header, all columns are text, and quotes may enclose fields.
        partitions
            Columns whose values are in the names of directories; see `partitions_of`.

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
                    names, own, begin = _header(file.path, separator, trimmed)
                    first, separator = first or names, separator or own
                    if own != separator:
                        raise DataError(
                            f"found the separator {own!r} in {file.path!r}, expected {separator!r} "
                            f"as in {origin}; convert the file"
                        )
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
        return cls(layout.schema if layout else texts, dialect, tuple(ranges), partitions)

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
                columns = [pc.utf8_trim(column, self.dialect.blanks) for column in batch.columns]
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
        try:
            content.decode()
        except UnicodeDecodeError as wrong:
            line = lines_before(path, place) + content.count(b"\n", 0, wrong.start) + 1
            return DataError(
                f"found bytes that are not UTF-8 in line {line} of {path}, expected text in UTF-8; "
                "convert the file"
            )
        return DataError(
            f"found a malformed record in {path!r} ({error}), expected {len(self.names)} fields in "
            "UTF-8; correct or remove it"
        )

    def _wrong(self, record: Sequence[str], names: Sequence[str]) -> str | None:
        """What is wrong with the fields of a record, and what is expected."""
        if len(record) != len(self.names):
            more = ", or add names to the header" if len(record) > len(self.names) else ""
            return f"{len(record)} fields, expected {len(self.names)}; correct or remove it{more}"
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


def separator_in(text: str) -> str:
    """The separator of a header and some rows: one of comma, semicolon, tabulator and ``|``.

    In most rows it occurs as often as in the header, outside of quotes. Of several such separators
    it is the one that is most frequent in the header.
    """
    lines = _ENCLOSED.sub("", text).split("\n")

    def found(separator: str) -> tuple[int, int]:
        first, *others = (line.count(separator) for line in lines)
        return others.count(first) if first else -1, first

    return max(_SEPARATORS, key=found)


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
        pa.array([text.strip(" \t") if text else None], pa.string()).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _header_line(stream: io.BufferedReader, separator: str, trimmed: bool) -> bytes:
    """The next record of a stream."""
    line = stream.readline()

    def is_open() -> bool:
        data = np.frombuffer(line.removeprefix(_MARK), np.uint8)
        return lines_of(data, Dialect(separator, trimmed), enclosed=False).opened >= 0

    while is_open() and (more := stream.readline()):
        line += more
    return line


def _header(path: str, separator: str | None, trimmed: bool) -> tuple[tuple[str, ...], str, int]:
    """Names of the columns of a file, their separator, and the bytes before the first record."""
    with text_stream(path) as stream:
        begin = 0
        if stated := _STATED.fullmatch(first := stream.readline()):
            begin, separator, first = len(first), stated[1].decode(), stream.readline()
        if separator is None:
            lines = b"".join([first, *islice(stream, _SAMPLED)])
            separator = separator_in(lines.decode("utf-8-sig", "replace"))
    with text_stream(path) as stream:
        stream.read(begin)
        line = _header_line(stream, separator, trimmed)
    record = line.removeprefix(_MARK)
    if trimmed:
        record = without_blanks(np.frombuffer(record, np.uint8), separator)[0].tobytes()
    try:
        text = record.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataError(
            f"found text in another encoding than UTF-8 in {path!r}, expected UTF-8; convert the "
            "file"
        ) from None
    if not text:
        raise DataError(f"found no lines in {path!r}, expected a header and rows; check the file")
    try:
        given = next(csv.reader(io.StringIO(text), delimiter=separator))
    except csv.Error as error:
        raise DataError(
            f"found a malformed header in {path!r} ({error}), expected names and line feeds; "
            "correct or convert the file"
        ) from None
    given = [name.strip(Dialect(separator, trimmed).blanks) for name in given]
    if given[0] and 2 * given.count("") > len(given):
        raise DataError(
            f"found {text[:SHOWN]!r} as the header of {path!r}, which names "
            f"{len(given) - given.count('')} of {len(given)} columns, expected their names; remove "
            "the line if it is a title, or complete it"
        )
    return _distinct(given), separator, begin + len(line)


def _distinct(given: Sequence[str]) -> tuple[str, ...]:
    """Distinct names: a second column ``a`` is ``a.1``, as in pandas, wherever it is."""
    others, names, taken = {*given}, list[str](), set[str]()
    for k, name in enumerate(given):
        own = name or f"_c{k}"
        further = (f"{own}.{number}" for number in count(1))
        free = (form for form in further if form not in others | taken)
        names.append(next(free) if own in taken else own)
        taken.add(names[-1])
    return tuple(names)
