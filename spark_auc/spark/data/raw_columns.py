"""Raw columns of a DataFrame: what tasks read of them, and the arrays that they make of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_auc.core.types import Keys
from spark_auc.features.raw_columns import Columns, Text
from spark_auc.features.row_groups import row_groups
from spark_auc.features.time_zones import DEFAULT
from spark_auc.serving.arrow_columns import raw_column
from spark_auc.spark.data.lines import Lines
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.text_numbers import numbers


@dataclass(frozen=True)
class RawColumns:
    """Raw columns of a DataFrame.

    Parameters
    ----------
    names
        Their names, as a recipe has them.
    found
        Their names in the DataFrame, which may be written in another case.
    lines
        The lines that tasks split, if all columns are fields of them.
    parsed
        Names of the columns whose text in the lines is parsed to numbers.
    zone
        The zone on whose clocks times are read.
    """

    names: tuple[str, ...]
    found: tuple[str, ...]
    lines: Lines | None = None
    parsed: frozenset[str] = frozenset()
    zone: str = DEFAULT

    @classmethod
    def of(
        cls,
        df: DataFrame,
        names: Sequence[str],
        as_text: Collection[str] = (),
        zone: str = DEFAULT,
    ) -> RawColumns:
        """The columns of a DataFrame.

        Parameters
        ----------
        df
            The DataFrame.
        names
            Names of the columns.
        as_text
            Names of the columns whose integers may stay text.
        zone
            See the class.

        Raises
        ------
        ConfigError
            A column is unknown, or there are several of its name.
        """
        found = tuple(known_column(df, name).name for name in names)
        lines = Lines.of(df, names)
        types = lines.types if lines else {}
        left = {name for name, kind in types.items() if kind == "integer" and name in as_text}
        parsed = {name for name, kind in types.items() if kind != "text"} - left
        return cls(tuple(names), found, lines, frozenset(parsed), zone)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the DataFrame that are read."""
        return (self.lines.column,) if self.lines else self.found

    @property
    def width(self) -> int:
        """Number of the columns that `decode` takes."""
        return 2 if self.lines else len(self.names)

    def expressions(self) -> list[Column]:
        """The input columns of `decode`, in its order."""
        if self.lines:
            return self.lines.expressions()
        return [F.col(quoted(name)) for name in self.found]

    def field(self, df: DataFrame, name: str) -> Column:
        """Another column of the same rows, for use beside `decode`."""
        field = self.lines.field(df, name) if self.lines else None
        return F.col(quoted(name)) if field is None else field

    def probe(self) -> Column:
        """A column that is cheap to read."""
        return self.expressions()[1] if self.lines else F.col(quoted(self.found[0]))

    def keys(self, arrays: Sequence[pa.Array]) -> Keys:
        """Keys ``(n,)`` of some rows, equal for rows of equal values; lines need not be split."""
        if self.lines:
            return row_groups({self.lines.column: raw_column(self.lines.column, arrays[0])})
        return row_groups(self.decode(arrays))

    def decode(self, arrays: Sequence[pa.Array]) -> Columns:
        """The columns of some rows.

        Raises
        ------
        DataError
            A line is malformed, or a column has another type.
        """
        if not self.lines:
            named = zip(self.names, arrays, strict=True)
            return {name: raw_column(name, array, self.zone) for name, array in named}
        types = self.lines.types
        split: dict[str, Text] = self.lines.split(arrays)
        return {
            name: numbers(name, text, types[name]) if name in self.parsed else text
            for name, text in split.items()
        }
