"""What a stream asks of a way of learning its rows; `all_pairs` and `one_by_one` are two."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from spark_auc.core.types import Float
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.tables.columns import TrainingColumns
from spark_auc.training.stream_statistics import StreamMoments, StreamStatistics


class Part(NamedTuple):
    """Rows of a batch of a stream.

    Parameters
    ----------
    table, columns
        The rows and their columns.
    before
        The statistics of the rows before them; None if there are none.
    w : (d,), optional
        Weights of the model before the batch, which score the rows.
    batch, file
        Number of the batch, and of the first of their files in it; 0 for rows without files.
    """

    table: SparkTable
    columns: TrainingColumns
    before: StreamStatistics | None
    w: Float | None
    batch: int
    file: int


class Learning(Protocol):
    """Makes the statistics of rows, and the model of statistics."""

    @property
    def in_order(self) -> bool:
        """Whether rows are learned in the order of their files, and of the rows in them."""

    @property
    def keyed(self) -> bool:
        """Whether rows need their key, or their place."""

    def check(self, before: StreamStatistics) -> None:
        """`ConfigError` if the statistics of an earlier run cannot go on."""

    def learned(self, part: Part) -> StreamStatistics:
        """The statistics of some rows.

        Raises
        ------
        ConfigError
            The first rows do not suffice to begin with.
        DataError
            A value cannot be used.
        ResourceError
            The statistics do not fit in memory.
        """

    def model(self, statistics: StreamStatistics, columns: TrainingColumns) -> LinearRankerModel:
        """The model of rows of both classes."""


def other_learner(found: StreamMoments, expected: str) -> str:
    """The message for a checkpoint of another learner."""
    return (
        f"found a checkpoint of {type(found).__name__} with opauc.learner {expected!r}, expected "
        "one of the same learner; set opauc.learner as it was, or another opauc.stream.checkpoint "
        "to start again"
    )
