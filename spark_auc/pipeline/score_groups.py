"""AUC of each group of scored rows.

Rows are sorted by group and score in parts that have whole groups. A task sums its rows as they
arrive, so that it needs memory for one batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from spark_auc.core.evaluation.group_sums import GroupMeasures, GroupSums
from spark_auc.core.evaluation.groups import Groups
from spark_auc.errors import ConfigError, SparkAUCError
from spark_auc.features.raw_columns import Numbers
from spark_auc.pipeline.score_columns import ScoreColumns, score_values
from spark_auc.tables.arrow_columns import flat, raw_column
from spark_auc.tables.decoders import as_doubles
from spark_auc.tables.hashes import xxhash64
from spark_auc.tables.labels import is_positive, label_values
from spark_auc.tables.table import Batches, Table, field_of
from spark_auc.tables.tally import as_text
from spark_auc.tables.types import is_time, shown_type

_log = logging.getLogger(__name__)

# Rows of a part. Engines sort them, and spill them to disk where memory is short.
_PART_ROWS = 1 << 20

_MEASURES = GroupMeasures._fields
# Numbers sort faster than text. Different values can have one hash.
_SORTED = pa.schema(
    [
        ("part", pa.int32()),
        ("hash", pa.int64()),
        ("group", pa.string()),
        ("score", pa.float64()),
        ("y", pa.bool_()),
        ("weight", pa.float64()),
    ]
)
_MEASURED = pa.schema(
    [
        ("value", pa.string()),
        ("positive", pa.int64()),
        ("negative", pa.int64()),
        ("weight", pa.float64()),
        ("auc", pa.float64()),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
    ]
)


def by_group(
    table: Table,
    columns: ScoreColumns,
    column: str,
    level: float,
    count: int,
    class_rows: tuple[int, int] | None = None,
) -> Groups:
    """Measure the AUC of the rows of each value of a column.

    Parameters
    ----------
    table
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
        Rows were lost, or computed again with other values.
    """
    start, positive, zone = time.perf_counter(), columns.checked(table), table.zone
    field = field_of(table, column)
    if kinds.is_binary(field.type) or kinds.is_large_binary(field.type):
        raise ConfigError(
            f"found the group column {column!r} of type {shown_type(field)}, expected text, "
            "numbers, booleans or times; set groupCol to a column of hex(...) of it"
        )
    parts = max(1, -(-count // _PART_ROWS))

    def keyed(batches: Batches) -> Batches:
        for batch in batches:
            group = _text(batch.column(-1), zone)
            hashed = xxhash64([group])
            y = is_positive(label_values(batch.column(1)), positive)
            weight = pa.array(np.ones(y.size))
            if columns.weight:
                weight = as_doubles(batch.column(2))
            part = (hashed % np.uint64(parts)).astype(np.int32)
            score = score_values(batch.column(0))
            arrays = [part, hashed.view(np.int64), group, score, pa.array(y), weight]
            yield pa.record_batch(list(map(pa.array, arrays)), schema=_SORTED)

    # With labels and weights, sums do not depend on the order in which rows arrive.
    order = ["part", "hash", "group", "score", "y", "weight"]
    rows = table.select([*columns.names, field.name]).map(keyed, _SORTED)
    measured = rows.arranged("part", order, parts).map(lambda b: _measured(b, level), _MEASURED)
    found = measured.gathered()
    assert found is not None
    values = found["value"].combine_chunks()
    order_of_values = pc.sort_indices(values).to_numpy()
    names = values.to_numpy(zero_copy_only=False)[order_of_values]
    measures = (found[name].to_numpy()[order_of_values] for name in _MEASURES)
    groups = Groups(column, names, GroupMeasures(*measures))
    counts = tuple(int(each.sum()) for each in groups.measures[:2])
    distinct = pc.count_distinct(values, mode="all").as_py()
    if (class_rows is not None and counts != class_rows) or distinct < len(groups):
        raise SparkAUCError(
            f"found {counts} positive and negative rows in {distinct} groups of {column!r}, in "
            f"{len(groups)} parts, expected {class_rows} and each group once: rows were lost, or "
            "computed again with other values; write the scored rows, and measure these"
        )
    _log.info("measured %d groups in %.1f s", len(groups), time.perf_counter() - start)
    return groups


def _text(array: pa.Array, zone: str) -> pa.Array:
    """The values of a group column as text."""
    array = flat(array)
    if is_time(array.type) and not kinds.is_date(array.type):
        column = raw_column("group", array, zone)
        assert isinstance(column, Numbers)
        shown = np.char.replace(np.datetime_as_string(column.values, "us"), "T", " ")
        plain = np.char.rstrip(np.char.rstrip(shown, "0"), ".")
        # Whole minutes end in zeros of their own.
        whole = np.where(np.char.str_len(plain) < 19, np.char.ljust(plain, 19, "0"), plain)
        return pa.array(whole, pa.string(), mask=~array.is_valid().to_numpy(zero_copy_only=False))
    if kinds.is_floating(array.type):
        # Zeros of either sign are one value.
        array = pc.add(array, pa.scalar(0.0, array.type))
        return pc.if_else(pc.is_nan(array), "NaN", as_text(array))
    return as_text(array)


def _measured(batches: Batches, level: float) -> Batches:
    """The measures of the groups of sorted rows."""
    for value, sums in _sums(batches):
        measures = [pa.array(column) for column in sums.measures(level)]
        yield pa.RecordBatch.from_arrays([value, *measures], schema=_MEASURED)


def _sums(batches: Batches) -> Iterator[tuple[pa.Array, GroupSums]]:
    """Values of groups and their sums, once the groups are whole."""
    value, sums, before = pa.nulls(1, pa.string()), None, None
    for batch in batches:
        runs = pc.run_end_encode(batch.column(2))
        values, ends = runs.values, runs.run_ends.to_numpy().astype(np.int64)
        if sums is not None and values[0].as_py() != value[0].as_py():
            yield value, sums
            before = None
        score, y, weight = (c.to_numpy(zero_copy_only=False) for c in batch.columns[3:])
        sums, before = GroupSums.of(ends, score, y, weight, before)
        if len(values) > 1:
            yield values[:-1], sums.take(slice(-1))
        value, sums = values[-1:], sums.take(slice(-1, None))
    if sums is not None:
        yield value, sums
