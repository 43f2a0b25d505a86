"""Errors raised on executors, as the ones the user should meet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_auc import errors

# On classic Spark, what fails in the JVM without an error class of Spark's is no PySparkException.
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
_PYTHON_ERROR = re.compile(r"[\w.]*(Error|Exception|Interrupt): (?!.*Exception:)")
_CAUSE = re.compile(r"Caused by: (.*)")


@contextmanager
def translated() -> Iterator[None]:
    """Raise this package's own error, and name an unreadable file, where Spark wrapped them."""
    try:
        yield
    except SPARK_FAILURES as failure:
        text = str(failure)
        raised = _RAISED.search(text)
        kind = vars(errors).get(raised[1]) if raised else None
        if raised and isinstance(kind, type) and issubclass(kind, errors.SparkAUCError):
            raise kind(raised[2]) from None
        if other := _OTHER_NAMES.search(text) or _OTHER_WIDTH.search(text):
            raise errors.DataError(
                f"found the columns {other[1]} in the first line of {other[3]}, expected "
                f"{other[2]}; write the file's columns in this order, or leave it out"
            ) from None
        if unreadable := _UNREADABLE.search(text):
            causes = _CAUSE.findall(text)
            raise errors.DataError(
                f"found the unreadable file {unreadable[1]}"
                + (f" ({causes[-1].strip()})" if causes else "")
                + "; expected a whole file of the stated format; replace it or leave it out"
            ) from failure
        raise


def first_line(failure: Exception) -> str:
    """What a failure says, without its stack traces: the innermost cause where it names one."""
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    in_python = [line for line in lines if _PYTHON_ERROR.match(line)]
    in_java = [line for line in lines if line.startswith((": ", "Caused by: "))]
    found = (in_python or in_java or lines[:1] or [repr(failure)])[-1]
    return found.removeprefix(": ").removeprefix("Caused by: ")
