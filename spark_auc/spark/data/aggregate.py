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

from spark_auc.core.row_source import State
from spark_auc.core.state.codec import kind_of
from spark_auc.errors import SparkAUCError
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.resources import SessionMemory

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
# Every partition emits it with the number of its states, and one task after all partitions emits
# their number, so that rows lost on the way to the driver are noticed.
_PRESENT, _PLANNED = "", "\0"


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
    memory = SessionMemory(spark)
    memory.check(state_bytes, what)
    slots = memory.slots
    sources = slots if state_bytes > _LARGE_STATE else SOURCES_PER_SLOT * slots
    by_name = {kind.__name__: kind for kind in kinds}
    rows = df.coalesce(sources).mapInArrow(_folding(fold), _SCHEMA)
    rows = rows.union(spark.range(0, 1, 1, 1).mapInArrow(_count_before, _SCHEMA))
    while sources > 1 and sources * state_bytes > memory.gather_limit:
        rows = rows.selectExpr("*", f"source div {_FAN_IN} AS parent")
        rows = rows.groupBy("key", "parent").applyInArrow(_merging(by_name), _SCHEMA)
        sources = -(-sources // _FAN_IN)
    with translated():
        table = rows.toArrow()
    return _gathered(table, by_name)


def _row(key: str, source: int, merged: int, data: bytes) -> pa.RecordBatch:
    payload = pa.compress(data, codec=_CODEC, asbytes=True)
    return _note(key, source, merged, len(data), payload)


def _note(key: str, source: int, merged: int, size: int, payload: bytes = b"") -> pa.RecordBatch:
    values = (key, source, merged, size, payload)
    columns = [pa.array([v], t) for v, t in zip(values, _ARROW.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def _task() -> int:
    """The number of this task, which in a union counts on after the tasks before it."""
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _folding(fold: Fold) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source, states = _task(), 0
        for key, state in fold(batches):
            yield _row(key, source, 1, state.to_bytes())
            states += 1
        yield _note(_PRESENT, source, 1, states)
        _settle()

    return run


def _count_before(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield _note(_PLANNED, _task(), _task(), 0)


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
        source = first.source // _FAN_IN
        if first.key in (_PRESENT, _PLANNED):
            made = _note(first.key, source, merged, sum(row.size for row in rows))
        else:
            made = _row(first.key, source, merged, _merged(rows, kinds).to_bytes())
        return pa.Table.from_batches([made])

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
        return kinds[kind_of(data, kinds)].from_bytes(data)

    return reduce(lambda a, b: a.merge(b), map(state, rows))


def _gathered(table: pa.Table, kinds: Kinds) -> dict[str, State]:
    """Merge what arrived, after checking that all of it did."""
    by_key: dict[str, list[_Row]] = {}
    for row in _rows(table):
        by_key.setdefault(row.key, []).append(row)
    present, planned = by_key.pop(_PRESENT, []), by_key.pop(_PLANNED, [])
    ran = sum(row.merged for row in present)
    states = sum(row.size for row in present)
    found = {key: sum(row.merged for row in rows) for key, rows in by_key.items()}
    alike = len(set(found.values())) <= 1
    if [row.merged for row in planned] != [ran] or sum(found.values()) != states or not alike:
        raise SparkAUCError(
            f"found {sum(found.values())} of {states} states, of {ran} of "
            f"{planned[0].merged if planned else 'an unknown number of'} partitions, "
            "expected all; raise spark.driver.memory and run again"
        )
    names = sorted(by_key)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        merged = pool.map(lambda key: _merged(by_key[key], kinds), names)
        return dict(zip(names, merged, strict=True))
