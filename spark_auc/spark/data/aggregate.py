"""Fold the partitions of a DataFrame into states, and merge the states by key in a fixed order.

A state is sent as a row of key, source partition and compressed bytes. Rows of one key merge in the
order of their source partitions, so the order in which tasks finish changes no bit of the result.
If all states exceed the driver's limit, executors merge groups of 32 sources first.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from spark_auc.core.parallel import mapped
from spark_auc.core.row_source import State
from spark_auc.core.state.codec import kind_of
from spark_auc.errors import SparkAUCError
from spark_auc.spark.data.arrow_tasks import grouped, mapped_batches
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.resources import SessionMemory, task_slots
from spark_auc.tables.table import Batches, Fold

_log = logging.getLogger(__name__)

# A larger state costs more to send than its partition's rows cost to read.
LARGE_STATE = 16 * 2**20
# A task costs some 35 ms of CPU time beside its rows; more tasks balance the slots no better.
SOURCES_PER_SLOT = 4
_FAN_IN = 32
_RESULTS_PER_SOURCE = 4
# Stored states already pack their zeros. A stronger codec costs more time than it saves in bytes.
_CODEC = "lz4"

_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("source", pa.int32()),
        ("merged", pa.int32()),
        ("size", pa.int64()),
        ("payload", pa.binary()),
    ]
)
# Control rows. Each partition sends _PRESENT with its number of states; one extra task sends
# _PLANNED with the number of partitions. The driver compares both with the rows that it receives.
_PRESENT, _PLANNED = "", "\0"

Kinds: TypeAlias = Mapping[str, type[State]]


def aggregate(
    df: DataFrame,
    fold: Fold,
    kinds: Iterable[type[State]],
    *,
    state_bytes: int,
    what: str,
    sources: int | None = None,
) -> dict[str, State]:
    """Fold every partition and merge the states by key.

    Parameters
    ----------
    df
        The columns that the fold reads.
    fold, kinds, state_bytes, what
        See `Table.fold`, also for the result and the errors; a part is a partition.
    sources
        Largest number of partitions of ``df``, if each has a task of its own. None: the partitions
        are grouped into `source_count` tasks. Spark groups by preferred locations where there are
        any, as for cached partitions and files on HDFS; then the last bits can differ between runs.
    """
    spark = df.sparkSession
    memory = SessionMemory(spark)
    memory.check(state_bytes, what)
    if sources is None:
        sources = source_count(spark, state_bytes)
        df = df.coalesce(sources)
    by_name = {kind.__name__: kind for kind in kinds}
    rows = mapped_batches(df, _folding(fold), _SCHEMA)
    # Two partitions, the first of them empty: Spark joins the partitions of DataFrames with one
    # partition each, and the second would not follow the first.
    rows = rows.union(mapped_batches(spark.range(0, 1, 1, 2), _count_partitions, _SCHEMA))
    start = time.perf_counter()
    size, limit = sources * state_bytes, memory.gather_limit
    if state_bytes > LARGE_STATE and size <= limit < 2 * size:
        # Measured: the result of a task takes six times its size in the driver's heap while it is
        # sent. Smaller results keep all of them within the heap that the memory check requires.
        rows = rows.repartition(_RESULTS_PER_SOURCE * sources, "key", "source")
    while sources > 1 and sources * state_bytes > limit:
        rows = rows.selectExpr("*", f"source div {_FAN_IN} AS parent")
        rows = grouped(rows, ["key", "parent"], _merging(by_name), _SCHEMA)
        sources = -(-sources // _FAN_IN)
    with translated():
        table = rows.toArrow()
    states, partitions = _merged_by_key(table, by_name)
    received, seconds = table.nbytes / 2**20, time.perf_counter() - start
    _log.info(
        "%s: %d tasks, %.1f MiB received by the driver, %.1f s", what, partitions, received, seconds
    )
    return states


def source_count(spark: SparkSession, state_bytes: int) -> int:
    """Number of tasks for a fold into states of ``state_bytes``: one or several a slot."""
    return task_slots(spark) * (1 if state_bytes > LARGE_STATE else SOURCES_PER_SLOT)


def _state_row(key: str, source: int, merged: int, data: bytes) -> pa.RecordBatch:
    payload = pa.compress(data, codec=_CODEC, asbytes=True)
    return _row(key, source, merged, len(data), payload)


def _row(key: str, source: int, merged: int, size: int, payload: bytes = b"") -> pa.RecordBatch:
    return record(_SCHEMA, key, source, merged, size, payload)


def record(schema: pa.Schema, *values: object) -> pa.RecordBatch:
    """A batch of one row."""
    columns = [pa.array([value], kind) for value, kind in zip(values, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def task_number() -> int:
    """Number of this task; in a union, the second DataFrame's tasks follow those of the first."""
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _folding(fold: Fold) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        source, states = task_number(), 0
        for key, state in fold(batches):
            yield _state_row(key, source, 1, state.to_bytes())
            states += 1
        yield _row(_PRESENT, source, 1, states)
        _settle()

    return run


