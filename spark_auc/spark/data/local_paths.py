"""Files of a DataFrame that tasks may read themselves."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame

# These settings change the files that Spark reads.
_SETTINGS = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")


class UnsupportedFilesError(Exception):
    """Tasks may read other rows than Spark from these files; the message gives the reason."""


def check_not_cached(df: DataFrame) -> None:
    """`UnsupportedFilesError` for rows that Spark has cached."""
    level = df.storageLevel
    if level.useMemory or level.useDisk:
        raise UnsupportedFilesError("the rows are cached")


def local_paths(df: DataFrame, *settings: str) -> list[str]:
    """Sorted paths of the files of a DataFrame.

    Parameters
    ----------
    df
        The rows.
    settings
        Further settings of Spark that must not be set.

    Raises
    ------
    UnsupportedFilesError
        The rows are cached, files are not on the local file system, or a setting is on that changes
        the rows that Spark reads.
    """
    check_not_cached(df)
    conf = df.sparkSession.conf
    on = [key for key in (*settings, *_SETTINGS) if str(conf.get(key, "false")).lower() != "false"]
    if on:
        raise UnsupportedFilesError(f"{', '.join(on)} is set")
    files = [urlsplit(file) for file in df.inputFiles()]
    if {file.scheme for file in files} != {"file"}:
        raise UnsupportedFilesError("the rows do not come from files of the local file system")
    return sorted(unquote(file.path) for file in files)
