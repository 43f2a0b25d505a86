"""AUC of each group of scored rows.

Spark sorts the rows by group and score and cuts them into partitions of about a million rows. A
small group is in one partition, a large one in several. A task sums its rows as they arrive, so
that it needs memory for one batch. The driver merges the sums of groups that tasks share.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DoubleType, FloatType

from spark_auc.core.evaluation.group_sums import GroupMeasures, GroupSums
from spark_auc.core.evaluation.groups import Groups
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, SparkAUCError
from spark_auc.spark.data.aggregate import task_number
from spark_auc.spark.data.arrow_tasks import mapped_batches
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.evaluation.score_columns import ScoreColumns

_log = logging.getLogger(__name__)

# Rows of a partition. Spark sorts them, and spills them to disk where memory is short.
_TASK_ROWS = 1 << 20

_MEASURES = GroupMeasures._fields
# The sums are sent of groups that other tasks may have rows of too: a task's first and last.
_SCHEMA = pa.schema(
    [
        ("task", pa.int32()),
        ("value", pa.string()),
        ("positive", pa.int64()),
        ("negative", pa.int64()),
        ("weight", pa.float64()),
        ("auc", pa.float64()),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
        ("sums", pa.binary()),
    ]
)


def by_group(
    df: DataFrame,
    columns: ScoreColumns,
    column: str,
    level: float,
    count: int,
    class_rows: tuple[int, int] | None = None,
) -> Groups:
    """Measure the AUC of the rows of each value of a column.

    Parameters
    ----------
    df
        Scored rows, whose scores, labels and weights are valid.
    columns
        Names of the score, label and weight columns.
    column
        Name of the group column.
    level
        Confidence level.
    count
        Number of rows, or more.
    class_rows
        Numbers of positive and of negative rows of weight above 0; None if they are unknown.

    Raises
    ------
    ConfigError
        The column is unknown, or binary.
    SparkAUCError
        Spark lost rows, or computed them again with other values.
    """
    start = time.perf_counter()
    weight = ["weight"] if columns.weight else []
    rows = columns.select(df, group=_text(df, column), y=columns.is_positive(df))
    # Numbers sort faster than text. Different values can have one hash.
    keys = [F.xxhash64("group"), F.col("group").asc_nulls_last(), F.col("score")]
    rows = rows.drop("label").repartitionByRange(max(1, -(-count // _TASK_ROWS)), *keys)
    # With labels and weights, sums do not depend on the order in which rows arrive.
    rows = rows.sortWithinPartitions(*keys, "y", *weight)
    with translated():
        table = mapped_batches(rows, _measuring(level), _SCHEMA).toArrow().cast(_SCHEMA)
    groups = _merged(column, table, level)
    found = tuple(int(values.sum()) for values in groups.measures[:2])
    distinct = pc.count_distinct(pa.array(groups.values, pa.string()), mode="all").as_py()
    if (class_rows is not None and found != class_rows) or distinct < len(groups):
        raise SparkAUCError(
            f"found {found} positive and negative rows in {distinct} groups of {column!r}, in "
            f"{len(groups)} parts, expected {class_rows} and each group once: Spark lost rows, or "
            "computed them again with other values; write the scored rows, and measure these"
        )
    _log.info("measured %d groups in %.1f s", len(groups), time.perf_counter() - start)
    return groups


def _text(df: DataFrame, column: str) -> Column:
    """The values of the column as text."""
    kind, values = known_column(df, column).dataType, F.col(quoted(column))
    if isinstance(kind, BinaryType):
        raise ConfigError(
            f"found the group column {column!r} of type binary, expected text, numbers, booleans "
            "or times; set groupCol to a column of hex(...) of it"
        )
    if isinstance(kind, FloatType | DoubleType):
        # Zeros of either sign are one value.
        values = F.when(values == 0, F.lit(0).cast(kind)).otherwise(values)
    return values.cast("string")


def _measuring(level: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task, sent = task_number(), False
        value, sums, before = pa.nulls(1, pa.string()), None, None
        for batch in batches:
            if not batch.num_rows:
                continue
            runs = pc.run_end_encode(batch["group"])
            values, ends = runs.values, runs.run_ends.to_numpy().astype(np.int64)
            if sums is not None and values[0].as_py() != value[0].as_py():
                yield _groups(task, value, sums, level, shared=not sent)
                sent, before = True, None
            sums, before = GroupSums.of(ends, *_columns(batch), before)
            if len(values) > 1:
                yield _groups(task, values[:-1], sums.take(slice(-1)), level, shared=not sent)
                sent = True
            value, sums = values[-1:], sums.take(slice(-1, None))
        if sums is not None:
            yield _groups(task, value, sums, level, shared=True)

    return run


def _columns(batch: pa.RecordBatch) -> tuple[Float, NDArray[np.bool_], Float]:
    """Scores, labels and weights."""
    score, y = (batch[name].to_numpy(zero_copy_only=False) for name in ("score", "y"))
    weighted = "weight" in batch.schema.names
    weight = batch["weight"].to_numpy(zero_copy_only=False) if weighted else np.ones(score.size)
    return score, y, weight


def _groups(
    task: int, values: pa.Array, sums: GroupSums, level: float, *, shared: bool
) -> pa.RecordBatch:
    """Measures of groups; of the first the sums too if other tasks may share it."""
    measures = [pa.array(column) for column in sums.measures(level)]
    tasks = pa.array(np.full(len(values), task, np.int32))
    payload = [sums.values[0].tobytes() if shared else None, *[None] * (len(values) - 1)]
    arrays = [tasks, values, *measures, pa.array(payload, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, _SCHEMA.names)


def _merged(column: str, table: pa.Table, level: float) -> Groups:
    """The groups in the order of their values, once those that tasks share are merged."""
    parts: dict[str | None, GroupSums] = {}
    shared = table.filter(pc.is_valid(table["sums"])).select(["task", "value", "sums"])
    for row in sorted(shared.to_pylist(), key=lambda row: row["task"]):
        sums, value = GroupSums(np.frombuffer(row["sums"])[None]), row["value"]
        parts[value] = parts[value].merge(sums) if value in parts else sums
    whole = table.filter(pc.is_null(table["sums"]))
    values = pa.concat_arrays([*whole["value"].chunks, pa.array(list(parts), pa.string())])
    order = pc.sort_indices(values).to_numpy()
    both = zip(_MEASURES, GroupSums.union(parts.values()).measures(level), strict=True)
    measures = [np.concatenate([whole[name].to_numpy(), own])[order] for name, own in both]
    names = values.to_numpy(zero_copy_only=False)[order]
    return Groups(column, names, GroupMeasures(*measures))
