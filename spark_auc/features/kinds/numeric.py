"""Kinds of features of numbers, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_auc.core.types import Bool, Float
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.kinds.named import Named
from spark_auc.features.raw_columns import Column, Numbers, read_only, validity_of
from spark_auc.features.times import doubles

NUMERIC = ("integer", "float", "boolean")
# A function that fills the slots of rows: the first row, indices (slots, m), values (slots, m).
FillNumbers: TypeAlias = Callable[[int, NDArray[np.int32], Float], None]


class Sql(Protocol):
    """Expressions of a dialect of SQL, from which kinds write theirs."""

    def number(self, value: float) -> str:
        """A literal of type double."""

    def curve(self, x: str, knots: tuple[float, ...], heights: list[float]) -> str:
        """The function of ``x`` that is linear between knots and constant beyond them."""

    def squared_hats(self, x: str, knots: tuple[float, ...]) -> str:
        """The sum of the squared hats of ``x``."""


class Onnx(Protocol):
    """Operators of an ONNX graph, from which kinds build theirs."""

    def add(self, operator: str, *inputs: str) -> str:
        """The result of an operator."""

    def constant(self, value: ArrayLike) -> str:
        """A constant."""

    def hats(self, x: str, knots: Float) -> str:
        """The hats ``(n, k)`` of numbers ``(n, 1)``; all are 0 where the number is NaN."""


class Constants(NamedTuple):
    """Constants of an entry, for the kernel of single rows.

    Parameters
    ----------
    knots
        Knots of hats; None for a standardised number.
    mean, deviation
        Of a standardised number.
    """

    knots: tuple[float, ...] | None
    mean: float = 0.0
    deviation: float = 1.0


class NumberColumn(Named):
    """A column of numbers."""

    TYPES: ClassVar[tuple[str, ...]] = NUMERIC
    SAME = NUMERIC

    def doubles(self, column: Column) -> tuple[Float, Bool]:
        """Values and validity as kernels take them; `DataError` if the column was retyped."""
        self.check(column)
        return read_only(doubles(cast(Numbers, column).values)), validity_of(column)


class Numeric(NumberColumn):
    """A kind of features of a column of numbers.

    A kind is a frozen dataclass whose fields are numbers, text and tuples of these, which recipes
    store under its name in lower case. `spark_auc.features.kinds.registry` lists it.
    """

    slots: ClassVar[int]

    @classmethod
    def fitted(cls, name: str, type: str, summary: ColumnSummary, knots: int) -> Self:
        """The entry of a column.

        Parameters
        ----------
        name, type
            Name and type of the column.
        summary
            Of its values in the rows of the fit.
        knots
            The largest number of knots.

        Raises
        ------
        DataError
            The values cannot be used.
        """
        raise NotImplementedError

    @property
    def heights(self) -> int:
        """Number of features, the first ones, whose weights are heights of a curve in order."""
        return 0

    def names(self) -> list[str]:
        """Names of the features, without the indicator of missing values."""
        raise NotImplementedError

    @property
    def bounds(self) -> tuple[float, float]:
        """Numbers outside are extreme."""
        raise NotImplementedError

    def filler(self, column: Column, first: int, indicator: bool) -> FillNumbers:
        """A function that fills the slots with features from index ``first`` on.

        A missing value has the feature after the others if ``indicator``, else none.

        Raises
        ------
        DataError
            The column has another type than in the rows of the fit.
        """
        raise NotImplementedError

    def usable(self, column: Column) -> Bool | bool:
        """Whether each value ``(n,)`` is missing, or has finite features."""
        return True

    @property
    def constants(self) -> Constants | None:
        """What the kernel of single rows takes; None leaves a single row to `filler`."""
        return None

    def curve(self, w: Float) -> tuple[tuple[float, ...], Float] | None:
        """Points and values of the function of the column for weights ``w`` of the features.

        It is linear between the points; None for none.
        """
        return None

    def sql(self, x: str, w: Float, sql: Sql) -> tuple[str, str]:
        """What the features of ``x`` add to the score, and to the squared norm of the row."""
        raise NotImplementedError

    def onnx(self, x: str, graph: Onnx) -> str | None:
        """The features ``(n, k)`` of ``x`` ``(n, 1)``, 0 where it is NaN; None for none."""
        raise NotImplementedError
