"""Approximate covariances of many features: their settings, and their moments of parts of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch, mixed
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.head_moments import HeadAccumulator, HeadMoments, largest_columns
from spark_auc.core.moments.low_rank_moments import LowRankAccumulator, LowRankMoments
from spark_auc.core.row_source import RowSource, State, batchwise
from spark_auc.core.sampling.repeats import distinct_keys
from spark_auc.core.validation import check_whole
from spark_auc.errors import ConfigError

Covariance = Literal["full", "head", "lowRank"]


# Both have `dimension`, `columns`, `divisors`, `quadratic`, `along` and `facts`.
ApproximateMoments: TypeAlias = HeadMoments | LowRankMoments


@dataclass(frozen=True)
class Approximation:
    """How covariances are approximated.

    Parameters
    ----------
    kind
        "full": they are not. "head": exact ones of the columns with the largest second moments,
        and variances alone of the others; see `spark_auc.core.moments.head_moments`. "lowRank":
        random sketches, as OPAUCr; see `spark_auc.core.moments.low_rank_moments`.
    head_size
        Number of columns of the head.
    rank
        Rank of the sketches.
    seed
        Seed of the sketches.
    keyed
        Whether each row has a key of its own, by which a sketch draws; otherwise keys are made of
        content, place and number.
    head
        Numbers of the columns of the head, ascending. Default: `chosen` by column moments.

    Raises
    ------
    ConfigError
        A number is out of range, or the kind is unknown.
    """

    kind: Covariance = "full"
    head_size: int = 4000
    rank: int = 50
    seed: int = 0
    keyed: bool = False
    head: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("full", "head", "lowRank"):
            raise ConfigError(
                f"found covariance {self.kind!r}, expected 'full', 'head' or 'lowRank'; set it so"
            )
        check_whole("headSize", self.head_size, 1)
        check_whole("covarianceRank", self.rank, 1)

    @classmethod
    def of(cls, moments: ApproximateMoments) -> Approximation:
        """The approximation of which moments are."""
        if isinstance(moments, HeadMoments):
            return cls("head").of_head(moments.head)
        return cls("lowRank", rank=moments.rank, seed=moments.seed)

    def of_head(self, head: Iterable[int]) -> Approximation:
        """The approximation whose head, if it has one, has these columns."""
        numbers = tuple(map(int, head))
        return replace(self, head=numbers, head_size=max(len(numbers), 1))

    @property
    def chooses(self) -> bool:
        """Whether rows are to choose the columns of a head."""
        return self.kind == "head" and self.head is None

    def chosen(self, columns: ColumnMoments) -> Approximation:
        """The approximation with a head, if it has one, which these moments choose by default."""
        if not self.chooses:
            return self
        return self.of_head(largest_columns(columns, self.head_size))

    def state_bytes(self, dimension: int) -> int:
        """Size in bytes of a state of ``dimension`` features."""
        if self.kind == "head":
            return HeadMoments.nbytes(dimension, self.head_size)
        return LowRankMoments.nbytes(dimension, self.rank)

    def what(self, dimension: int) -> str:
        """The states in words, for messages."""
        size = f"a head of {self.head_size}" if self.kind == "head" else f"rank {self.rank}"
        return f"covariances of {size} among {dimension} features"

    def rows(self, rows: RowSource, part: tuple[int, ...] = ()) -> RowSource:
        """The rows, with a key for each where a sketch needs it.

        Parameters
        ----------
        rows
            The rows.
        part
            Numbers of the part of a stream that they are: equal rows of two parts draw for
            themselves.
        """
        if self.kind == "head" or self.keyed:
            return rows
        rows = rows.changed(distinct_keys(by_place=True))
        if not part:
            return rows
        salt = np.uint64(0)
        for number in part:
            (salt,) = mixed(np.array([number + 1], np.uint64) ^ salt)
        return rows.changed(batchwise(lambda batch: batch._replace(key=mixed(batch.keys() ^ salt))))

    def begun(self, dimension: int) -> Callable[[], HeadAccumulator | LowRankAccumulator]:
        """What begins a state of no rows of ``dimension`` features; a head is `chosen` before."""
        if self.kind == "head":
            return partial(HeadAccumulator, dimension, np.array(self.head, np.int64))
        return partial(LowRankAccumulator, dimension, self.rank, self.seed)


def moments_of_parts(
    rows: RowSource,
    approximation: Approximation,
    columns: ColumnMoments,
    part_of: Callable[[Batch], NDArray[np.int64]],
    parts: int,
) -> list[ApproximateMoments]:
    """The approximate moments of each part of the rows, in one pass.

    Parameters
    ----------
    rows
        All rows.
    approximation
        How their covariances are approximated.
    columns
        Their column moments.
    part_of
        The part ``(n,)`` of each row, from 0 on.
    parts
        Number of parts.

    Raises
    ------
    ResourceError
        The moments do not fit in memory.
    """
    size, what = approximation.state_bytes(rows.dimension), approximation.what(rows.dimension)
    rows.memory.check_folds(size, parts, what)
    # Tasks need the head alone, and not the moments that chose it.
    begun = approximation.chosen(columns).begun(rows.dimension)

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        made = [begun() for _ in range(parts)]
        for batch in batches:
            part = part_of(batch)
            for k, accumulator in enumerate(made):
                accumulator.add(batch.take(np.flatnonzero(part == k)) if parts > 1 else batch)
        for k, accumulator in enumerate(made):
            yield str(k), accumulator.finish()

    found = approximation.rows(rows).fold(
        fold, (HeadMoments, LowRankMoments), state_bytes=parts * size, what=what
    )
    return [cast(ApproximateMoments, found[str(k)]) for k in range(parts)]
