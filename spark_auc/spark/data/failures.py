"""Translate errors of Spark to errors of this package."""

from __future__ import annotations

import os
import platform
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from spark_auc import errors

# Classic Spark raises Py4JJavaError for JVM exceptions that have no error class.
SPARK_FAILURES = (PySparkException, Py4JJavaError)

_RAISED = re.compile(r"spark_auc\.errors\.(\w+): (.*?)(?: SQLSTATE: \w+.*)?$", re.MULTILINE)
_UNREADABLE = re.compile(
    r"FAILED_READ_FILE\.?\w*\]? Encountered error while reading file (\S+?)\.? "
)
_OTHER_NAMES = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: (.*?)\s+Schema: (.*?)\s+Expected: "
    r".*?CSV file: (\S+)",
    re.DOTALL,
)
_OTHER_WIDTH = re.compile(r"Header length: (\d+), schema size: (\d+)\s+CSV file: (\S+)")
_NO_COLUMN = re.compile(
    r"\[(?:COLUMN_ALREADY_EXISTS|UNSUPPORTED_TIME_TYPE|PARQUET_TYPE_ILLEGAL)\] (.*?)(?: SQLSTATE|$)"
)
_OTHER_FIELDS = re.compile(r"Malformed CSV record: (.*?) SQLSTATE", re.DOTALL)
_PYTHON_ERROR = re.compile(r"[\w.]*(Error|Exception|Interrupt): (?!.*Exception:)")
_CAUSE = re.compile(r"Caused by: (.*)")
# The classes of Java, Netty and Arrow. Arrow's buffers lie outside the heap, and their limit is
# the heap's.
_NO_MEMORY = re.compile(r"\w*OutOf(?:Direct)?Memory(?:Error|Exception)\b")
# Of the Python of Spark's workers.
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_NO_PACKAGE = re.compile(r"\[(?:PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION)\] (\w+) >= ")
_OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH.*? different version: ([\d.]+)")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]*)"[^:]*: (?:Exec failed, )?error=')
_NO_FILE_SYSTEM = re.compile(
    r'No FileSystem for scheme "?([\w+.-]+)|Class (org\.apache\.hadoop\.fs\.\S+) not found'
)
_FULL = "No space left on device"
_ENDED = (
    "found that the JVM of Spark's driver ended during the job, expected it to run until the end; "
    "if its log has an OutOfMemoryError, raise spark.driver.memory"
)


@contextmanager
def translated() -> Iterator[None]:
    """Translate Spark's exceptions inside the block.

    Raises
    ------
    SparkAUCError
        An executor raised it: the same class with the same message.
    DataError
        Spark cannot read a file, or a CSV file has other columns than expected.
    ConfigError
        The workers run another Python than the driver, or none, or Spark cannot read a column.
    ResourceError
        Spark's JVM ended, or a task found no memory.
    StorageError
        A disk of a task or of the driver is full.
    """
    try:
        try:
            yield
        except SPARK_FAILURES as failure:
            _raise_known(failure)
            raise
    except (ConnectionError, Py4JError) as failure:
        # An error of Java has a trace; a JVM that is ending answers without one.
        is_of_java = isinstance(failure, Py4JJavaError) or "Trace:" in str(failure)
        if is_of_java or not _of_py4j(failure):
            raise
        raise errors.ResourceError(_ENDED) from failure
    except OSError as failure:
        _raise_full(failure)
        raise


def _raise_full(failure: Exception) -> None:
    """Raise `StorageError` if a failure is for want of room on a disk."""
    if _FULL in str(failure):
        raise errors.StorageError(
            f"found a full disk ({first_line(failure)}), expected room for the output and for "
            "Spark's files of shuffles; make room, or set another place: the path of the output, "
            "or spark.local.dir (on the workers of a cluster the variable SPARK_LOCAL_DIRS)"
        ) from failure


