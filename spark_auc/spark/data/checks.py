"""Checks of rows as expressions in Spark's plan.

The action that reads the rows evaluates the check, so the check needs no pass of its own. An
invalid row raises an error with the text of the check.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_auc.errors import DataError


def checked(value: Column, fault: Column) -> Column:
    """Return ``value``; an action that reads a row with a fault raises an error.

    Inside `failures.translated` it is a `DataError`. Spark evaluates the check only if the action
    uses ``value``.

    Parameters
    ----------
    value
        The result for valid rows.
    fault
        Text of the error for invalid rows; null for valid rows.
    """
    # `translated` finds this class name in Spark's message.
    name = f"{DataError.__module__}.{DataError.__qualname__}: "
    return F.when(fault.isNull(), value).otherwise(F.raise_error(F.concat(F.lit(name), fault)))


def line_fault(text: Column, file: Column, expected: Column) -> Column:
    """Message about an invalid line of text.

    Parameters
    ----------
    text, file
        The line, and the path of its file.
    expected
        Description of a valid line; null if the line is valid, which makes the message null.
    """
    quotation = (F.lit("found '"), F.substring(text, 1, 200), F.lit("' in "), file)
    remedy = F.lit(": repair or remove the line")
    return F.concat(*quotation, F.lit("; expected "), expected, remedy)
