"""The segment column: a raw column whose most frequent values have rankers of their own."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.core.types import Int
from spark_auc.errors import ConfigError
from spark_auc.tables.table import Table, field_of
from spark_auc.tables.tally import as_text, tallied
from spark_auc.tables.types import is_text, shown_type

_log = logging.getLogger(__name__)

# Moments of each segment are stored for each fold and period.
MOST_SEGMENTS = 16
# Names that the store of moments takes.
_USABLE = re.compile(r"[^\x00-\x1f]{1,200}")
# Most distinct values of the column, which are counted in memory.
_MOST_VALUES = 1 << 20


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
    def of(cls, table: Table, name: str) -> SegmentColumn:
        """The most frequent values of a column as segments, by one pass that reads this column.

        Of values with equally many rows, the first in ascending order are chosen.

        Parameters
        ----------
        table
            The rows.
        name
            Name of the column.

        Raises
        ------
        ConfigError
            The column is unknown, of another type, or has too many values.
        """
        cls(name, ()).check(table)
        tally = tallied(table, name, _MOST_VALUES)
        if tally.values.size == _MOST_VALUES:
            raise ConfigError(
                f"found {_MOST_VALUES} or more values in segment column {name!r}, expected fewer; "
                "set segmentCol to another column"
            )
        usable = np.array([bool(_USABLE.fullmatch(value)) for value in tally.values], np.bool_)
        values, rows = tally.values[usable], tally.rows[usable]
        if values.size > MOST_SEGMENTS:
            _log.info(
                "the %d most frequent values of %r are segments; rows of other values are ranked "
                "like all rows",
                MOST_SEGMENTS,
                name,
            )
        frequent = values[np.argsort(-rows, kind="stable")[:MOST_SEGMENTS]]
        return cls(name, tuple(sorted(frequent.tolist())))

    def check(self, table: Table) -> None:
        """`ConfigError` if the column is unknown or of another type."""
        column = field_of(table, self.column)
        kind = column.type
        usable = is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        if not usable and not pa.types.is_date(kind):
            raise ConfigError(
                f"found segment column {self.column!r} of type {shown_type(column)}, expected "
                "text, whole numbers, booleans or dates; cast it or set segmentCol"
            )

    def numbers(self, array: pa.Array) -> Int:
        """Index ``(n,)`` of each row's segment in ``values``; their number for those of none."""
        known = pa.array(self.values, pa.string())
        numbers = pc.index_in(as_text(array), known).fill_null(len(self.values))
        return np.asarray(numbers.to_numpy(), np.int64)

    def listed(self, array: pa.Array) -> pa.Array:
        """Each row's segment as text; null for rows of no segment."""
        known = pa.array(self.values, pa.string())
        return known.take(pc.index_in(as_text(array), known))
