"""Training rows as learners take them: in which order, and in which columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from scipy import sparse

from spark_auc.core.batch import Batch, divided
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.row_source import State, batchwise
from spark_auc.core.sampling.repeats import distinct_keys
from spark_auc.core.sampling.sample_size import LargestNorm
from spark_auc.core.types import Float, Rows
from spark_auc.learners.steps import Lengths
from spark_auc.spark.data.columns import TrainingColumns
from spark_auc.spark.data.features import known_column, quoted
from spark_auc.spark.data.rows import DistributedRows

# Columns beside those of the rows: a hash of the row, and one that also tells equal rows apart.
_CONTENT, _OTHER, _PLACE = "spark_auc_content", "spark_auc_other", "spark_auc_place"


@dataclass(frozen=True)
class RowOrder:
    """In which order tasks take rows.

    Parameters
    ----------
    frame
        The rows.
    column
        The column by which one task takes them; None for an order that is drawn. Rows of one
        value are in a drawn order.
    seed
        What the drawn order is a function of, with the rows alone. It does not depend on how rows
        arrive: they are sorted by a hash of what is in them and, where rows are equal, of their
        number among these, which may be given to them in any order. Repeated rows are so spread
        over the order as others are.
    tasks
        How many there are. Drawn rows go to a task by the same hash, so that each has a sample of
        all rows, however they lie.
    """

    frame: DataFrame
    column: str | None
    seed: int
    tasks: int = 1

    @classmethod
    def of(
        cls, df: DataFrame, columns: TrainingColumns, column: str | None, seed: int, tasks: int
    ) -> RowOrder:
        """The order of rows of these columns.

        Parameters
        ----------
        df
            The rows.
        columns
            What is hashed.
        column
            The column by which a single task takes them, if any.
        seed, tasks
            As above.

        Raises
        ------
        ConfigError
            The column is unknown.
        """
        names = [*columns.names, *([columns.key] if columns.key else [])]
        chosen = [F.col(quoted(name)) for name in dict.fromkeys(names)]
        if tasks == 1 and column is not None:
            known_column(df, column)
            return cls(df.withColumn(_CONTENT, F.xxhash64(F.lit(seed), *chosen)), column, seed)
        # Of two hashes, so that no two different rows are taken as equal.
        hashed = df.select(
            *chosen,
            F.xxhash64(*chosen).alias(_CONTENT),
            F.xxhash64(F.lit(1), *chosen).alias(_OTHER),
        )
        alike = Window.partitionBy(_CONTENT, _OTHER).orderBy(_CONTENT)
        number = F.row_number().over(alike)
        place = F.xxhash64(_CONTENT, _OTHER, number).alias(_PLACE)
        return cls(hashed.select(*chosen, _CONTENT, place), None, seed, tasks)

    def arranged(self, number: int) -> DataFrame:
        """The rows in their order; a drawn one is another for each ``number`` of a pass."""
        if self.column is not None:
            return self.frame.repartition(1).sortWithinPartitions(
                F.col(quoted(self.column)), _CONTENT
            )
        drawn = F.xxhash64(F.lit(self.seed), F.lit(number), F.col(_PLACE))
        placed = self.frame.withColumn(_PLACE, drawn)
        return placed.repartition(self.tasks, _PLACE).sortWithinPartitions(_PLACE, _CONTENT)

    @contextmanager
    def kept(self) -> Iterator[RowOrder]:
        """The order of rows that are cached, as far as Spark's memory goes."""
        frame = self.frame.persist(StorageLevel.MEMORY_ONLY)
        try:
            yield replace(self, frame=frame)
        finally:
            frame.unpersist()


