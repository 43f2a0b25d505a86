"""Rows for sequential learners: ordered, shifted and scaled."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_auc.core.batch import Batch, divided, shifted
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.row_source import State, batchwise
from spark_auc.core.sampling.repeats import distinct_keys
from spark_auc.core.sampling.sample_size import LargestNorm
from spark_auc.core.types import Float, Rows
from spark_auc.learners.steps import Lengths
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.rows import TableRows
from spark_auc.tables.table import Table

_log = logging.getLogger(__name__)

# Added columns: two hashes of the row, and a hash that differs between copies of one row.
_CONTENT, _OTHER, _PLACE = "spark_auc_content", "spark_auc_other", "spark_auc_place"


@dataclass(frozen=True)
class RowOrder:
    """The order in which tasks learn rows.

    A random order sorts rows by a hash of the seed, of their values and of their number among equal
    rows. It depends on the seed and the values alone, and spreads copies of a row over the order.

    Parameters
    ----------
    frame
        The rows.
    column
        Column to sort by, in one task; ties have a random order. None for a random order of all
        rows.
    seed
        Seed of the random order.
    tasks
        Number of tasks. In a random order the hash also assigns rows to tasks, so that each task
        learns a random sample of the rows.
    """

    frame: DataFrame
    column: str | None
    seed: int
    tasks: int = 1

    @classmethod
    def of(
        cls, table: Table, columns: TrainingColumns, column: str | None, seed: int, tasks: int
    ) -> RowOrder:
        """The order of the rows of a table of Spark's.

        Parameters
        ----------
        table
            The rows.
        columns
            The columns to hash.
        column
            Column to sort by if there is one task; None for a random order.
        seed, tasks
            See `RowOrder`.

        Raises
        ------
        ConfigError
            The column is unknown.
        """
        df, names = cast(SparkTable, table).filtered(), columns.names
        selected = [F.col(quoted(name)) for name in dict.fromkeys(names)]
        if tasks == 1 and column is not None:
            known_column(df, column)
            return cls(df.withColumn(_CONTENT, F.xxhash64(F.lit(seed), *selected)), column, seed)
        # Two hashes of 64 bits, so that different rows do not count as equal.
        hashed = df.select(
            *selected,
            F.xxhash64(*selected).alias(_CONTENT),
            F.xxhash64(F.lit(1), *selected).alias(_OTHER),
        )
        equal_rows = Window.partitionBy(_CONTENT, _OTHER).orderBy(_CONTENT)
        number = F.row_number().over(equal_rows)
        place = F.xxhash64(_CONTENT, _OTHER, number).alias(_PLACE)
        return cls(hashed.select(*selected, _CONTENT, place), None, seed, tasks)

    def arranged(self, number: int) -> DataFrame:
        """Sort the rows for a pass; each pass ``number`` has a random order of its own."""
        if self.column is not None:
            return self.frame.repartition(1).sortWithinPartitions(
                F.col(quoted(self.column)), _CONTENT
            )
        drawn = F.xxhash64(F.lit(self.seed), F.lit(number), F.col(_PLACE))
        placed = self.frame.withColumn(_PLACE, drawn)
        return placed.repartition(self.tasks, _PLACE).sortWithinPartitions(_PLACE, _CONTENT)

    @contextmanager
    def kept(self) -> Iterator[RowOrder]:
        """Cache the unsorted rows in Spark's memory for the passes inside the block."""
        frame = self.frame.persist(StorageLevel.MEMORY_ONLY)
        try:
            yield replace(self, frame=frame)
        finally:
            frame.unpersist()


