"""Fitting a recipe: from rows to knots, means and deviations, independent of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, cast

import numpy as np

from spark_auc.core.state.schema import Parts, Schema
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float
from spark_auc.core.validation import check_whole
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.crosses import Crosses
from spark_auc.features.derived import Derived
from spark_auc.features.kinds.hashed import Hashed
from spark_auc.features.kinds.leaves import Categories, TreeLeaves, Trees
from spark_auc.features.kinds.numeric import Numeric
from spark_auc.features.kinds.registry import HASHED_KINDS, NUMERIC_KINDS
from spark_auc.features.raw_columns import Columns, Numbers
from spark_auc.features.readings import Reading
from spark_auc.features.recipe import Recipe
from spark_auc.features.time_zones import DEFAULT
from spark_auc.features.times import doubles

KINDS = (*NUMERIC_KINDS, *HASHED_KINDS)
# Rows that are summarised at a time.
_ROWS = 2**17


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
    """A column of a plan; a column may have several entries of different kinds.

    Parameters
    ----------
    name, type
        Name and type, one of `spark_auc.features.raw_columns.TYPES`.
    kind
        Its features, one of `KINDS`.
    values
        Of tokens: see `spark_auc.features.kinds.tokens.Tokens`.
    """

    name: str
    type: str
    kind: str
    values: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RecipePlan:
    """A recipe before its fit: columns and settings, without knots, means and deviations.

    Parameters
    ----------
    columns
        Names, types and kinds of the columns.
    knots
        The largest number of knots of a spline. States do not depend on it.
    dimension, crosses, missing, unit, trees, zone, readings, derived
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
    trees: TreeLeaves | None = None
    zone: str = DEFAULT
    readings: tuple[Reading, ...] = ()
    derived: tuple[Derived, ...] = ()

    def __post_init__(self) -> None:
        check_whole("knots", self.knots, 2)
        for name, _, kind, *_ in self.columns:
            if kind not in NUMERIC_KINDS | HASHED_KINDS:
                raise ConfigError(
                    f"found {kind!r} as the kind of column {name!r}, expected one of "
                    f"{', '.join(KINDS)}; change it"
                )
        self._recipe(self.zero())

    @cached_property
    def _checked(self) -> tuple[Numeric | Hashed | Trees | Categories, ...]:
        """Columns that are checked as when the recipe is applied."""
        return self._recipe(self.zero()).columns

    @property
    def numeric(self) -> tuple[Planned, ...]:
        """The columns that states summarise."""
        return tuple(column for column in self.columns if column.kind in NUMERIC_KINDS)

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
        for columns in batches:
            self.check(columns, self.numeric)
            values = [doubles_of(cast(Numbers, columns[c.name])) for c in self.numeric]
            collected.append(values)
            rows += values[0].size if values else 0
            if rows >= _ROWS:
                total, collected, rows = total.merge(_summary(collected)), [], 0
        return total.merge(_summary(collected)) if collected else total

    def check(self, columns: Columns, needed: Iterable[Planned]) -> None:
        """`DataError` unless needed columns are there, and all have their types in the plan."""
        if absent := dict.fromkeys(c.name for c in needed if c.name not in columns):
            raise DataError(
                f"found no column {', '.join(map(repr, absent))} among {sorted(columns)}, "
                "expected all columns that the fit needs; add them"
            )
        for column in self._checked:
            if column.name in columns:
                column.check(columns[column.name])

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
        codes = {reading.name for reading in self.readings if reading.format == "code"}
        numeric: list[Numeric] = []
        hashed: list[Hashed] = []
        for name, type_, kind, values in self.columns:
            if kind in NUMERIC_KINDS:
                made = NUMERIC_KINDS[kind]
                numeric.append(made.fitted(name, type_, next(summaries), self.knots))
            else:
                hashed.append(HASHED_KINDS[kind].fitted(name, type_, values, name in codes))
        settings = self.dimension, self.crosses, self.missing, self.unit, self.trees
        recipe = Recipe(
            tuple(numeric), tuple(hashed), *settings, zone=self.zone, derived=self.derived
        )
        named = {column.name for column in recipe.inputs if column.type != "text"}
        readings = tuple(reading for reading in self.readings if reading.name in named)
        return replace(recipe, readings=readings)


def doubles_of(column: Numbers) -> Float:
    """Values ``(n,)`` as doubles, times as days; NaN where they are missing."""
    values = doubles(column.values)
    return values if column.validity is None else np.where(column.validity, values, np.nan)


def _summary(collected: Sequence[Sequence[Float]]) -> RecipeState:
    columns = (np.concatenate(parts) for parts in zip(*collected, strict=True))
    return RecipeState(tuple(ColumnSummary.of(values) for values in columns))
