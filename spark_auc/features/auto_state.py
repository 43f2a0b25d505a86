"""What the automatic choice of a recipe knows of the rows: one state from one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_auc.core.state.schema import COUNT, Part, Parts, Schema, Values
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.errors import DataError
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.value_counts import ValueCounts


def _columns_differ(values: Values) -> str | None:
    positive, negative = values["positive"], values["negative"]
    same = positive.columns == negative.columns
    return None if same else "its classes have different numbers of columns"


def _rows_missing(values: Values) -> str | None:
    rows = values["rows"]
    fits = all(summary.rows == rows for summary in values["numbers"]) and all(
        counts.rows <= rows for counts in values["tokens"]
    )
    return None if fits else "a column has another number of rows"


@dataclass(frozen=True, eq=False)
class ClassColumns(SchemaState):
    """The columns of the rows of one class.

    Parameters
    ----------
    rows
        Number of rows.
    numbers
        Summaries of the columns of numbers and times.
    tokens
        Values of the other columns, by `spark_auc.features.text_keys.keys_of` if they are text.
        Missing values are not counted.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "ClassColumns",
        1,
        {"rows": COUNT, "numbers": Parts(ColumnSummary), "tokens": Parts(ValueCounts)},
        _rows_missing,
    )

    rows: int
    numbers: tuple[ColumnSummary, ...]
    tokens: tuple[ValueCounts, ...]

    @property
    def columns(self) -> tuple[int, int]:
        """Numbers of the columns of numbers and of tokens."""
        return len(self.numbers), len(self.tokens)

    def merge(self, other: ClassColumns) -> ClassColumns:
        """The columns of both sets of rows; `DataError` for other numbers of columns."""
        if self.columns != other.columns:
            raise DataError(
                f"found states of {self.columns} and {other.columns} columns of numbers and of "
                "tokens, expected equal numbers; merge states of one plan"
            )
        numbers = zip(self.numbers, other.numbers, strict=True)
        tokens = zip(self.tokens, other.tokens, strict=True)
        return ClassColumns(
            self.rows + other.rows,
            tuple(mine.merge(theirs) for mine, theirs in numbers),
            tuple(mine.merge(theirs) for mine, theirs in tokens),
        )


@dataclass(frozen=True, eq=False)
class AutoState(SchemaState):
    """The columns of the rows of both classes.

    It depends on the rows only, in any order and any partition; sums of values do so up to
    rounding. A class of a column holds at most 0.7 MB.

    Parameters
    ----------
    positive, negative
        The columns of the rows of each class.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "AutoState",
        1,
        {"positive": Part(ClassColumns), "negative": Part(ClassColumns)},
        _columns_differ,
    )

    positive: ClassColumns
    negative: ClassColumns

    @classmethod
    def zero(cls, numbers: int, tokens: int) -> AutoState:
        """The state of no rows with so many columns of numbers and of tokens."""
        none = ClassColumns(0, (ColumnSummary.zero(),) * numbers, (ValueCounts.zero(),) * tokens)
        return cls(none, none)

    def merge(self, other: AutoState) -> AutoState:
        """The state of both sets of rows; `DataError` for other numbers of columns."""
        return AutoState(self.positive.merge(other.positive), self.negative.merge(other.negative))
