"""The distinct values of a column, and the number of rows of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_auc.core.labels import LabelCounts
from spark_auc.core.row_source import State
from spark_auc.core.state.rules import COUNTS
from spark_auc.core.state.schema import COUNT, Field, Schema, array
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Int
from spark_auc.tables.arrow_columns import flat
from spark_auc.tables.table import Batches, Table, field_of

_TALLY = "tally"
# Estimate of the bytes of a value.
_VALUE_BYTES = 64


@dataclass(frozen=True, eq=False)
class Tally(SchemaState):
    """The distinct values of a column as text, of many the first in ascending order.

    Parameters
    ----------
    values : (v,)
        The values, ascending.
    rows : (v,)
        Number of rows of each.
    missing
        Number of rows without a value.
    most
        Most values that are listed.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "Tally",
        1,
        {
            "values": Field(("U",), ("v",)),
            "rows": array("<i8", "v", rule=COUNTS),
            "missing": COUNT,
            "most": COUNT,
        },
    )

    values: NDArray[np.str_]
    rows: Int
    missing: int
    most: int

    @classmethod
    def zero(cls, most: int) -> Tally:
        """The tally of no rows."""
        return cls(np.empty(0, "U1"), np.empty(0, np.int64), 0, most)

    @classmethod
    def of(cls, array: pa.Array, most: int) -> Tally:
        """The tally of the values of an Arrow array."""
        counts = as_text(array).drop_null().value_counts()
        values = np.array(counts.field("values").to_pylist(), "U")
        order = np.argsort(values, kind="stable")[:most]
        rows = counts.field("counts").to_numpy()[order]
        return cls(values[order], rows, array.null_count, most)

    def merge(self, other: Tally) -> Tally:
        """The tally of both sets of rows."""
        both = np.concatenate([self.values, other.values])
        values, places = np.unique(both, return_inverse=True)
        rows = np.zeros(values.size, np.int64)
        np.add.at(rows, places, np.concatenate([self.rows, other.rows]))
        missing = self.missing + other.missing
        return Tally(values[: self.most], rows[: self.most], missing, self.most)


def as_text(array: pa.Array) -> pa.Array:
    """Values of a primitive type as text."""
    return flat(array).cast(pa.string())


def tallied(table: Table, name: str, most: int = 1_000) -> Tally:
    """The distinct values of a column, by one pass that reads this column alone.

    Parameters
    ----------
    table
        The rows.
    name
        Name of the column.
    most
        Most values that are listed.
    """

    def fold(batches: Batches) -> Iterator[tuple[str, State]]:
        found = Tally.zero(most)
        for batch in batches:
            found = found.merge(Tally.of(batch.column(0), most))
        yield _TALLY, found

    states: dict[str, Any] = table.select([field_of(table, name).name]).fold(
        fold, (Tally,), state_bytes=_VALUE_BYTES * most, what=f"values of column {name!r}"
    )
    return cast(Tally, states.get(_TALLY, Tally.zero(most)))


def row_count(table: Table, name: str | None = None) -> int:
    """Number of rows, by one pass that reads a column (default: the first)."""

    def fold(batches: Batches) -> Iterator[tuple[str, State]]:
        yield _TALLY, LabelCounts({0.0: sum(batch.num_rows for batch in batches)})

    rows = table.select([name] if name else table.schema.names[:1])
    states: dict[str, Any] = rows.fold(fold, (LabelCounts,), state_bytes=8, what="number of rows")
    return sum(states[_TALLY].rows.values()) if states else 0
