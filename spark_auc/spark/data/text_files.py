"""Read delimited text inside the tasks, by parts of files.

Lines are those of Spark's text reader: they end at a line feed, a carriage return or both, and a
byte order mark at the start of a file is no part of its first line. Spark reads compressed files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from spark_auc.errors import DataError
from spark_auc.features.lines import contiguous, field
from spark_auc.features.raw_columns import Text
from spark_auc.features.text_lines import first_break, lines_within
from spark_auc.serving.arrow_columns import raw_column
from spark_auc.spark.data.layouts import Layout
from spark_auc.spark.data.lines import field_number, is_whole_source, source_of
from spark_auc.spark.data.listed_files import (
    ListedFile,
    UnsupportedFilesError,
    check_same,
    local_paths,
)
from spark_auc.spark.data.text_numbers import numbers

# Spark's default number of rows in a batch.
_BATCH_ROWS = 10_000
# Bytes of a part. Parts depend on the files alone, so that results do not depend on the cluster.
_PART_BYTES = 8 * 2**20
_MOST_PARTS = 10_000
# Bytes to read at once beyond a part, for the end of its last line.
_REST = 2**16
# The suffixes of Hadoop's codecs.
_COMPRESSED = (".gz", ".bz2", ".deflate", ".lz4", ".snappy", ".zst", ".passthrough")
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class FilePart:
    """The lines of a file that begin within a range of bytes.

    Parameters
    ----------
    file
        The file.
    start, end
        The range, without ``end``.
    """

    file: ListedFile
    start: int
    end: int

    def lines(self) -> Text:
        """The lines, with bytes of their own.

        Raises
        ------
        OSError
            The file is unreadable.
        DataError
            The file changed since it was listed.
        """
        path = self.file.path
        check_same(path, self.file.is_unchanged())
        # The byte before the range tells whether a line begins at its start.
        before = max(self.start - 1, 0)
        with open(path, "rb") as file:
            file.seek(before)
            read = file.read(min(self.end + 1, self.file.size) - before)
            begin = self.start - before
            if not self.start and read.startswith(_MARK):
                begin = len(_MARK)
            lines = lines_within(_bytes(read), begin, self.end - before, opens=not self.start)
            if lines.starts.size and lines.ends[-1] == len(read):
                read += _rest_of_line(file)
                lines = lines._replace(data=_bytes(read))
                lines.ends[-1] = len(read)
        # Another process may have overwritten the file during the read.
        check_same(path, self.file.is_unchanged())
        return contiguous(lines)


@dataclass(frozen=True)
class TextScan:
    """Reads lines of text files, and some of their fields.

    Parameters
    ----------
    parts
        The parts of the files.
    layout
        The layout of the lines.
    fields
        Numbers of the fields that are columns of their own, and the Arrow types of these columns.
    """

    parts: tuple[FilePart, ...]
    layout: Layout
    fields: tuple[tuple[int, pa.DataType], ...]

    @classmethod
    def of(cls, df: DataFrame, names: Sequence[str], types: Sequence[DataType]) -> TextScan:
        """The scan of columns of a DataFrame.

        Parameters
        ----------
        df
            Rows of `spark_auc.spark.data.lines.delimited`.
        names
            The column of lines, and fields of the lines.
        types
            Spark's types of the text and the mark of the layout, which are the column of lines, and
            of the fields; further ones are ignored.

        Raises
        ------
        UnsupportedFilesError
            The rows are not all lines of uncompressed files of the local file system, or a column
            is no field of them.
        """
        source = source_of(df)
        if source is None or names[0] != source[0]:
            raise UnsupportedFilesError("it splits the lines")
        layout = source[1]
        found = [field_number(df.schema[name], layout) for name in names[1:]]
        if None in found:
            raise UnsupportedFilesError(f"it computes a column of {list(names[1:])}")
        paths = local_paths(df)
        if compressed := [path for path in paths if path.endswith(_COMPRESSED)]:
            raise UnsupportedFilesError(f"{compressed[0]} is compressed")
        if not is_whole_source(df):
            raise UnsupportedFilesError("the rows are not all lines of the files")
        try:
            files = [ListedFile.of(path) for path in paths]
        except OSError as error:
            raise UnsupportedFilesError(f"a file is unreadable ({error})") from None
        size = max(_PART_BYTES, -(-sum(file.size for file in files) // _MOST_PARTS))
        parts = tuple(
            FilePart(file, start, min(start + size, file.size))
            for file in files
            for start in range(0, file.size, size)
        )
        if not parts:
            raise UnsupportedFilesError("the files are empty")
        kinds = map(to_arrow_type, types[2 : 2 + len(found)])
        return cls(parts, layout, tuple(zip(cast(list[int], found), kinds, strict=True)))

    def __len__(self) -> int:
        """Number of parts."""
        return len(self.parts)

    def __str__(self) -> str:
        """The parts, for the log."""
        return f"{len(self)} parts of {len({part.file for part in self.parts})} text files"

    def read(self, numbers_of_parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read parts.

        Parameters
        ----------
        numbers_of_parts
            Batches whose first column is the index of a part in ``parts``.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            Text of the lines, mark of their layout, the fields, and ``place``: the index of the
            part.

        Raises
        ------
        DataError
            A file is unreadable, or changed since it was listed; a field has text of another type.
        """
        for batch in numbers_of_parts:
            for number in batch.column(0).to_pylist():
                lines = _array(self._lines(self.parts[number]))
                if self.layout.header:
                    kept = pc.not_equal(lines, self.layout.first_line)
                    lines = lines.filter(kept) if kept.false_count else lines
                for start in range(0, len(lines), _BATCH_ROWS):
                    yield self._batch(lines.slice(start, _BATCH_ROWS), number)

    def _lines(self, part: FilePart) -> Text:
        try:
            return part.lines()
        except OSError as error:
            raise DataError(
                f"found the unreadable file {part.file.path} ({error}); expected a text file that "
                "every machine can read; replace or remove it"
            ) from error

    def _batch(self, lines: pa.Array, part: int) -> pa.RecordBatch:
        mark, place = (np.full(len(lines), n) for n in (self.layout.mark, part))
        text = cast(Text, raw_column("line", lines))
        fields = [self._field(text, number, kind) for number, kind in self.fields]
        columns = [lines, pa.array(mark, pa.int32()), *fields, pa.array(place)]
        return pa.RecordBatch.from_arrays(columns, [f"c{k}" for k in range(len(columns))])

    def _field(self, lines: Text, number: int, kind: pa.DataType) -> pa.Array:
        name = self.layout.names[number]
        text = field(lines, self.layout.separator, number, len(self.layout.names))
        if (type_ := self.layout.type_of(name)) == "text":
            return _array(contiguous(text), text.starts < text.ends).cast(kind)
        values, valid = numbers(name, text, type_)
        return pa.array(values, mask=None if valid is None else ~valid).cast(kind, safe=False)


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def _rest_of_line(file: BinaryIO) -> bytes:
    """The bytes up to the next end of a line or the end of the file."""
    blocks, size = list[bytes](), _REST
    while block := file.read(size):
        at = first_break(_bytes(block))
        if at >= 0:
            blocks.append(block[:at])
            break
        blocks.append(block)
        size *= 2
    return b"".join(blocks)


def _array(text: Text, valid: np.ndarray | None = None) -> pa.Array:
    """The Arrow array of text whose bytes are one after another."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    offsets = np.append(text.starts, text.data.size)
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(text.data)]
    return pa.Array.from_buffers(pa.large_string(), text.starts.size, buffers)
