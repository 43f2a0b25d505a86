"""Fold a DataFrame into mergeable states: one pass, then a tree of merges in a fixed order.

States travel as rows of (key, source, compressed bytes). Rows with the same key merge in order
of the partition they come from, so that the order in which tasks finish changes no bit.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from spark_auc.core.codec import kind_of
from spark_auc.core.rows import State
from spark_auc.errors import SparkAUCError
from spark_auc.spark.failures import translated
from spark_auc.spark.resources import Gathering, check_memory, task_slots

# Above this a state per partition costs more to move than its rows do to read.
_LARGE_STATE = 64 * 2**20
SOURCES_PER_SLOT = 16
_FAN_IN = 32
# Packing zeros compresses most; a stronger codec costs more than the bytes it still saves.
_CODEC = "lz4"

_SCHEMA = "key string, source int, merged int, size long, payload binary"
_ARROW = pa.schema(
    [
        ("key", pa.string()),
        ("source", pa.int32()),
        ("merged", pa.int32()),
        ("size", pa.int64()),
        ("payload", pa.binary()),
    ]
)
# Every partition emits it, so that a row lost on the way to the driver is noticed.
_PRESENT = ""


Fold: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterable[tuple[str, State]]]
Kinds: TypeAlias = Mapping[str, type[State]]


def aggregate(
    df: DataFrame, fold: Fold, kinds: Iterable[type[State]], *, state_bytes: int, what: str
) -> dict[str, State]:
    """Fold every partition and merge the results by key.

    Parameters
    ----------
    df
        The columns that the fold reads.
    fold
        Turns the Arrow batches of one partition into states under distinct keys, the same keys
        in every partition (or none at all).
    kinds
        The state classes that it yields.
    state_bytes
        Upper estimate of the bytes of all states of one partition.
    what
        What the states are, for messages ("moments of 10000 features").

    Returns
    -------
    dict
        The merged state of each key; empty if no partition yielded any.

    Raises
    ------
    ResourceError
        The states would not fit in the driver.
    SparkAUCError
        What the fold raised.
    """
    spark = df.sparkSession
    gathering = Gathering.of(spark)
    gathering.check(state_bytes, what)
    slots = task_slots(spark)
    check_memory(spark, state_bytes, slots, what)
    sources = slots if state_bytes > _LARGE_STATE else SOURCES_PER_SLOT * slots
    by_name = {kind.__name__: kind for kind in kinds}
    rows = df.coalesce(sources).mapInArrow(_folding(fold), _SCHEMA)
    while sources > 1 and sources * state_bytes > gathering.limit:
        rows = rows.selectExpr("*", f"source div {_FAN_IN} AS parent")
        rows = rows.groupBy("key", "parent").applyInArrow(_merging(by_name), _SCHEMA)
        sources = -(-sources // _FAN_IN)
    with translated():
        table = rows.toArrow()
    return _gathered(table, by_name)


def _row(key: str, source: int, merged: int, data: bytes) -> dict[str, list[object]]:
    payload = pa.compress(data, codec=_CODEC, asbytes=True)
    values = (key, source, merged, len(data), payload)
    return {name: [value] for name, value in zip(_ARROW.names, values, strict=True)}


def _folding(fold: Fold) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        source = context.partitionId()
        yield pa.RecordBatch.from_pydict(_row(_PRESENT, source, 1, b""), _ARROW)
        for key, state in fold(batches):
            yield pa.RecordBatch.from_pydict(_row(key, source, 1, state.to_bytes()), _ARROW)
        _settle()

    return run


def _settle() -> None:
    """Spare the worker's later tasks a search of all that imports have left.

    Spark's worker collects garbage after each task, and of numba and pandas alone there are so
    many objects to look at that it takes longer than many a task.
    """
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


def _merging(kinds: Kinds) -> Callable[[pa.Table], pa.Table]:
    def run(table: pa.Table) -> pa.Table:
        rows = _rows(table)
        first = rows[0]
        merged = sum(row.merged for row in rows)
        data = b"" if first.key == _PRESENT else _merged(rows, kinds).to_bytes()
        return pa.Table.from_pydict(_row(first.key, first.source // _FAN_IN, merged, data), _ARROW)

    return run


class _Row(NamedTuple):
    key: str
    source: int
    merged: int
    size: int
    payload: pa.Buffer


def _rows(table: pa.Table) -> list[_Row]:
    """The rows, by source."""
    plain = (table[name].to_pylist() for name in _ARROW.names[:-1])
    payloads = (value.as_buffer() for value in table["payload"])
    return sorted(map(_Row, *plain, payloads), key=lambda row: row.source)


def _merged(rows: Sequence[_Row], kinds: Kinds) -> State:
    """The merged state of rows of one key, in their order."""

    def state(row: _Row) -> State:
        data = pa.decompress(row.payload, row.size, codec=_CODEC, asbytes=True)
        return kinds[kind_of(data)].from_bytes(data)

    return reduce(lambda a, b: a.merge(b), map(state, rows))


def _gathered(table: pa.Table, kinds: Kinds) -> dict[str, State]:
    """Merge what arrived, after checking that all of it did."""
    by_key: dict[str, list[_Row]] = {}
    for row in _rows(table):
        by_key.setdefault(row.key, []).append(row)
    present = sum(row.merged for row in by_key.pop(_PRESENT, []))
    found = {sum(row.merged for row in rows) for rows in by_key.values()}
    if not present or len(found) > 1 or max(found, default=0) > present:
        raise SparkAUCError(
            f"found results of {sorted(found)} partitions for {present} partitions that ran, "
            "expected one number; raise spark.driver.memory and run again"
        )
    names = sorted(by_key)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        states = pool.map(lambda key: _merged(by_key[key], kinds), names)
        return dict(zip(names, states, strict=True))
