"""Read delimited text inside the tasks, by parts of files.

Lines are those of Spark's text reader: they end at a line feed, a carriage return or both, and a
byte order mark at the start of a file is no part of its first line. Spark reads compressed files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from spark_auc.errors import DataError
from spark_auc.features.raw_columns import Text
from spark_auc.features.text_lines import first_break, lines_within
from spark_auc.spark.data.layouts import Layout
from spark_auc.spark.data.lines import is_whole_source, source_of
from spark_auc.spark.data.local_paths import UnsupportedFilesError, local_paths
from spark_auc.storage.listed_files import ListedFile, check_same
from spark_auc.tables.arrow_columns import own_text

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
        """The lines.

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
        return lines


@dataclass(frozen=True)
class TextScan:
    """Reads lines of text files.

    Parameters
    ----------
    parts
        The parts of the files.
    layout
        The layout of the lines.
    """

    parts: tuple[FilePart, ...]
    layout: Layout

    @classmethod
    def of(cls, df: DataFrame) -> TextScan:
        """The scan of the column of lines of a DataFrame.

        Parameters
        ----------
        df
            Rows of `spark_auc.spark.data.lines.delimited`.

        Raises
        ------
        UnsupportedFilesError
            The rows are not all lines of uncompressed files of the local file system.
        """
        source = source_of(df)
        assert source is not None, "rows with a column of lines"
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
        return cls(parts, source[1])

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
            Text of the lines, mark of their layout, and ``place``: the index of the part.

        Raises
        ------
        DataError
            A file is unreadable, or changed since it was listed.
        """
        for batch in numbers_of_parts:
            for number in batch.column(0).to_pylist():
                lines = own_text(self._lines(self.parts[number]))
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
        columns = [lines, pa.array(mark, pa.int32()), pa.array(place)]
        return pa.RecordBatch.from_arrays(columns, [f"c{k}" for k in range(len(columns))])


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