def _raise_known(failure: Exception) -> None:
    """Raise the error of this package that a failure of Spark stands for, if there is one."""
    text = str(failure)
    raised = _RAISED.search(text)
    kind = vars(errors).get(raised[1]) if raised else None
    if raised and isinstance(kind, type) and issubclass(kind, errors.SparkAUCError):
        raise kind(raised[2]) from None
    if lack := _lack_of_workers(text):
        raise errors.ConfigError(
            f"found {lack}, expected Python {platform.python_version()} with the packages of the "
            f"driver's; set the environment variable PYSPARK_PYTHON before Spark starts, in local "
            f"mode to {sys.executable}"
        ) from None
    if no_memory := _NO_MEMORY.search(text):
        raise errors.ResourceError(
            f"found {no_memory[0]} in a task of Spark, expected its rows to fit in the memory "
            "of its JVM; raise spark.driver.memory in local mode and spark.executor.memory on "
            "a cluster"
        ) from failure
    if scheme := _NO_FILE_SYSTEM.search(text):
        raise errors.ConfigError(
            f"found no file system of Spark for {scheme[1] or scheme[2]}, expected Parquet files, "
            "which tasks read from an object store without it, or a jar of the file system; write "
            "the files as Parquet of one directory, or add the jar, such as hadoop-aws"
        ) from None
    if column := _NO_COLUMN.search(text):
        raise errors.ConfigError(
            f"found columns that Spark cannot read ({column[1].strip()}), expected types and "
            "different names that it takes; rename or convert the column, or set engine to local"
        ) from None
    _raise_full(failure)
    if "SparkContext was shut down" in text:
        raise errors.ResourceError(_ENDED) from failure
    if header := _OTHER_NAMES.search(text) or _OTHER_WIDTH.search(text):
        raise errors.DataError(
            f"found the columns {header[1]} in the first line of {header[3]}, expected "
            f"{header[2]}; write the file's columns in this order, or remove the file"
        ) from None
    if unreadable := _UNREADABLE.search(text):
        causes = _CAUSE.findall(text)
        if fields := _OTHER_FIELDS.search(text):
            raise errors.DataError(
                f"found the row {fields[1][:200]!r} in {unreadable[1]}, expected as many "
                "fields as the header has; correct or remove the row"
            ) from None
        raise errors.DataError(
            f"found the unreadable file {unreadable[1]}"
            + (f" ({causes[-1].strip()})" if causes else "")
            + "; expected a complete file of the configured format; replace or remove it"
        ) from failure


def _lack_of_workers(text: str) -> str | None:
    """What the Python of Spark's workers lacks; None if an error is of another kind."""
    python = os.environ.get("PYSPARK_PYTHON", "python3, as PYSPARK_PYTHON is not set")
    if no_python := _NO_PYTHON.search(text):
        return f"no program {no_python[1]!r} where Spark's workers run"
    if other := _OTHER_PYTHON.search(text):
        return f"Python {other[1]} on Spark's workers ({python})"
    if module := _NO_MODULE.search(text) or _NO_PACKAGE.search(text):
        package = module[1].partition(".")[0]
        # A module of the user's own may be missing here too.
        if find_spec(package) or find_spec(package.lower()):
            return f"no package {package!r} in the Python of Spark's workers ({python})"
    return None


def _of_py4j(failure: BaseException) -> bool:
    """Whether the connection to the JVM failed, and not one to storage or another service."""
    frames = traceback.walk_tb(failure.__traceback__)
    return any(str(frame.f_globals.get("__name__")).startswith("py4j.") for frame, _ in frames)


def first_line(failure: Exception) -> str:
    """First line of the innermost cause of an exception, without stack traces."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    in_python = [line for line in lines if _PYTHON_ERROR.match(line)]
    in_java = [line for line in lines if line.startswith((": ", "Caused by: "))]
    line = (in_python or in_java or lines[:1] or [repr(failure)])[-1]
    return line.removeprefix(": ").removeprefix("Caused by: ")
