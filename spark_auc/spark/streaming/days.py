"""The day of each row, in UTC, by a column of dates or times."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, TimestampNTZType, TimestampType

from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.names import known_column, quoted

_MICROSECONDS = 86_400_000_000


def day_column(rows: DataFrame, name: str) -> Column:
    """The day of each row as text, such as 2026-03-01; null without one.

    Times are those of UTC, whatever the session's time zone. Text begins with the date.

    Raises
    ------
    ConfigError
        The column is unknown or of another type.
    """
    kind, column = known_column(rows, name).dataType, F.col(quoted(name))
    if isinstance(kind, TimestampType):
        day = F.date_from_unix_date(F.floor(F.unix_micros(column) / _MICROSECONDS).cast("int"))
    elif isinstance(kind, DateType | TimestampNTZType):
        day = column.cast("date")
    elif isinstance(kind, StringType):
        day = F.substring(column, 1, 10).try_cast("date")
    else:
        raise ConfigError(
            f"found column {name!r} of type {kind.simpleString()} for the day of a row, expected "
            "dates, timestamps or text that begins with a date; name another column"
        )
    return F.date_format(day, "yyyy-MM-dd")


def days(rows: DataFrame, name: str) -> list[str]:
    """The days of all rows, ascending; `DataError` if a row has none."""
    found = [day for (day,) in rows.select(day_column(rows, name)).distinct().collect()]
    if None in found:
        raise DataError(
            f"found rows without a date in column {name!r}, expected one in each row, by which the "
            "row's period is known; repair or drop these rows"
        )
    return sorted(found)


def of_day(rows: DataFrame, name: str, day: str) -> DataFrame:
    """The rows of a day."""
    return rows.filter(day_column(rows, name) == F.lit(day))
