"""The segment column: a raw column whose most frequent values have rankers of their own."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType

from spark_auc.errors import ConfigError
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.features import Features
from spark_auc.spark.data.names import known_column

_log = logging.getLogger(__name__)

# Moments of each segment are stored for each fold and period.
MOST_SEGMENTS = 16
# Names that the store of moments takes.
_USABLE = r"\A[^\x00-\x1f]{1,200}\z"


@dataclass(frozen=True)
class SegmentColumn:
    """A column that assigns each row to a segment.

    Rows without a value and of values that are not listed are in no segment. Empty text, text of
    more than 200 characters and text with control characters are never listed.

    Parameters
    ----------
    column
        Name of the column.
    values
        The segments: values of the column as text, ascending.
    """

    column: str
    values: tuple[str, ...]

    @classmethod
    def of(cls, df: DataFrame, features: Features, name: str) -> SegmentColumn:
        """The most frequent values of a column as segments, by one job that reads this column.

        Of values with equally many rows, the first in ascending order are chosen.

        Parameters
        ----------
        df
            The rows.
        features
            Their features.
        name
            Name of the column.

        Raises
        ------
        ConfigError
            The column is unknown or of a type with too many values.
        """
        value = _text(df, features, name)
        usable = value.rlike(_USABLE)
        values = df.select(value.alias("value")).filter(usable).groupBy("value").count()
        with translated():
            rows = values.orderBy(F.desc("count"), "value").limit(MOST_SEGMENTS + 1).collect()
        if len(rows) > MOST_SEGMENTS:
            _log.info(
                "the %d most frequent values of %r are segments; rows of other values are ranked "
                "like all rows",
                MOST_SEGMENTS,
                name,
            )
        return cls(name, tuple(sorted(row.value for row in rows[:MOST_SEGMENTS])))

    def check(self, df: DataFrame, features: Features) -> None:
        """`ConfigError` if the column is unknown or of another type."""
        _text(df, features, self.column)

    def number(self, df: DataFrame, features: Features) -> Column:
        """Index of each row's segment in ``values``; their number for rows of no segment.

        Raises
        ------
        ConfigError
            The column is unknown or of another type.
        """
        value = _text(df, features, self.column)
        number = F.when(value.isNull(), len(self.values))
        for k, segment in enumerate(self.values):
            number = number.when(value == F.lit(segment), k)
        return number.otherwise(len(self.values)).cast("long")

    def value(self, df: DataFrame, features: Features) -> Column:
        """Each row's segment; null for rows of no segment. Errors are those of `number`."""
        value = _text(df, features, self.column)
        return F.when(value.isin(*self.values), value)


def _text(df: DataFrame, features: Features, name: str) -> Column:
    """The values of a segment column as text."""
    kind = known_column(df, name).dataType
    if not isinstance(kind, StringType | IntegralType | BooleanType | DateType):
        raise ConfigError(
            f"found segment column {name!r} of type {kind.simpleString()}, expected text, whole "
            "numbers, booleans or dates; cast it or set segmentCol"
        )
    return features.field(df, name).cast("string")