@dataclass(frozen=True, eq=False)
class SequentialRows:
    """Training rows as learners take them.

    Parameters
    ----------
    columns
        Their columns.
    rows
        The rows as they are, in no order.
    order
        The order in which they are learnt.
    surveyed, labels
        Column moments of the rows as they are, and how many have each label.
    scale : (d,)
        Standard deviations, or 1.
    keyed
        Whether rows have keys: those of the key column, or else such as tell copies apart. They
        are made before columns are scaled: a key must not depend on the last bits of the columns'
        moments.
    taken
        The rows in learnt columns and in order, where every pass takes them in the same.
    """

    columns: TrainingColumns
    rows: DistributedRows
    order: RowOrder
    surveyed: ColumnMoments
    labels: LabelCounts
    scale: Float
    keyed: bool = False
    taken: DistributedRows | None = None

    @cached_property
    def shift(self) -> Float:
        """What is subtracted from columns before they are scaled ``(d,)``.

        The mean, where its square is larger than the variance, else 0. No shift changes how rows
        rank; without it steps along such columns would have to be short. At least half of such a
        column's entries are not 0 (``E[x]^2 <= P(x != 0) E[x^2]``), so that sparse rows at most
        double.
        """
        shares = self.surveyed.weight / self.surveyed.weight.sum()
        mean = shares @ self.surveyed.mean
        return np.asarray(np.where(mean**2 > self._variance, mean, 0.0))

    @property
    def _variance(self) -> Float:
        shares = self.surveyed.weight / self.surveyed.weight.sum()
        within: Float = shares @ self.surveyed.variance
        return np.asarray(within + shares[0] * shares[1] * self.surveyed.delta**2)

    @property
    def squared_length(self) -> float:
        """Mean squared length of a row in learnt columns."""
        shares = self.surveyed.weight / self.surveyed.weight.sum()
        mean = shares @ self.surveyed.mean - self.shift
        return float(((self._variance + mean**2) / self.scale**2).sum())

    @cached_property
    def lengths(self) -> Lengths:
        """Lengths of the rows in learnt columns, by one pass."""

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

        found = self.rows_scaled.fold(
            fold, (ColumnMoments, LargestNorm), state_bytes=1024, what="lengths of rows"
        )
        squared = cast(LargestNorm, found["longest"]).squared
        return Lengths(cast(ColumnMoments, found["squares"]), float(np.sqrt(squared)))

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.surveyed.rows.sum())

    @property
    def rows_scaled(self) -> DistributedRows:
        """The rows in learnt columns, in no order."""
        return self._learnt(self.rows)

    def ordered(self, number: int = 0) -> DistributedRows:
        """The rows in learnt columns, in the order of the pass of this number."""
        if self.taken is not None:
            return self.taken
        return self._learnt(DistributedRows.of(self.order.arranged(number), self.columns))

    @contextmanager
    def kept(self, anew: bool) -> Iterator[SequentialRows]:
        """The same while rows are taken again and again.

        Parameters
        ----------
        anew
            Whether each pass draws another order; else all take the rows in the first one.
        """
        if anew and self.order.column is None:
            with self.order.kept() as order:
                yield replace(self, order=order)
            return
        with self.ordered().kept() as taken:
            yield replace(self, taken=taken)

    def _learnt(self, rows: DistributedRows) -> DistributedRows:
        shift, scale = self.shift, self.scale
        moved = np.flatnonzero(shift)

        def learnt(batch: Batch) -> Batch:
            return batch._replace(X=divided(_shifted(batch.X, shift, moved), scale))

        if self.keyed and not self.columns.key:
            rows = rows.changed(distinct_keys())
        return rows.changed(batchwise(learnt))


def _shifted(X: Rows, shift: Float, moved: NDArray[np.int64]) -> Rows:
    """Rows ``(n, d)`` less ``shift`` ``(d,)``, of which ``moved`` are not 0."""
    if not moved.size:
        return X
    if isinstance(X, np.ndarray):
        return np.asarray(X - shift)
    n = X.shape[0]
    starts = np.arange(0, n * moved.size + 1, moved.size)
    same = (np.tile(shift[moved], n), np.tile(moved, n), starts)
    return sparse.csr_matrix(X - sparse.csr_matrix(same, X.shape))


def _squares(X: Rows) -> Float:
    """Squared lengths ``(n,)`` of rows ``(n, d)``."""
    if isinstance(X, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", X, X), float)
    return np.asarray(X.multiply(X).sum(axis=1), float).ravel()