@dataclass(frozen=True, eq=False)
class SequentialRows:
    """Training rows of a sequential learner: their order, shift and scale.

    Parameters
    ----------
    columns
        Columns of the rows.
    rows
        The unscaled rows, in any order.
    order
        The order in which they are learned.
    surveyed
        Column moments of the unscaled rows.
    labels
        Number of rows of each label.
    scale : (d,)
        Standard deviations of the columns, or 1.
    centering
        Whether columns far from 0 are shifted to their mean.
    keyed
        Whether every row has a key, from the key column or from a hash that differs between copies
        of a row. Keys are made before scaling, so that they do not depend on the last bits of the
        column moments.
    ordered_rows
        The scaled and ordered rows, if every pass uses the same order.
    """

    columns: TrainingColumns
    rows: TableRows
    order: RowOrder
    surveyed: ColumnMoments
    labels: LabelCounts
    scale: Float
    centering: bool = True
    keyed: bool = False
    ordered_rows: TableRows | None = None

    @cached_property
    def shift(self) -> Float:
        """Shift ``(d,)`` subtracted from the columns before scaling.

        With ``centering`` it is the mean of a column whose squared mean exceeds its variance, else
        0. A shift does not change differences of rows, and allows longer gradient steps. At least
        half of the entries of a
        shifted column are nonzero, since ``E[x]^2 <= P(x != 0) E[x^2]``; sparse rows therefore grow
        by a factor of 2 at most.
        """
        shares = self.surveyed.weight / self.surveyed.weight.sum()
        mean = shares @ self.surveyed.mean
        far = (mean**2 > self._variance) & self.centering
        if far.any():
            _log.info("%d of %d columns are learnt minus their mean", far.sum(), far.size)
        return np.asarray(np.where(far, mean, 0.0))

    @property
    def _variance(self) -> Float:
        shares = self.surveyed.weight / self.surveyed.weight.sum()
        within: Float = shares @ self.surveyed.variance
        return np.asarray(within + shares[0] * shares[1] * self.surveyed.delta**2)

    @property
    def squared_length(self) -> float:
        """Mean squared Euclidean norm of the shifted and scaled rows."""
        shares = self.surveyed.weight / self.surveyed.weight.sum()
        mean = shares @ self.surveyed.mean - self.shift
        return float(((self._variance + mean**2) / self.scale**2).sum())

    @cached_property
    def lengths(self) -> Lengths:
        """Norms of the shifted and scaled rows, by one pass."""

        def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            longest = LargestNorm()

            def squared() -> Iterator[Batch]:
                nonlocal longest
                for batch in batches:
                    longest = longest.merge(LargestNorm.of(batch.X))
                    squares = _squares(batch.X) * batch.weights
                    yield Batch(squares[:, None], batch.y)

            yield "squares", ColumnMoments.fold(squared(), 1)
            yield "longest", longest

        states = self.rows_scaled.fold(
            fold, (ColumnMoments, LargestNorm), state_bytes=1024, what="norms of rows"
        )
        squared = cast(LargestNorm, states["longest"]).squared
        return Lengths(cast(ColumnMoments, states["squares"]), float(np.sqrt(squared)))

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.surveyed.rows.sum())

    @property
    def rows_scaled(self) -> TableRows:
        """The shifted and scaled rows, in any order."""
        return self._scaled(self.rows)

    def ordered(self, number: int = 0) -> TableRows:
        """The shifted and scaled rows, in the order of pass ``number``."""
        if self.ordered_rows is not None:
            return self.ordered_rows
        arranged = SparkTable(self.order.arranged(number), sources=self.order.tasks, files=False)
        return self._scaled(TableRows.of(arranged, self.columns))

    @contextmanager
    def kept(self, anew: bool) -> Iterator[SequentialRows]:
        """Cache the rows for the passes inside the block.

        Parameters
        ----------
        anew
            Whether each pass has a random order of its own; else all use that of pass 0.
        """
        if anew and self.order.column is None:
            with self.order.kept() as order:
                yield replace(self, order=order)
            return
        with self.ordered().kept() as rows:
            yield replace(self, ordered_rows=rows)

    def _scaled(self, rows: TableRows) -> TableRows:
        shift, scale = self.shift, self.scale

        def scaled(batch: Batch) -> Batch:
            return batch._replace(X=divided(shifted(batch.X, shift), scale))

        if self.keyed and not self.columns.key:
            rows = rows.changed(distinct_keys())
        return rows.changed(batchwise(scaled))


def _squares(X: Rows) -> Float:
    """Squared Euclidean norms ``(n,)`` of rows ``(n, d)``."""
    if isinstance(X, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", X, X), float)
    return np.asarray(X.multiply(X).sum(axis=1), float).ravel()
