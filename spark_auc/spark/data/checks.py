"""Faults that rows carry in the plan.

A row is found wrong when an action reads it, far from the code that knows what was expected. So
the expectation travels as an expression, and costs no pass of its own.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_auc.errors import DataError


def checked(value: Column, fault: Column) -> Column:
    """Return ``value``, save that a row whose ``fault`` (text) is not null fails the action.

    `failures.translated` raises that as DataError. The check is made only where ``value`` is
    read: Spark prunes what nobody asks for.
    """
    # The name by which `translated` knows an error of this package in Spark's text.
    name = f"{DataError.__module__}.{DataError.__qualname__}: "
    return F.when(fault.isNull(), value).otherwise(F.raise_error(F.concat(F.lit(name), fault)))


def line_fault(text: Column, file: Column, expected: Column) -> Column:
    """Word the fault of a line of text; null where ``expected`` is."""
    found = (F.lit("found '"), F.substring(text, 1, 200), F.lit("' in "), file)
    return F.concat(*found, F.lit("; expected "), expected, F.lit(": repair or remove the line"))
