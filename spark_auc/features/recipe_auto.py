"""The automatic choice of a recipe: which columns to use, and as what, from one pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from spark_auc.core.types import Bool, Float
from spark_auc.errors import ConfigError, DataError, some_of
from spark_auc.features.auto_rules import (
    AUTO,
    KINDS_OF,
    MOST,
    Decision,
    decided,
    dimension_of,
    known_values,
    mostly_differ,
)
from spark_auc.features.auto_state import AutoState, ClassColumns
from spark_auc.features.column_auc import ClassCounts, ColumnCounts
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.raw_columns import Columns, rows_of
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import Planned, RecipePlan, RecipeState
from spark_auc.features.row_groups import values_of
from spark_auc.features.value_counts import ValueCounts
from spark_auc.features.watched import Missing

# Rows that are summarised at a time.
_ROWS = 2**17
# Columns that an error names.
_SHOWN = 5
# Rows of the rarer class from which on words of free text are used. On nine days of sales with
# 5 to 42 of them the words lowered the mean AUC by .013.
_ROWS_OF_WORDS = 100


@dataclass(frozen=True)
class AutoPlan:
    """A recipe before its fit, with columns whose kinds are chosen from the rows.

    A column of kind "auto" becomes a spline if it is a number, tokens if it is text, a boolean or
    an integer of at most 256 distinct values or a code (a spline too; see
    `spark_auc.features.codes`), and tokens of its hour and weekday and a spline if it is a time.
    The recipe lists the values of tokens of at most 256 integers; all others share a token. Hours
    are left out if all times are at midnight. Constant columns are left out, and identifiers: text
    of more different values than half of the rows that have a value, unless values of three rows
    and more have a fifth of them, and integers of which almost every row has another one if they
    number the rows, or if 1,000 rows or more show no relation to the label, in order or in ranges.
    Crossed columns are kept.

    Parameters
    ----------
    columns
        Names, types and kinds of the columns; kind "auto" for a column to choose.
    settings
        Other parameters of the `RecipePlan`. A ``dimension`` of None is that of
        `spark_auc.features.auto_rules.dimension_of`.

    Raises
    ------
    ConfigError
        A type or kind is unknown, or the plan makes no recipe.
    """

    columns: tuple[Planned, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, type_, *_ in self.columns:
            if type_ not in KINDS_OF:
                raise ConfigError(
                    f"found column {name!r} of type {type_}, expected {', '.join(KINDS_OF)}; leave "
                    "the column out, or convert it"
                )
        _ = self.widest

    @classmethod
    def of_schema(
        cls,
        types: Mapping[str, str],
        kinds: Mapping[str, str | Sequence[str]] | None = None,
        without: Collection[str] = (),
        **settings: Any,
    ) -> Self:
        """The plan of a table.

        Parameters
        ----------
        types
            Types of the columns by name, without the label.
        kinds
            Kinds of the columns that the user chose, one or several each. They are kept even if
            they are constant or identifiers.
        without
            Names of columns to leave out.
        settings
            See the class.

        Raises
        ------
        ConfigError
            A chosen column, or one to leave out, is not in the table, or is both; otherwise as in
            the class.
        """
        kinds = kinds or {}
        unknown = sorted({*kinds, *without} - set(types))
        if unknown or (both := sorted(set(kinds) & set(without))):
            found = f"no column {unknown}" if unknown else f"{both} among columns to leave out"
            raise ConfigError(
                f"found {found}, expected different columns among {some_of(types)}; correct "
                "the names"
            )
        columns = []
        for name, type_ in types.items():
            chosen = kinds.get(name, AUTO)
            for kind in (chosen,) if isinstance(chosen, str) else chosen:
                if name not in without:
                    columns.append(Planned(name, type_, kind))
        return cls(tuple(columns), settings)

    @cached_property
    def widest(self) -> RecipePlan:
        """The plan that uses all columns, with the largest dimension."""
        return self._plan([e for c in self.columns for e in _entries(c, KINDS_OF[c.type])], MOST)

    def _plan(self, columns: Sequence[Planned], dimension: int) -> RecipePlan:
        """The plan of these columns; ``dimension`` is used if none is set."""
        settings = dict(self.settings)
        if settings.get("dimension") is None:
            settings["dimension"] = dimension
        return RecipePlan(tuple(columns), **settings)

    @cached_property
    def _names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the columns of numbers and of tokens in states."""
        names = dict.fromkeys(c.name for c in self.columns)
        numbers = {c.name for c in self.widest.numeric}
        return tuple(n for n in names if n in numbers), tuple(n for n in names if n not in numbers)

    def zero(self) -> AutoState:
        """The state of no rows."""
        return AutoState.zero(*map(len, self._names))

    def fold(self, batches: Iterable[tuple[Columns, Bool]]) -> AutoState:
        """The state of the rows of all batches.

        Parameters
        ----------
        batches
            Columns by name, and whether each row ``(n,)`` is positive.

        Raises
        ------
        DataError
            A column is missing, or has another type than in the plan or another number of rows.
        """
        total, collected, rows = self.zero(), list[tuple[Bool, list[Float]]](), 0
        names = [name for block in self._names for name in block]
        for columns, positive in batches:
            self.widest.check(columns, self.widest.columns)
            for name in names:
                if rows_of(columns[name]) != positive.size:
                    raise DataError(
                        f"found {rows_of(columns[name])} rows in column {name!r}, expected "
                        f"{positive.size} as there are labels; pass the columns of one table"
                    )
            collected.append((positive, [values_of(name, columns[name]) for name in names]))
            rows += positive.size
            if rows >= _ROWS:
                total, collected, rows = total.merge(self._state(collected)), [], 0
        return total.merge(self._state(collected)) if collected else total

    def _state(self, collected: Sequence[tuple[Bool, list[Float]]]) -> AutoState:
        is_positive = np.concatenate([positive for positive, _ in collected])
        parts = zip(*(values for _, values in collected), strict=True)
        columns = [np.concatenate(part) for part in parts]
        return AutoState(self._of(columns, is_positive), self._of(columns, ~is_positive))

    def _of(self, columns: Sequence[Float], rows: Bool) -> ClassColumns:
        numbers = len(self._names[0])
        summaries = [ColumnSummary.of(values[rows]) for values in columns[:numbers]]
        counts = [ValueCounts.of(values[rows]) for values in columns[numbers:]]
        return ClassColumns(int(rows.sum()), tuple(summaries), tuple(counts))

    def resolved(self, state: AutoState) -> tuple[RecipePlan, Recipe, tuple[Decision, ...]]:
        """The plan of explicit columns of some rows, its recipe of these rows, and the reasons.

        Raises
        ------
        DataError
            As in `explicit` and `RecipePlan.fitted`.
        """
        plan, columns, decisions = self.explicit(state)
        return plan, plan.fitted(columns), decisions

    def explicit(
        self,
        state: AutoState,
        is_free_text: Callable[[str], bool] = lambda name: False,
        *,
        apart: bool = False,
    ) -> tuple[RecipePlan, RecipeState, tuple[Decision, ...]]:
        """The plan of explicit columns of some rows, its state of these rows, and the reasons.

        Parameters
        ----------
        state
            The state of the rows.
        is_free_text
            Whether a column of texts that are almost all different has words that repeat: these are
            its tokens.
        apart
            See `spark_auc.features.auto_rules.dimension_of`.

        Raises
        ------
        DataError
            The state is of another plan, has rows of one class only or leaves no column.
        """
        positive, negative = state.positive.rows, state.negative.rows
        if state.positive.columns != tuple(map(len, self._names)):
            raise DataError(
                f"found a state of {state.positive.columns} columns of numbers and of tokens, "
                f"expected {tuple(map(len, self._names))}; use the state of this plan"
            )
        if not (positive and negative):
            raise DataError(
                f"found {positive} positive and {negative} negative rows, expected both classes; "
                "check the label column"
            )
        pairs = self.widest.crosses.pairs if self.widest.crosses else None
        crossed = {name for pair in pairs or () for name in pair}
        counts = self._counts(state)
        columns: list[Planned] = []
        decisions: list[Decision] = []
        days = {c.name: counts[c.name].both.values for c in self.columns if c.type == "time"}
        untold = {each.name for each in self.widest.derived if not each.is_told_by(days)}
        for column in self.columns:
            if column.name in untold and column.kind == AUTO:
                continue
            is_free = column.kind == AUTO and column.name not in crossed
            kinds, reasons = decided(column, counts[column.name], is_free)
            can_be_read = column.type == "text" and min(positive, negative) >= _ROWS_OF_WORDS
            is_text = is_free and can_be_read and mostly_differ(counts[column.name])
            if is_text and is_free_text(column.name):
                sentence = f"{column.name!r} is free text: its words are tokens"
                kinds, reasons = ("words",), [Decision(column.name, sentence, warning=False)]
            entries = _entries(column, kinds)
            columns += [e._replace(values=known_values(e, counts[e.name])) for e in entries]
            decisions += reasons
        if not columns:
            shown = "; ".join(decision.sentence for decision in decisions[:_SHOWN])
            raise DataError(
                f"found no column to use among {len(counts)}: {shown}; expected one or more; name "
                "the columns to use and their kinds"
            )
        plan = self._plan(columns, dimension_of(columns, counts, apart=apart))
        both = zip(self._names[0], state.positive.numbers, state.negative.numbers, strict=True)
        summaries = {name: one.merge(other) for name, one, other in both}
        chosen = RecipeState(tuple(summaries[c.name] for c in plan.numeric))
        return plan, chosen, tuple(dict.fromkeys(decisions))

    def missing(self, state: AutoState) -> Missing:
        """Numbers of rows, and of missing values, of the columns of tokens by name."""
        rows = state.positive.rows + state.negative.rows
        both = zip(self._names[1], state.positive.tokens, state.negative.tokens, strict=True)
        return {name: (rows, rows - one.rows - other.rows) for name, one, other in both}

    def _counts(self, state: AutoState) -> dict[str, ColumnCounts]:
        """The values of each column."""
        classes = state.positive, state.negative
        counts: dict[str, ColumnCounts] = {}
        for k, name in enumerate(self._names[0]):
            positive, negative = (ClassCounts(c.numbers[k].counts, c.rows) for c in classes)
            counts[name] = ColumnCounts(positive, negative, is_number=True)
        for k, name in enumerate(self._names[1]):
            positive, negative = (ClassCounts(c.tokens[k], c.rows) for c in classes)
            counts[name] = ColumnCounts(positive, negative, is_number=False)
        return counts


def _entries(column: Planned, kinds: Sequence[str]) -> list[Planned]:
    """The entries of a column in a plan: those chosen, else one of each kind."""
    if column.kind != AUTO:
        return [column]
    return [column._replace(kind=kind) for kind in kinds]
