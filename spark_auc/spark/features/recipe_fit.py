"""Passes over a DataFrame to which a recipe is fitted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from spark_auc.core.labels import Label
from spark_auc.core.row_source import State
from spark_auc.errors import DataError
from spark_auc.features.auto_state import AutoState
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_auto import AutoPlan
from spark_auc.features.recipe_fit import RecipePlan, RecipeState
from spark_auc.spark.data.aggregate import aggregate
from spark_auc.spark.data.labels import LabelReader, label_column
from spark_auc.spark.data.parquet import rows_for_tasks
from spark_auc.spark.data.raw_columns import RawColumns

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=State)
# Bytes of the state of a column: at most 2^14 values, counts and tallies.
_COLUMN_BYTES = 700_000


def fitted(df: DataFrame, plan: RecipePlan, knots: Sequence[int]) -> list[Recipe]:
    """Recipes of a plan of explicit columns, by one pass over those of numbers.

    Parameters
    ----------
    df
        The rows.
    plan
        The plan.
    knots
        Numbers of knots, of one recipe each.

    Raises
    ------
    DataError
        There are no rows, or a value cannot be used.
    """
    names = [column.name for column in plan.numeric]
    if not names:
        return [plan.fitted(plan.zero())] * len(knots)
    raw = RawColumns.of(df, list(dict.fromkeys(names)))

    def fold(batches: Iterable[pa.RecordBatch]) -> RecipeState:
        return plan.fold(raw.decode(batch.columns[: raw.width]) for batch in batches)

    state = _folded(df, raw, [], fold, RecipeState, plan.zero(), _COLUMN_BYTES * len(names))
    if not state.columns[0].rows:
        raise DataError("found no rows, expected some to fit a recipe to; check the input")
    return [replace(plan, knots=count).fitted(state) for count in knots]


def chosen(
    df: DataFrame,
    plan: AutoPlan,
    label: str,
    positive: Label | bool | None,
    knots: Sequence[int],
) -> tuple[RecipePlan, list[Recipe]]:
    """The columns that suit the rows, and their recipes, by one pass over all columns.

    Parameters
    ----------
    df
        The rows.
    plan
        Columns, some of them of kind "auto".
    label, positive
        Label column and positive label; see `label_column`.
    knots
        Numbers of knots, of one recipe each.

    Raises
    ------
    DataError
        There are no rows of one of the classes, no column is left, or a value cannot be used.
    """
    raw = RawColumns.of(df, list(dict.fromkeys(column.name for column in plan.columns)))
    column, positive = label_column(df, label, positive, raw.field(df, label))

    def labelled(batches: Iterable[pa.RecordBatch]) -> AutoState:
        labels = LabelReader(label, positive)
        return plan.fold(
            (raw.decode(batch.columns[: raw.width]), labels.read(batch.column(raw.width)))
            for batch in batches
        )

    size = 2 * _COLUMN_BYTES * len(raw.names)
    state = _folded(df, raw, [label], labelled, AutoState, plan.zero(), size, column)
    explicit, columns, decisions = plan.explicit(state)
    for decision in decisions:
        _log.log(logging.WARNING if decision.warning else logging.INFO, "%s", decision.sentence)
    return explicit, [replace(explicit, knots=count).fitted(columns) for count in knots]


def _folded(
    df: DataFrame,
    raw: RawColumns,
    names: Sequence[str],
    fold: Callable[[Iterable[pa.RecordBatch]], S],
    kind: type[S],
    zero: S,
    size: int,
    *others: Column,
) -> S:
    """The merged state of all rows; the columns ``others`` have these names in the DataFrame."""
    expressions = [*raw.expressions(), *others]
    selected = df.select(*(column.alias(f"c{k}") for k, column in enumerate(expressions)))
    frame, read = rows_for_tasks(df, [*raw.columns, *names], selected)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, State]]:
        yield "columns", fold(batch for batch in read(batches) if batch.num_rows)

    what = f"values of {len(raw.names)} raw columns"
    states = aggregate(frame, run, (kind,), state_bytes=size, what=what)
    return cast(S, states.get("columns", zero))
