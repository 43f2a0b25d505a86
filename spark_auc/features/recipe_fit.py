"""Fitting a recipe: from rows to knots, means and deviations, independent of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.state.schema import COUNT, Part, Parts, Schema
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float
from spark_auc.core.validation import check_whole
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.raw_columns import Columns, Numbers
from spark_auc.features.recipe import Crosses, Recipe
from spark_auc.features.recipe_numbers import Numeric, Spline, Standard
from spark_auc.features.recipe_tokens import Hashed, Log, Tokens
from spark_auc.features.splines import probabilities
from spark_auc.features.value_counts import ValueCounts

KINDS = ("spline", "standard", "log", "tokens")
# Rows that are summarised at a time.
_ROWS = 2**17
# Means and deviations are rounded to so many bits of the deviation, so that the order in which
# sums were added seldom matters.
_PRECISION = 20


@dataclass(frozen=True, eq=False)
class ColumnSummary(SchemaState):
    """What a fit knows of a numeric column.

    Parameters
    ----------
    missing, infinite
        Numbers of rows with a missing and with an infinite value.
    moments
        Moments of the finite values, as the one column of negative rows.
    counts
        Distribution of the finite values.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "ColumnSummary",
        1,
        {
            "missing": COUNT,
            "infinite": COUNT,
            "moments": Part(ColumnMoments),
            "counts": Part(ValueCounts),
        },
        lambda v: None if v["moments"].mean.shape[1] == 1 else "its moments are not of one column",
    )

    missing: int
    infinite: int
    moments: ColumnMoments
    counts: ValueCounts

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.missing + self.infinite + self.counts.rows

    @classmethod
    def zero(cls) -> ColumnSummary:
        """The summary of no rows."""
        return cls(0, 0, ColumnMoments.zero(1), ValueCounts.zero())

    @classmethod
    def of(cls, values: Float) -> ColumnSummary:
        """The summary of values ``(n,)``; NaN is a missing value."""
        finite = values[np.isfinite(values)]
        missing = int(np.isnan(values).sum())
        moments = ColumnMoments.of(Batch(finite[:, None], np.zeros(finite.size, np.bool_)))
        infinite = values.size - missing - finite.size
        return cls(missing, infinite, moments, ValueCounts.of(finite))

    def merge(self, other: ColumnSummary) -> ColumnSummary:
        """The summary of both sets of rows."""
        return ColumnSummary(
            self.missing + other.missing,
            self.infinite + other.infinite,
            self.moments.merge(other.moments),
            self.counts.merge(other.counts),
        )

    def knots(self, count: int) -> tuple[float, ...]:
        """At most ``count`` knots, increasing; see `knots_of`."""
        return tuple(knots_of(*self.counts.weighted(), count).tolist())

    def scale(self) -> tuple[float, float]:
        """Mean and standard deviation of the finite values; the deviation is 1 for a constant."""
        if self.counts.values.size <= 1:
            return float(self.counts.values.sum()), 1.0
        mean = float(self.moments.mean[1, 0])
        deviation = float(self.moments.standard_deviation()[0])
        if not (np.isfinite(mean) and 0.0 < deviation < np.inf):
            return mean, deviation
        places = _PRECISION - int(np.frexp(deviation)[1])
        return _rounded(mean, places), _rounded(deviation, places)


def _rounded(value: float, places: int) -> float:
    """The value rounded to a multiple of ``2^-places``."""
    scaled = float(np.ldexp(value, places))
    return float(np.ldexp(np.rint(scaled), -places)) if abs(scaled) < 2.0**52 else value


def knots_of(values: Float, weights: Float, count: int) -> Float:
    """Knots of a column, increasing.

    A value with more than ``1 / count`` of the weight is a knot. The other knots are quantiles of
    the remaining values. Quantiles of all values coincide where most values are equal.

    Parameters
    ----------
    values, weights : (v,)
        Distinct values, ascending, and their weights.
    count
        The largest number of knots, at least 2.
    """
    check_whole("knots", count, 2)
    has_own = weights * count > weights.sum()
    others, reached = values[~has_own], np.cumsum(weights[~has_own])
    if not others.size:
        return values
    left = count - int(has_own.sum())
    at = probabilities(left) if left > 1 else np.array([0.5])
    places = np.minimum(np.searchsorted(reached, at * reached[-1]), others.size - 1)
    return np.unique(np.concatenate([values[has_own], others[places]]))


@dataclass(frozen=True, eq=False)
class RecipeState(SchemaState):
    """What a fit knows of all numeric columns of a plan that it scales or gives knots.

    Parameters
    ----------
    columns
        The summaries, in the order of `RecipePlan.numeric`.
    """

    SCHEMA: ClassVar[Schema] = Schema("RecipeState", 1, {"columns": Parts(ColumnSummary)})

    columns: tuple[ColumnSummary, ...]

    @classmethod
    def zero(cls, columns: int) -> RecipeState:
        """The state of no rows."""
        return cls((ColumnSummary.zero(),) * columns)

    def merge(self, other: RecipeState) -> RecipeState:
        """The state of both sets of rows; `DataError` for states of other numbers of columns."""
        if len(self.columns) != len(other.columns):
            raise DataError(
                f"found states of {len(self.columns)} and {len(other.columns)} columns, expected "
                "equal numbers; merge states of one plan"
            )
        both = zip(self.columns, other.columns, strict=True)
        return RecipeState(tuple(mine.merge(theirs) for mine, theirs in both))


