"""Passes over the rows to which a recipe is fitted."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from spark_auc.core.labels import Label
from spark_auc.core.row_source import State
from spark_auc.errors import DataError
from spark_auc.features.auto_rules import Decision
from spark_auc.features.auto_state import AutoState
from spark_auc.features.drift import Drift
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.words import words_of
from spark_auc.features.raw_columns import Columns
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_auto import AutoPlan
from spark_auc.features.recipe_fit import RecipePlan, RecipeState
from spark_auc.features.watched import Missing, counted, drift_of_fit
from spark_auc.pipeline.drift import drift_of
from spark_auc.tables.labels import LabelReader, check_classes, positive_label
from spark_auc.tables.raw_columns import RawColumns
from spark_auc.tables.table import Batches, Table, field_of
from spark_auc.tables.tally import row_count

_log = logging.getLogger(__name__)

# A recipe, and counts of the rows of its fit.
Fit: TypeAlias = tuple[Recipe, Drift | None]
_COLUMNS, _MISSING = "columns", "missing"
# Bytes of the state of a column: at most 2^14 values, counts and tallies; of few rows, a value and
# a count for each, and headers.
_COLUMN_BYTES, _ROW_BYTES, _HEADER_BYTES = 700_000, 16, 4_000
# Rows are counted, by a pass, where this may take less than the states of so many bytes.
_WORTH_COUNTING = 1 << 27
# Most knots of a column that are chosen, and most heights of all columns: penalties take time by
# the cube of the number of features.
MOST_KNOTS, _MOST_HEIGHTS = 20, 2000
# The same where heights have a ridge alone, and the least rows of a height.
_MOST_OF_RIDGE, _ROWS_OF_RIDGE = 16, 30
# Most rows whose training leaves out features that do not occur, before moments are made.
_ROWS_IN_MEMORY = 250_000
# Texts of so many words, of which most are in other texts of some first rows too, are free text.
_FEWEST_WORDS, _SHOWN, _ALMOST_ALL = 2, 1_000, 0.9


class Summary(NamedTuple):
    """What a fit knows of some rows.

    Parameters
    ----------
    plan
        Explicit columns.
    state
        The summaries of its columns of numbers.
    missing
        Numbers of rows, and of missing values, of its columns of tokens by name.
    rows
        Number of rows; None if no pass was made.
    decisions
        What was decided or noticed about columns.
    """

    plan: RecipePlan
    state: RecipeState
    missing: Missing
    rows: int | None
    decisions: tuple[Decision, ...] = ()

    @property
    def counted(self) -> Missing:
        """Numbers of rows, and of missing values, of all columns by name."""
        both = zip(self.plan.numeric, self.state.columns, strict=True)
        return {**self.missing, **{column.name: (of.rows, of.missing) for column, of in both}}

    def with_counts_of(self, types: Mapping[str, str], table: Table) -> Summary:
        """The summary with the missing values of further columns, by one more pass.

        Parameters
        ----------
        types
            Types of the columns by name. Those that are counted already are left out.
        table
            The rows.
        """
        others = {name: kind for name, kind in types.items() if name not in self.counted}
        if not others:
            return self
        recipe = Recipe(trees=TreeLeaves.of_columns(others), zone=self.plan.zone)
        more = drift_of(table, recipe).missing()
        rows = self.rows if self.rows is not None else next(iter(more.values()))[0]
        return self._replace(missing={**self.missing, **more}, rows=rows)

    def with_knots(self, is_smooth: bool) -> Summary:
        """The summary with the number of knots that suits the columns of numbers and the rows.

        Parameters
        ----------
        is_smooth
            Whether the roughness of curves has a penalty. Heights with a ridge alone need more
            rows each.
        """
        columns = max(1, len(self.plan.numeric))
        rows = _MOST_HEIGHTS if self.rows is None else self.rows
        each, most = (1, MOST_KNOTS) if is_smooth else (_ROWS_OF_RIDGE, _MOST_OF_RIDGE)
        knots = int(np.clip(min(rows // each, _MOST_HEIGHTS) // columns, 2, most))
        return self._replace(plan=replace(self.plan, knots=knots))

    def fit(self) -> Fit:
        """The recipe, and counts of its rows if a pass was made."""
        recipe = self.plan.fitted(self.state)
        if self.rows is None:
            return recipe, None
        return recipe, drift_of_fit(recipe, self.state, self.missing)


def summarised(table: Table, plan: RecipePlan) -> Summary:
    """The summary of a plan of explicit columns, by one pass; none without columns of numbers.

    Parameters
    ----------
    table
        The rows.
    plan
        The plan.

    Raises
    ------
    DataError
        There are no rows, or a value cannot be used.
    """
    if not plan.numeric:
        return Summary(plan, plan.zero(), {}, None)
    hashed = plan.fitted(plan.zero()).hashed
    tokens = Recipe(hashed=hashed) if hashed else None
    names = dict.fromkeys(column.name for column in plan.columns)
    raw = RawColumns.of(table, list(names), plan.zone, derived=plan.derived)

    def fold(batches: Batches) -> Iterator[tuple[str, State]]:
        missing = Drift.zero(tokens) if tokens else None

        def read() -> Iterator[Columns]:
            nonlocal missing
            for batch in batches:
                columns = raw.decode(batch.columns)
                if tokens and missing:
                    names = {c.name: columns[c.name] for c in tokens.columns}
                    missing = missing.merge(counted(tokens, names))
                yield columns

        yield _COLUMNS, plan.fold(read())
        if missing:
            yield _MISSING, missing

    kinds, size = (RecipeState, Drift), _bytes_of(table, raw.found[0], len(plan.numeric))
    states = table.select(raw.found).fold(fold, kinds, state_bytes=size, what=_what(raw))
    state = cast(RecipeState, states.get(_COLUMNS, plan.zero()))
    if not state.columns[0].rows:
        raise DataError("found no rows, expected some to fit a recipe to; check the input")
    drift = cast(Drift | None, states.get(_MISSING))
    return Summary(plan, state, drift.missing() if drift else {}, state.columns[0].rows)


def chosen(
    table: Table,
    plan: AutoPlan,
    label: str,
    positive: Label | bool | None,
    *,
    is_smooth: bool = False,
) -> Summary:
    """The columns that suit the rows, and their summary, by one pass.

    Parameters
    ----------
    table
        The rows.
    plan
        Columns, some of them of kind "auto".
    label, positive
        Label column and positive label; see `positive_label`.
    is_smooth
        Whether the ranker chooses how smooth its curves are. Of rows in memory it then leaves out
        the features that do not occur.

    Raises
    ------
    DataError
        There are no rows of one of the classes, no column is left, or a value cannot be used.
    """
    names = dict.fromkeys(column.name for column in plan.columns)
    settings = plan.widest
    raw = RawColumns.of(table, list(names), settings.zone, derived=settings.derived)
    value = positive_label(table, label, positive)

    def labelled(batches: Batches) -> Iterator[tuple[str, State]]:
        labels = LabelReader(label, value)
        yield (
            _COLUMNS,
            plan.fold(
                (raw.decode(batch.columns[:-1]), labels.read(batch.column(-1))) for batch in batches
            ),
        )

    size, rows = _bytes_of(table, label, 2 * len(raw.names)), table.select([*raw.found, label])
    states = rows.fold(labelled, (AutoState,), state_bytes=size, what=_what(raw))
    state = cast(AutoState, states.get(_COLUMNS, plan.zero()))
    count = state.positive.rows + state.negative.rows
    if count and not (state.positive.rows and state.negative.rows):
        check_classes(table, label, value)
    apart = is_smooth and count <= _ROWS_IN_MEMORY
    explicit, columns, decisions = plan.explicit(state, partial(_is_free_text, table), apart=apart)
    for decision in decisions:
        _log.log(logging.WARNING if decision.warning else logging.INFO, "%s", decision.sentence)
    return Summary(explicit, columns, plan.missing(state), count, decisions)


def _is_free_text(table: Table, name: str) -> bool:
    """Whether most words of some first rows are those of other rows too.

    Numbers do not count, and words of almost all rows, such as those of addresses and codes.
    """
    texts = table.head([field_of(table, name).name], _SHOWN)[0].to_pylist()
    words = [set(words_of(text)) for text in texts if text]
    rows = Counter(word for own in words for word in own if not word.isdigit())
    told = [count for count in rows.values() if count <= _ALMOST_ALL * len(words)]
    repeated = sum(count for count in told if count > 1)
    return rows.total() >= _FEWEST_WORDS * len(words) and repeated > sum(told) / 2


def _bytes_of(table: Table, name: str, columns: int) -> int:
    """Most bytes of the states of some columns of a table that has a column of this name."""
    most = _COLUMN_BYTES * columns
    if most <= _WORTH_COUNTING:
        return most
    return min(most, columns * (_HEADER_BYTES + _ROW_BYTES * row_count(table, name)))


def _what(raw: RawColumns) -> str:
    return f"values of {len(raw.names)} raw columns"
