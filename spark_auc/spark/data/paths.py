"""Paths of files for Spark's readers: one that exists is no pattern.

Hadoop reads ``rows[1].csv`` as the pattern of ``rows1.csv``, whether or not a file of that name
exists. It also fails at a colon in the name of a local file, of whose checksums it makes a path.
"""

from __future__ import annotations

import re
from os import fspath

from pyspark.sql import DataFrameReader, SparkSession

from spark_auc.core.types import AnyPath
from spark_auc.errors import DataError
from spark_auc.spark.data.failures import SPARK_FAILURES
from spark_auc.storage.file_systems import is_local
from spark_auc.tables.delimited import separator_in

_PATTERN = re.compile(r"[\\*?\[\]{}]")
# Lines that tell the separator of CSV.
_LINES = 21
# Spark's own option, by which its CSV reader names the files that it has listed.
_LITERAL = {"__globPaths__": "false"}
# The local file system without checksums.
_RAW = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


def reader_of(spark: SparkSession, path: AnyPath) -> DataFrameReader:
    """A reader for the files of a path: of the path itself if it exists, else of the pattern.

    Parameters
    ----------
    spark
        The session, whose file systems tell whether the path exists.
    path
        A file, a directory or a pattern, local or a URI.
    """
    path = fspath(path)
    literal = bool(_PATTERN.search(path)) and _exists(spark, path)
    return spark.read.options(**(_LITERAL if literal else {}), **_local_options(path))


def literal_reader(spark: SparkSession, *paths: str) -> DataFrameReader:
    """A reader for the files of paths that are no patterns, such as those of saved models."""
    some = any(map(_PATTERN.search, paths))
    return spark.read.options(**(_LITERAL if some else {}), **_local_options(*paths))


def stream_path(spark: SparkSession, path: str) -> str:
    """A path for Spark's streams of files, which take no options of a reader."""
    return literal(path) if _PATTERN.search(path) and _exists(spark, path) else path


def literal(path: str) -> str:
    """The path as a pattern of Spark that matches this path alone."""
    return re.sub(_PATTERN, r"\\\g<0>", path)


def separator_of(spark: SparkSession, path: str) -> str:
    """The separator of the first lines of CSV files; see `spark_auc.tables.delimited.separator_in`.

    Parameters
    ----------
    spark
        The session.
    path
        File or directory.

    Raises
    ------
    DataError
        There are no lines.
    """
    lines = [row["value"] for row in reader_of(spark, path).text(path).head(_LINES)]
    if not lines:
        raise DataError(f"found no lines in {path!r}, expected a header and rows; check the file")
    return separator_in("\n".join(lines))


def _local_options(*paths: str) -> dict[str, str]:
    return _RAW if any(is_local(p) and ":" in p.removeprefix("file:") for p in paths) else {}


def _exists(spark: SparkSession, path: str) -> bool:
    try:
        reader = spark.read.options(**_LITERAL, **_local_options(path))
        return bool(reader.text(path).inputFiles())
    except SPARK_FAILURES:
        return False
