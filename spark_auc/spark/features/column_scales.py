"""Distributions of numeric columns, and the scales in which kernels take the columns."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, TypedDict, cast

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.types import Float, Rows
from spark_auc.errors import DataError
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.composition import Composition
from spark_auc.features.embedding import Embedding
from spark_auc.features.raw_columns import Columns, Numbers
from spark_auc.features.recipe_fit import Planned, RecipePlan, RecipeState
from spark_auc.features.robust_scale import RobustScale
from spark_auc.features.value_counts import MOST_BYTES
from spark_auc.pipeline.settings import Range, Setting
from spark_auc.tables.features import Features
from spark_auc.tables.rows import TableRows

_log = logging.getLogger(__name__)

# Columns whose distributions are found in one pass: their states are small enough to be sent by
# every task.
_COLUMNS = 96
# Most columns whose default is the robust scale: each group of columns is a pass, and the scaled
# rows are dense.
_MOST_ROBUST = 256
# Why the estimators of kernels have no Param standardization.
REPLACED = "set scaling to 'standard' or 'none'"


class ScaleSettings(TypedDict, total=False):
    """The scale in which a kernel takes columns, and its bandwidth."""

    bandwidth: Annotated[
        float | None,
        Setting(
            "The kernel's bandwidth b; by default the mean squared distance of rows to their "
            "mean, in the scaled columns.",
            None,
            Range(gt=0),
        ),
    ]
    scaling: Annotated[
        Literal["robust", "standard", "none"] | None,
        Setting(
            "How columns are scaled. 'robust': standardised, those with heavy tails (kurtosis "
            "above 10) after a change to Gaussian scores of their ranks; missing values become "
            "the mean. 'standard': divided by their standard deviation. By default 'robust' for "
            "at most 256 columns, else 'standard'."
        ),
    ]


@dataclass(frozen=True)
class Scale:
    """How a kernel takes the columns of the rows of a fit.

    Parameters
    ----------
    robust
        Map of columns to their robust scale, if any.
    divisors : (d,)
        Divisors of the columns after that.
    variance
        Sum of the variances of the scaled columns: the mean squared distance of rows to their mean.
    rows, entries
        Number of rows, and of their stored entries.
    """

    robust: RobustScale | None
    divisors: Float
    variance: float
    rows: float
    entries: float

    @classmethod
    def of(cls, rows: TableRows, scaling: str) -> Scale:
        """The scale that fits the rows."""
        if scaling == "robust":
            return cls._robust(column_summaries(rows))
        columns = column_moments(rows)
        unit = columns.standard_deviation() if scaling == "standard" else np.ones(rows.dimension)
        variance = float((columns.variance[1] / unit**2).sum())
        return cls(None, unit, variance, columns.rows.sum(), columns.entries.sum())

    @classmethod
    def _robust(cls, columns: tuple[ColumnSummary, ...]) -> Scale:
        scale = RobustScale.of(column.counts.weighted() for column in columns)
        known = np.array([column.infinite + column.counts.rows for column in columns], float)
        total = float(columns[0].missing + known[0])
        variance = float((scale.varies() * known).sum() / total)
        return cls(scale, np.ones(len(columns)), variance, total, total * len(columns))

    def bandwidth(self, setting: float | None) -> float:
        """The bandwidth of a kernel; `DataError` if no column varies, or variances overflow."""
        if setting is not None:
            return setting
        if not 0 < self.variance < np.inf:
            raise DataError(
                f"found columns whose variances add up to {self.variance}, expected a finite sum "
                "above 0; give rows that differ, or set scaling to 'robust'"
            )
        return self.variance

    def scaled(self, X: Rows) -> Rows:
        """Rows ``(n, d)`` as the kernel takes them, but for the divisors."""
        return X if self.robust is None else self.robust.transform(X)

    def before(self, made: Embedding) -> Embedding:
        """The map of raw rows, from a map of rows as `scaled` returns them."""
        return made if self.robust is None else Composition((self.robust, made))


def resolved(scaling: str | None, features: Features) -> str:
    """The scaling of feature columns, by default."""
    if scaling is not None:
        return scaling
    found = "robust" if features.dimension <= _MOST_ROBUST else "standard"
    _log.info("scaling is %r, by default for %d columns", found, features.dimension)
    return found


def column_summaries(rows: TableRows) -> tuple[ColumnSummary, ...]:
    """Summaries of the ``d`` columns; one pass for each 96 columns."""
    found: list[ColumnSummary] = []
    for first in range(0, rows.dimension, _COLUMNS):
        names = [str(j) for j in range(first, min(first + _COLUMNS, rows.dimension))]
        plan = RecipePlan(tuple(Planned(name, "float", "spline") for name in names))
        states = rows.fold(
            partial(_fold, plan, first),
            (RecipeState,),
            state_bytes=MOST_BYTES * len(names),
            what=f"distributions of {len(names)} columns",
        )
        found += cast(RecipeState, states["columns"]).columns
    return tuple(found)


def _fold(
    plan: RecipePlan, first: int, batches: Iterator[Batch]
) -> Iterator[tuple[str, RecipeState]]:
    yield "columns", plan.fold(_columns(batch.X, first, len(plan.columns)) for batch in batches)


def _columns(X: Rows, first: int, count: int) -> Columns:
    part = X[:, first : first + count]
    dense = np.asarray(part if isinstance(part, np.ndarray) else part.toarray(), float)
    return {str(first + k): Numbers(dense[:, k]) for k in range(count)}
