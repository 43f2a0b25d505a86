"""Raw rows that teach a map of features, gathered on the driver."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_auc.core.batch import Batch
from spark_auc.core.labels import Label
from spark_auc.core.row_source import State
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.state.schema import Schema, array
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Bool, Float, Keys
from spark_auc.errors import ConfigError, DataError, ResourceError
from spark_auc.features.raw_columns import Columns, taken
from spark_auc.features.row_groups import row_groups, values_of
from spark_auc.spark.data.aggregate import aggregate, task_number
from spark_auc.spark.data.columns import row_weights, weight_column, weighted
from spark_auc.spark.data.labels import LabelReader, label_column
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.raw_columns import RawColumns
from spark_auc.spark.data.readers import TaskRows, rows_for_tasks
from spark_auc.spark.data.resources import SessionMemory

_log = logging.getLogger(__name__)

# Most bytes of a part, which is one row of a result.
_PART = 1 << 24
_EXCEEDED = "exceeded"


@dataclass(frozen=True, eq=False)
class LabelSample:
    """Raw rows with labels that are drawn by key; see `KeySample`.

    The rows and their order depend on the rows of the DataFrame only: they ascend by group, and in
    a group by a hash of the row.

    Parameters
    ----------
    columns
        Raw columns by name.
    y : (m,)
        True for positive rows.
    weight : (m,), optional
        Row weights. Default: 1.
    groups : (m,)
        Groups of the rows: hashes of the key, else of the values of the columns.
    sample
        The sample, after the limit; None for all rows.
    rows
        Number ``n`` of rows of the DataFrame.
    """

    columns: Columns
    y: Bool
    weight: Float | None
    groups: Keys
    sample: KeySample | None
    rows: int


def label_sample(
    df: DataFrame,
    raw: RawColumns,
    label: tuple[str, Label | bool | None],
    weight: str | None = None,
    key: str | None = None,
    *,
    sample: KeySample | None,
    most: int = 10**6,
    rows: int | None = None,
    remedy: str = "set a lower growShare or maxGrowRows",
) -> LabelSample:
    """Gather the rows of a sample, or all rows, in the memory of the driver, by one pass.

    Parameters
    ----------
    df
        The rows.
    raw
        Their columns. Without a key, rows of equal values in all of them are a group, as of a
        recipe of the same columns; see `RawFeatures`.
    label
        Label column and positive label; see `label_column`.
    weight
        Weight column. Default: weight 1.
    key
        Key column. Default: groups of equal values.
    sample
        The groups to draw; None for all.
    most
        About the most rows to gather; the share of a sample is lowered accordingly.
    rows
        Number of rows of ``df``, if known. Default: they are counted.
    remedy
        What to do, for the error of rows that do not fit in memory.

    Raises
    ------
    ConfigError
        A column is unknown or of an unsupported type, or there are more than the most rows, and no
        sample.
    DataError
        A value is invalid, or no row is in the sample.
    ResourceError
        The rows exceed the memory that the driver may gather.
    """
    column, positive = label_column(df, *label, raw.field(df, label[0]))
    rows = df.count() if rows is None else rows
    if sample:
        sample = sample.limited(most, rows)
    elif rows > most:
        raise ConfigError(
            f"found {rows} rows to gather on the driver for growShare 1, expected at most "
            f"maxGrowRows {most}; set a growShare below 1, or raise maxGrowRows"
        )
    expressions = [*raw.expressions(), column]
    names = [*raw.columns, label[0]]
    if weight:
        expressions.append(weight_column(df, weight))
        names.append(weight)
    if key:
        known_column(df, key)
        expressions.append(F.xxhash64(F.col(quoted(key))))
    selected = df.select(*(c.alias(f"c{k}") for k, c in enumerate(expressions)))
    source = TaskRows(selected, iter, cheap=False) if key else rows_for_tasks(df, names, selected)
    table = _gathered(source, raw, bool(key), sample, rows, remedy)
    if weight:
        table = weighted(table, raw.width + 1)
    arrays = [column.combine_chunks() for column in table.columns]
    columns = raw.decode(arrays[: raw.width])
    y = LabelReader(label[0], positive).read(arrays[raw.width])
    weights = row_weights(arrays[raw.width + 1], weight) if weight else None
    groups = _groups(raw, arrays, bool(key))
    values = np.column_stack([values_of(name, values) for name, values in columns.items()])
    values[np.isnan(values)] = np.nan
    order = np.lexsort((Batch(values, y, weights).keys(), groups))
    _log.info("%d of %d rows are in memory", y.size, rows)
    ordered = None if weights is None else weights[order]
    return LabelSample(taken(columns, order), y[order], ordered, groups[order], sample, rows)


def _groups(raw: RawColumns, arrays: Sequence[pa.Array], keyed: bool) -> Keys:
    if keyed:
        keys: Keys = arrays[-1].to_numpy().view(np.uint64)
        return keys
    return row_groups(raw.decode(arrays[: raw.width]))


def _gathered(
    source: TaskRows, raw: RawColumns, keyed: bool, sample: KeySample | None, rows: int, remedy: str
) -> pa.Table:
    """The rows of the sample; control rows confirm that the parts of all tasks are there."""
    memory = SessionMemory(source.frame.sparkSession)
    limit, read = memory.gather_limit, source.read
    share = limit // memory.slots
    expected = f"a sample of some {int((sample.share if sample else 1.0) * rows)} of {rows} rows"

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, State]]:
        task, size = task_number(), 0
        parts = list[pa.RecordBatch]()
        for batch in read(batches):
            if not batch.num_rows:
                continue
            part = batch
            if sample:
                part = batch.filter(pa.array(sample.of(_groups(raw, batch.columns, keyed))))
            size += part.nbytes
            if size > share:
                yield f"{task:08}/{_EXCEEDED}", cast(State, RowsPart(np.empty(0, np.uint8)))
                return
            parts.append(part)
        for number, data in enumerate(_packed(parts)):
            yield f"{task:08}/{number:08}", cast(State, RowsPart(data))

    what = f"raw columns of {expected}"
    states = aggregate(source.frame, run, (cast(type[State], RowsPart),), state_bytes=0, what=what)
    if any(name.endswith(_EXCEEDED) for name in states):
        raise ResourceError(
            f"found {expected} that exceeds {share // 2**20} MiB in a task, expected at most "
            f"{limit // 2**20} MiB in {memory.slots} tasks; {remedy}, or raise "
            "spark.driver.memory"
        )
    tables = [
        pa.ipc.open_stream(pa.py_buffer(cast(RowsPart, states[name]).data)).read_all()
        for name in sorted(states)
    ]
    if not tables:
        raise DataError(f"found no row in {expected}, expected some; pass more rows, or draw more")
    return pa.concat_tables(tables)


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[NDArray[np.uint8]]:
    """The rows as streams of about the most bytes of a part."""
    full = [batch for batch in batches if batch.num_rows]
    if not full:
        return
    table = pa.Table.from_batches(full).combine_chunks()
    rows = max(1, int(_PART * table.num_rows / max(table.nbytes, 1)))
    for start in range(0, table.num_rows, rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table.slice(start, rows))
        yield np.frombuffer(sink.getvalue(), np.uint8)


@dataclass(frozen=True, eq=False)
class RowsPart(SchemaState):
    """Some rows in Arrow's stream format. Each part has a key of its own and is not merged."""

    SCHEMA: ClassVar[Schema] = Schema("RowsPart", 1, {"data": array("|u1", "bytes")})

    data: NDArray[np.uint8]
