"""CSV files whose quoted values have newlines: Spark reads each by one task."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_auc.errors import LineError
from spark_auc.features.quotes import Quotes
from spark_auc.features.raw_columns import Text
from spark_auc.spark.data.arrow_tasks import mapped_batches
from spark_auc.spark.data.layouts import LINE
from spark_auc.spark.data.line_faults import parts_of_files
from spark_auc.spark.data.paths import reader_of
from spark_auc.tables.arrow_columns import raw_column

_log = logging.getLogger(__name__)

_PLACE = "_metadata.file_path", "_metadata.file_block_start"
# The quotes of a block whose first line begins outside of quotes, and inside of them.
_FLAGS = {name: pa.bool_() for name in ("is_open", "spans", "is_broken")}
_QUOTES = pa.struct(_FLAGS | {"opened": pa.int64()})
_BLOCK = pa.schema(
    {
        "file": pa.string(),
        **{name: pa.int64() for name in ("start", "lines")},
        **dict.fromkeys(("outside", "inside"), _QUOTES),
    }
)
# Options of Spark's reader that change what a quote or a line is.
_OTHERS = {"quote", "linesep", "encoding", "charset", "comment", "unescapedquotehandling"}
# Whether a quote after spaces begins a quoted value; by default it is text.
_SPACED = "ignoreleadingwhitespace"
# Separators as Spark's options write them.
_WRITTEN = {"\\t": "\t", "\\\\": "\\"}
# Options of all of Spark's readers that say which files are read.
_FILES = {
    "pathglobfilter",
    "recursivefilelookup",
    "modifiedbefore",
    "modifiedafter",
    "ignorecorruptfiles",
    "ignoremissingfiles",
}


def multi_line(spark: SparkSession, path: str, options: Mapping[str, str]) -> dict[str, str]:
    """Spark's option ``multiLine`` as the quotes of CSV files need it, unless it is set.

    Parameters
    ----------
    spark, path, options
        See `has_newlines_in_quotes`.

    Raises
    ------
    LineError
        A quote is not closed.
    """
    if "multiline" in map(str.lower, options):
        return {}
    spans = has_newlines_in_quotes(spark, path, options)
    if spans:
        _log.info("a quoted value has a newline: one task reads each file of %r", path)
    return {"multiLine": str(spans).lower()}


@contextmanager
def parsed_once(rows: DataFrame, options: Mapping[str, str]) -> Iterator[None]:
    """Keep the rows of files that Spark must not divide from their first use to the block's end.

    Parameters
    ----------
    rows
        The rows as they are read.
    options
        Options of Spark's reader.
    """
    multi = any(k.lower() == "multiline" and v.lower() == "true" for k, v in options.items())
    if not multi or rows.storageLevel != StorageLevel.NONE:
        yield
        return
    rows.persist()
    try:
        yield
    finally:
        rows.unpersist()


def has_newlines_in_quotes(spark: SparkSession, path: str, options: Mapping[str, str]) -> bool:
    """Whether a quoted value of CSV files has a newline, by one pass over the lines.

    Parameters
    ----------
    spark
        The session.
    path
        File, directory or pattern.
    options
        Options of Spark's CSV reader. Files with other quotes or ends of lines are not searched.

    Raises
    ------
    LineError
        A quote is not closed.
    """
    known = {key.lower(): value for key, value in options.items()}
    separator = known.get("sep", known.get("delimiter", ","))
    separator, escape = _WRITTEN.get(separator, separator), known.get("escape", "\\")
    if _OTHERS & set(known) or not all(len(c) == 1 and c.isascii() for c in (separator, escape)):
        return False
    files = {key: value for key, value in known.items() if key in _FILES}
    lines = reader_of(spark, path).options(**files).text(path)
    if lines.where(F.contains("value", F.lit('"'))).isEmpty():
        return False
    search = _Search(separator, escape, known.get(_SPACED, "").lower() == "true")
    blocks = mapped_batches(lines.select("value", *_PLACE), search, _BLOCK).toArrow()
    before, file, last, spans = 0, "", Quotes(is_open=False), False
    for block in sorted(blocks.to_pylist(), key=lambda b: (b["file"], b["start"])):
        if block["file"] != file:
            _check_closed(last, file)
            before, file, last = 0, block["file"], Quotes(is_open=False)
        quotes = Quotes(**block["inside" if last.is_open else "outside"])
        opened = before + quotes.opened if quotes.opened >= 0 else last.opened
        last = quotes._replace(opened=opened)
        if last.is_broken:
            _check_closed(last, file)
        spans |= last.spans
        before += block["lines"]
    _check_closed(last, file)
    return spans


def _check_closed(quotes: Quotes, file: str) -> None:
    if quotes.is_open or quotes.is_broken:
        raise LineError(
            f"found a quote that is not closed in line {quotes.opened + 1} of {file}, expected "
            "a closing quote before a separator or the end of a line; correct this line"
        )


@dataclass
class _Block:
    """The lines of a part of a file."""

    lines: int = 0
    outside: Quotes = field(default_factory=lambda: Quotes(is_open=False))
    inside: Quotes = field(default_factory=lambda: Quotes(is_open=True))


@dataclass(frozen=True)
class _Search:
    """The quotes of each part of a file."""

    separator: str
    escape: str
    spaced: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks = defaultdict[tuple[str, int], _Block](_Block)
        for batch in batches:
            for place, lines in parts_of_files(batch):
                block, text = blocks[place], cast(Text, raw_column(LINE, lines))
                known = block.lines, self.separator, self.escape
                block.outside = block.outside.after(text, *known, spaced=self.spaced)
                block.inside = block.inside.after(text, *known, spaced=self.spaced)
                block.lines += len(lines)
        found = [
            {"file": file, "start": start, "lines": block.lines}
            | {"outside": block.outside._asdict(), "inside": block.inside._asdict()}
            for (file, start), block in blocks.items()
        ]
        yield pa.RecordBatch.from_pylist(found, _BLOCK)
