"""Local files as tables of this process: Parquet, and delimited text with a header."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

from spark_auc.errors import ConfigError, DataError
from spark_auc.tables.arrow_table import BATCH_ROWS, ArrowTable
from spark_auc.tables.names import folded
from spark_auc.tables.table import Batches
from spark_auc.tables.text_types import TYPES, WORDS, converted, text_types

# Bytes of a part. Parts depend on the files alone, so that results do not depend on threads.
_PART_BYTES = 8 * 2**20
_SEPARATORS = ",;\t|"
_QUOTE, _LINE_FEED = ord('"'), ord("\n")
# Characters of a row in an error.
_SHOWN = 200
_MARK = b"\xef\xbb\xbf"
_TEXT = (".csv", ".tsv", ".txt")


def open_file(path: str | os.PathLike[str], words: str | None = None) -> ArrowTable:
    """The rows of a file, or of the files of a directory.

    Text columns have the types that all their values fit; see `spark_auc.tables.text_types`.

    Parameters
    ----------
    path
        A Parquet file, a file of CSV or TSV, or a directory of files of one of these formats.
    words
        Name of a column of text files that is not read as booleans or times.

    Raises
    ------
    ConfigError
        There is no such file, or it is of another format.
    DataError
        A file is malformed, or the files have other columns than the first.
    """
    root = Path(path)
    if not root.exists():
        raise ConfigError(f"found no file {str(root)!r}, expected rows; check the path")
    inside = sorted(root.rglob("*")) if root.is_dir() else [root]
    files = [file for file in inside if file.is_file() and file.name[0] not in "._"]
    suffixes = {file.suffix.lower() for file in files}
    if suffixes == {".parquet"}:
        return _parquet(files)
    if suffixes and suffixes <= {*_TEXT}:
        return typed(_delimited(files), words)
    raise ConfigError(
        f"found files of {sorted(suffixes) or 'no format'} at {str(root)!r}, expected Parquet, or "
        "CSV or TSV; convert them, or read them by Spark"
    )


def typed(table: ArrowTable, words: str | None = None) -> ArrowTable:
    """The table with its text columns as the types that all their values fit; see `open_file`."""
    types = {
        name: "text" if words and folded(name) == folded(words) and kind in WORDS else kind
        for name, kind in text_types(table).items()
    }
    fields = [
        field.with_type(TYPES[kind].arrow)
        if (kind := types.get(field.name, "text")) in TYPES
        else field
        for field in table.schema
    ]
    source = table.read

    def read(part: int, names: Sequence[str]) -> Batches:
        for batch in source(part, names):
            arrays = [
                converted(column, types.get(name, "text"))
                for column, name in zip(batch.columns, names, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, [*names])

    return replace(table, schema=pa.schema(fields), read=read)


def _parquet(files: Sequence[Path]) -> ArrowTable:
    """Row groups of files of one schema."""
    try:
        schemas = [pq.read_schema(file) for file in files]
        groups = [(f, k) for f in files for k in range(pq.read_metadata(f).num_row_groups)]
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"found an unreadable Parquet file ({error}), expected complete files; replace or "
            "remove it"
        ) from None
    schema = schemas[0].remove_metadata()
    for file, other in zip(files, schemas, strict=True):
        if not schema.equals(other.remove_metadata()):
            raise DataError(
                f"found other columns or types in {str(file)!r} than in {str(files[0])!r}, "
                "expected the same; convert or remove the file"
            )

    def read(part: int, names: Sequence[str]) -> Batches:
        file, group = groups[part]
        with pq.ParquetFile(file) as parquet:
            distinct = list(dict.fromkeys(names))
            for batch in parquet.iter_batches(
                BATCH_ROWS, row_groups=[group], columns=distinct, use_threads=False
            ):
                yield pa.RecordBatch.from_arrays([batch.column(name) for name in names], [*names])

    return ArrowTable(schema, len(groups), read, cheap=True)


@dataclass(frozen=True)
class _Range:
    """Records of a file that begin within a range of bytes."""

    file: Path
    start: int
    end: int
    quoted: bool


def _delimited(files: Sequence[Path]) -> ArrowTable:
    """Text columns of files with one header each."""
    first, ranges, separator = _header(files[0])[0], list[_Range](), _header(files[0])[1]
    for file in files:
        names, _, begin = _header(file)
        if names != first:
            raise DataError(
                f"found the header {names} in {str(file)!r}, expected {first} as in "
                f"{str(files[0])!r}; correct or remove the file"
            )
        ranges += _ranges(file, begin)
    schema = pa.schema([(name, pa.string()) for name in first])

    def read(part: int, names: Sequence[str]) -> Batches:
        rows = _rows(ranges[part], first, separator, tuple(dict.fromkeys(names)))
        for batch in rows.to_batches(BATCH_ROWS):
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in names], [*names])

    return ArrowTable(schema, len(ranges), read)


@lru_cache(64)
def _header(file: Path) -> tuple[list[str], str, int]:
    """Names of the columns of a file, their separator, and where the first record begins."""
    with file.open("rb") as opened:
        mark = len(_MARK) if opened.read(len(_MARK)) == _MARK else 0
        opened.seek(mark)
        line = opened.readline()
        while line.count(b'"') % 2 and (more := opened.readline()):
            line += more
    try:
        text = line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataError(
            f"found text in another encoding than UTF-8 in {str(file)!r}, expected UTF-8; convert "
            "the file"
        ) from None
    if not text:
        raise DataError(f"found no lines in {str(file)!r}, expected a header and rows")
    outside = re.sub('"[^"]*"', "", text)
    separator = max(_SEPARATORS, key=outside.count)
    given = next(csv.reader(io.StringIO(text), delimiter=separator))
    seen = Counter(map(folded, given))
    # The names that Spark gives to columns without a name, and to those of one name.
    names = [
        f"{name}{k}" if seen[folded(name)] > 1 and name else name or f"_c{k}"
        for k, name in enumerate(given)
    ]
    return names, separator, mark + len(line)


def _ranges(file: Path, begin: int) -> list[_Range]:
    """Ranges of whole records: a record ends at a line feed outside of quotes."""
    size = file.stat().st_size
    if size <= begin:
        return []
    data = np.memmap(file, np.uint8, "r")
    bounds, quotes = [begin], 0
    for start in range(begin, size, _PART_BYTES):
        block = np.asarray(data[start : start + _PART_BYTES])
        inside = block == _QUOTE
        if start > begin:
            # The first record of the block: after a line feed with an even number of quotes before.
            ends = np.flatnonzero(block == _LINE_FEED)
            before = quotes + np.searchsorted(np.flatnonzero(inside), ends)
            whole = ends[before % 2 == 0]
            if whole.size:
                bounds.append(start + int(whole[0]) + 1)
        quotes += int(inside.sum())
    if quotes % 2:
        last = int(np.flatnonzero(data == _QUOTE)[-1])
        line = int((data[:last] == _LINE_FEED).sum()) + 1
        raise DataError(
            f"found a quote that is not closed in line {line} of {file}, expected its end; correct "
            "the file"
        )
    bounds = [*dict.fromkeys(bounds), size]
    return [
        _Range(file, a, b, bool((data[a:b] == _QUOTE).any())) for a, b in pairwise(bounds) if b > a
    ]


def _rows(part: _Range, names: Sequence[str], separator: str, wanted: Sequence[str]) -> pa.Table:
    with part.file.open("rb") as opened:
        opened.seek(part.start)
        content = opened.read(part.end - part.start)
    types: Mapping[str, pa.DataType] = dict.fromkeys(names, pa.string())
    wrong = list[pv.InvalidRow]()

    def note(row: pv.InvalidRow) -> str:
        wrong.append(row)
        return "error"

    try:
        return pv.read_csv(
            pa.BufferReader(content),
            pv.ReadOptions(
                column_names=list(names), use_threads=False, block_size=len(content) + 1
            ),
            pv.ParseOptions(
                delimiter=separator, newlines_in_values=part.quoted, invalid_row_handler=note
            ),
            pv.ConvertOptions(
                column_types=types,
                include_columns=list(wanted),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
    except pa.ArrowInvalid as error:
        if wrong:
            raise DataError(
                f"found the row {wrong[0].text[:_SHOWN]!r} in {part.file} with "
                f"{wrong[0].actual_columns} fields, expected {len(names)}; correct or remove it"
            ) from None
        raise DataError(
            f"found a malformed record in {str(part.file)!r} ({error}), expected {len(names)} "
            "fields in UTF-8; correct or remove it"
        ) from None