def _count_partitions(batches: Batches) -> Batches:
    for _ in batches:
        partitions = task_number() - 1
        yield _row(_PLANNED, partitions, partitions, 0)


def _settle() -> None:
    """Exclude the objects that imports created from later garbage collections of the worker.

    Spark's worker collects garbage after each task. Scanning the objects of numba and pandas takes
    longer than a small task: in fits of 40,000 rows it triples the CPU time of the workers.
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


def _merging(kinds: Kinds) -> Callable[[pa.Table], pa.Table]:
    def run(table: pa.Table) -> pa.Table:
        rows = _sorted_rows(table)
        first = rows[0]
        merged = sum(row.merged for row in rows)
        source = first.source // _FAN_IN
        if first.key in (_PRESENT, _PLANNED):
            batch = _row(first.key, source, merged, sum(row.size for row in rows))
        else:
            batch = _state_row(first.key, source, merged, _merged(rows, kinds).to_bytes())
        return pa.Table.from_batches([batch])

    return run


class _Row(NamedTuple):
    """A state, or a control row, of ``merged`` sources; ``size`` is the uncompressed length."""

    key: str
    source: int
    merged: int
    size: int
    payload: pa.Buffer


def _sorted_rows(table: pa.Table) -> list[_Row]:
    """The rows, sorted by source."""
    plain = (table[name].to_pylist() for name in _SCHEMA.names[:-1])
    payloads = (value.as_buffer() for value in table["payload"])
    return sorted(map(_Row, *plain, payloads), key=lambda row: row.source)


def _merged(rows: Sequence[_Row], kinds: Kinds) -> State:
    """Merge the states of rows of one key, from left to right."""

    def state(row: _Row) -> State:
        data = pa.decompress(row.payload, row.size, codec=_CODEC, asbytes=True)
        return kinds[kind_of(data, kinds)].from_bytes(data)

    return reduce(lambda a, b: a.merge(b), map(state, rows))


def _merged_by_key(table: pa.Table, kinds: Kinds) -> tuple[dict[str, State], int]:
    """Merge the states of each key, once the control rows confirm that none is missing.

    Returns the states and the number of partitions.
    """
    by_key: dict[str, list[_Row]] = {}
    for row in _sorted_rows(table):
        by_key.setdefault(row.key, []).append(row)
    present, planned = by_key.pop(_PRESENT, []), by_key.pop(_PLANNED, [])
    partitions = sum(row.merged for row in present)
    states = sum(row.size for row in present)
    counts = {key: sum(row.merged for row in rows) for key, rows in by_key.items()}
    received, same_counts = sum(counts.values()), len(set(counts.values())) <= 1
    if [row.merged for row in planned] != [partitions] or received != states or not same_counts:
        raise SparkAUCError(
            f"found {received} of {states} partial results, from {partitions} of "
            f"{planned[0].merged if planned else 'an unknown number of'} partitions, "
            "expected all; raise spark.driver.memory and run again"
        )
    keys = sorted(by_key)
    merged = mapped(lambda key: _merged(by_key[key], kinds), keys)
    return dict(zip(keys, merged, strict=True)), partitions
