"""Local files as tables of this process: Parquet, and delimited text with a header.

`spark_auc.tables.parquet_files` reads Parquet of any file system.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv

from spark_auc.errors import ConfigError, DataError
from spark_auc.tables.arrow_table import BATCH_ROWS, ArrowTable
from spark_auc.tables.names import folded
from spark_auc.tables.parquet_files import parquet_rows
from spark_auc.tables.table import Batches

# Bytes of a part. Parts depend on the files alone, so that results do not depend on threads.
_PART_BYTES = 8 * 2**20
_SEPARATORS = ",;\t|"
_QUOTE, _LINE_FEED = ord('"'), ord("\n")
# Characters of a row in an error.
_SHOWN = 200
_MARK = b"\xef\xbb\xbf"
_TEXT = (".csv", ".tsv", ".txt")


def open_file(path: str | os.PathLike[str], separator: str | None = None) -> ArrowTable:
    """The rows of a file, or of the files of a directory.

    Columns of text files are text; see `spark_auc.tables.text_types.typed`.

    Parameters
    ----------
    path
        A Parquet file, a file of CSV or TSV, or a directory of files of one of these formats.
    separator
        The separator of text files. Default: that of comma, semicolon, tabulator and ``|`` which
        is most frequent in the first line.

    Raises
    ------
    ConfigError
        There is no such file, or it is of another format.
    DataError
        A file is malformed, or the files have other columns than the first.
    """
    root = Path(path)
    files = _files(root)
    suffixes = {file.suffix.lower() for file in files}
    if suffixes == {".parquet"}:
        return parquet_rows([str(file) for file in files])
    if suffixes and suffixes <= {*_TEXT}:
        return _delimited(files, separator)
    raise ConfigError(
        f"found files of {sorted(suffixes) or 'no format'} at {str(root)!r}, expected Parquet, or "
        "CSV or TSV; convert them, or read them by Spark"
    )


def _files(root: Path) -> list[Path]:
    """The file, or the files of the directory; `ConfigError` if there is neither."""
    if not root.exists():
        raise ConfigError(f"found no file {str(root)!r}, expected rows; check the path")
    inside = sorted(root.rglob("*")) if root.is_dir() else [root]
    return [file for file in inside if file.is_file() and file.name[0] not in "._"]


@dataclass(frozen=True)
class _Range:
    """Records of a file that begin within a range of bytes."""

    file: Path
    start: int
    end: int
    quoted: bool


def _delimited(files: Sequence[Path], given: str | None) -> ArrowTable:
    """Text columns of files with one header each."""
    first, separator, _ = _header(files[0], given)
    ranges = list[_Range]()
    for file in files:
        names, _, begin = _header(file, separator)
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


def separator_in(header: str) -> str:
    """The one of comma, semicolon, tabulator and ``|`` that a line has most outside of quotes."""
    return max(_SEPARATORS, key=re.sub('"[^"]*"', "", header).count)


def separator_of(path: str | os.PathLike[str]) -> str:
    """The separator of text files; see `open_file`, also for the errors."""
    files = _files(Path(path))
    return _header(files[0], None)[1]


def _header(file: Path, separator: str | None) -> tuple[list[str], str, int]:
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
    separator = separator or separator_in(text)
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
