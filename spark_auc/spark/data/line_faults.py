"""The file, number and text of a malformed line, searched for after a failure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from spark_auc.errors import LineError
from spark_auc.features.lines import split
from spark_auc.features.raw_columns import Text
from spark_auc.spark.data.arrow_tasks import mapped_batches
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.layouts import LINE, Layout
from spark_auc.spark.data.lines import source_of
from spark_auc.spark.data.paths import reader_of
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.text_numbers import numbers

_NUMBERS = {name: pa.int64() for name in ("start", "lines", "row")}
_BLOCK = pa.schema({"file": pa.string(), **_NUMBERS, "line": pa.binary()})


@contextmanager
def line_errors(df: DataFrame) -> Iterator[None]:
    """Add file and number of the line to errors about malformed lines inside the block.

    Tasks know neither, so the text is read again after such an error.

    Parameters
    ----------
    df
        Rows of `spark_auc.spark.data.lines.delimited`, or any others.

    Raises
    ------
    LineError
        A line is malformed.
    """
    try:
        with translated():
            yield
    except LineError as failure:
        if message := fault(df):
            raise LineError(message) from failure
        raise


def fault(df: DataFrame) -> str | None:
    """Text, file and number of the first malformed line, by one pass over the files.

    Parameters
    ----------
    df
        Rows of `spark_auc.spark.data.lines.delimited`.

    Returns
    -------
    str or None
        The error; None if the column of lines is gone, or all lines are valid.
    """
    source = source_of(df)
    if source is None:
        return None
    _, layout, path = source
    lines = reader_of(df.sparkSession, path).text(path)
    place = "_metadata.file_path", "_metadata.file_block_start"
    blocks = mapped_batches(lines.select("value", *place), _Search(layout), _BLOCK).toArrow()
    before, file = 0, None
    for block in sorted(blocks.to_pylist(), key=lambda b: (b["file"], b["start"])):
        before, file = before if block["file"] == file else 0, block["file"]
        if block["row"] is not None:
            line = np.frombuffer(block["line"], np.uint8)
            text = Text.of_offsets(np.array([0, line.size]), line)
            return _error(text, layout, f"line {before + block['row'] + 1} of {file}")
        before += block["lines"]
    return None


def parts_of_files(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.Array]]:
    """Path and start of each part of a file, and its lines in a batch.

    Parameters
    ----------
    batch
        Lines, paths of their files, and starts of the parts.
    """
    if not batch.num_rows:
        return
    lines, files, starts = batch.columns
    codes = files.dictionary_encode().indices.to_numpy(), starts.to_numpy()
    changes = sum((np.diff(code) != 0 for code in codes), np.zeros(len(lines) - 1, bool))
    ends = [*(np.flatnonzero(changes) + 1).tolist(), len(lines)]
    for first, end in pairwise([0, *ends]):
        yield (files[first].as_py(), starts[first].as_py()), lines[first:end]


@dataclass
class _Block:
    """A part of a file: its number of lines, and number and text of the first malformed one."""

    lines: int = 0
    row: int | None = None
    line: bytes | None = None


@dataclass(frozen=True)
class _Search:
    """Count the lines of each part of a file, and find the first malformed one."""

    layout: Layout

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks = defaultdict[tuple[str, int], _Block](_Block)
        for batch in batches:
            for place, lines in parts_of_files(batch):
                self._add(blocks[place], lines)
        found = [
            {"file": file, "start": start} | asdict(block)
            for (file, start), block in blocks.items()
        ]
        yield pa.RecordBatch.from_pylist(found, _BLOCK)

    def _add(self, block: _Block, lines: pa.Array) -> None:
        if block.row is None:
            text = cast(Text, raw_column(LINE, lines))
            rows = np.arange(len(lines))
            if self.layout.header:
                rows = rows[pc.not_equal(lines, self.layout.first_line).to_numpy(False)]

            def fails(count: int) -> bool:
                some = rows[:count]
                part = Text(text.starts[some], text.ends[some], text.data)
                return _error(part, self.layout) is not None

            if fails(rows.size):
                row = rows[bisect_left(range(1, rows.size), True, key=fails)]
                block.row = block.lines + int(row)
                block.line = text.data[text.starts[row] : text.ends[row]].tobytes()
        block.lines += len(lines)


def _error(lines: Text, layout: Layout, place: str | None = None) -> str | None:
    """The error of the first malformed line, or None."""
    try:
        fields = split(lines, layout.separator, len(layout.names), place)
        for name, text in zip(layout.names, fields, strict=True):
            if (kind := layout.type_of(name)) != "text":
                numbers(name, text, kind, place)
    except LineError as failure:
        return str(failure)
    return None
