"""Files as tables of this process: Parquet, delimited text, and JSON Lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from spark_auc.errors import ConfigError
from spark_auc.storage.file_systems import COMPRESSED
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.delimited import DelimitedFiles
from spark_auc.tables.json_lines import JsonFiles
from spark_auc.tables.layouts import Layout
from spark_auc.tables.parquet_files import parquet_rows
from spark_auc.tables.partitions import NO_PARTITIONS, partitions_of
from spark_auc.tables.text_ranges import TextFiles

_TEXT, _JSON = (".csv", ".tsv", ".txt"), (".json", ".jsonl", ".ndjson")


def open_file(path: str | os.PathLike[str], *, trimmed: bool = False) -> ArrowTable:
    """The rows of a file, or of the files of a directory, with the columns of its partitions.

    Columns of CSV and TSV are text; see `spark_auc.tables.text_types.typed`. Their separator is
    that of the first lines; see `spark_auc.tables.delimited.separator_in`.

    Parameters
    ----------
    path
        A Parquet file, a file of CSV, TSV or JSON Lines, or a directory of files of one of these
        formats.
    trimmed
        Whether blanks around the fields of CSV and TSV are no part of them.

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
    files = [str(file) for file in inside if file.is_file() and file.name[0] not in "._"]
    suffixes, partitions = {_suffix(file) for file in files}, partitions_of(str(root), files)
    if suffixes == {".parquet"}:
        return parquet_rows(files, partitions=partitions)
    if suffixes and suffixes <= {*_TEXT}:
        return text_rows(files, trimmed=trimmed, partitions=partitions)
    if suffixes and suffixes <= {*_JSON}:
        return json_rows(files, partitions)
    raise ConfigError(
        f"found files of {sorted(suffixes) or 'no format'} at {str(path)!r}, expected Parquet, CSV "
        "or TSV, or JSON Lines; convert them, or read them by Spark"
    )


def text_rows(
    files: Sequence[str],
    separator: str | None = None,
    *,
    trimmed: bool = False,
    layout: Layout | None = None,
    partitions: pa.Schema = NO_PARTITIONS,
) -> ArrowTable:
    """The rows of files of delimited text; see `DelimitedFiles.of`, also for the errors."""
    return _rows(
        DelimitedFiles.of(files, separator, trimmed=trimmed, layout=layout, partitions=partitions)
    )


def json_rows(files: Sequence[str], partitions: pa.Schema = NO_PARTITIONS) -> ArrowTable:
    """The rows of files of JSON Lines; see `JsonFiles.of`, also for the errors."""
    return _rows(JsonFiles.of(files, partitions))


def _rows(text: TextFiles) -> ArrowTable:
    return ArrowTable(text.columns, len(text.ranges), text.read)


def _suffix(file: str) -> str:
    """The suffix of a file before that of its compression, in lower case."""
    stem, suffix = os.path.splitext(file.lower())
    return os.path.splitext(stem)[1] if suffix in COMPRESSED else suffix