class Planned(NamedTuple):
    """A column of a plan.

    Parameters
    ----------
    name, type
        Name and type, one of `spark_auc.features.raw_columns.TYPES`.
    kind
        Its features, one of `KINDS`.
    """

    name: str
    type: str
    kind: str


@dataclass(frozen=True)
class RecipePlan:
    """A recipe before its fit: columns and settings, without knots, means and deviations.

    Parameters
    ----------
    columns
        Names, types and kinds of the columns.
    knots
        The largest number of knots of a spline. States do not depend on it.
    dimension, crosses, missing, unit
        See `Recipe`.

    Raises
    ------
    ConfigError
        A kind is unknown, or the plan makes no recipe.
    """

    columns: tuple[Planned, ...]
    knots: int = 12
    dimension: int = 2**18
    crosses: Crosses | None = None
    missing: str = "indicator"
    unit: bool = True

    def __post_init__(self) -> None:
        check_whole("knots", self.knots, 2)
        for name, _, kind in self.columns:
            if kind not in KINDS:
                raise ConfigError(
                    f"found {kind!r} as the kind of column {name!r}, expected one of "
                    f"{', '.join(KINDS)}; change it"
                )
        self._recipe(self.zero())

    @property
    def numeric(self) -> tuple[Planned, ...]:
        """The columns that states summarise."""
        return tuple(column for column in self.columns if column.kind in KINDS[:2])

    def zero(self) -> RecipeState:
        """The state of no rows."""
        return RecipeState.zero(len(self.numeric))

    def fold(self, batches: Iterable[Columns]) -> RecipeState:
        """The state of the rows of all batches, which need the columns of `numeric` only.

        Raises
        ------
        DataError
            A column of `numeric` is missing, or a column has another type than in the plan.
        """
        total, collected, rows = self.zero(), list[list[Float]](), 0
        # Columns are checked as when the recipe is applied.
        checked = self._recipe(total).columns
        for columns in batches:
            if absent := [c.name for c in self.numeric if c.name not in columns]:
                raise DataError(
                    f"found no column {', '.join(map(repr, absent))} among {sorted(columns)}, "
                    "expected all columns of numbers of the plan; add them"
                )
            for column in checked:
                if column.name in columns:
                    column.check(columns[column.name])
            doubles = [_doubles(cast(Numbers, columns[c.name])) for c in self.numeric]
            collected.append(doubles)
            rows += doubles[0].size if doubles else 0
            if rows >= _ROWS:
                total, collected, rows = total.merge(_summary(collected)), [], 0
        return total.merge(_summary(collected)) if collected else total

    def fitted(self, state: RecipeState) -> Recipe:
        """The recipe of some rows.

        Raises
        ------
        DataError
            The state is of another number of columns, or a standardised column has infinite values
            or a deviation that is not finite.
        """
        if len(state.columns) != len(self.numeric):
            raise DataError(
                f"found a state of {len(state.columns)} columns, expected {len(self.numeric)}; "
                "use the state of this plan"
            )
        return self._recipe(state)

    def _recipe(self, state: RecipeState) -> Recipe:
        summaries = iter(state.columns)
        numeric: list[Numeric] = []
        hashed: list[Hashed] = []
        for name, kind_of_values, kind in self.columns:
            if kind == "spline":
                numeric.append(Spline(name, kind_of_values, next(summaries).knots(self.knots)))
            elif kind == "standard":
                numeric.append(_standard(name, kind_of_values, next(summaries)))
            else:
                hashed.append((Log if kind == "log" else Tokens)(name, kind_of_values))
        settings = self.dimension, self.crosses, self.missing, self.unit
        return Recipe(tuple(numeric), tuple(hashed), *settings)


def _standard(name: str, kind_of_values: str, summary: ColumnSummary) -> Standard:
    mean, deviation = summary.scale()
    if summary.infinite or not (np.isfinite(mean) and np.isfinite(deviation)):
        raise DataError(
            f"found {summary.infinite} infinite values in column {name!r}, mean {mean:g} and "
            f"deviation {deviation:g} of the others, expected finite numbers; repair the values, "
            "or use splines"
        )
    return Standard(name, kind_of_values, mean, deviation)


def _doubles(column: Numbers) -> Float:
    values = np.asarray(column.values, float)
    return values if column.validity is None else np.where(column.validity, values, np.nan)


def _summary(collected: Sequence[Sequence[Float]]) -> RecipeState:
    columns = (np.concatenate(parts) for parts in zip(*collected, strict=True))
    return RecipeState(tuple(ColumnSummary.of(values) for values in columns))
