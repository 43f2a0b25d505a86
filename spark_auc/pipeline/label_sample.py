"""Raw rows that teach a map of features, gathered on the driver."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_auc.core.batch import Batch
from spark_auc.core.labels import Label
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import Bool, Float, Keys
from spark_auc.errors import ConfigError, HoldOutError, ResourceError
from spark_auc.features.raw_columns import Columns, taken
from spark_auc.features.row_groups import row_groups, values_of
from spark_auc.tables.columns import check_weights, row_weights, weighted
from spark_auc.tables.hashes import check_hashable, xxhash64
from spark_auc.tables.labels import LabelReader, positive_label
from spark_auc.tables.raw_columns import RawColumns
from spark_auc.tables.table import Batches, Table
from spark_auc.tables.tally import row_count

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class LabelSample:
    """Raw rows with labels that are drawn by key; see `KeySample`.

    The rows and their order depend on the rows of the table only: they ascend by group, and in
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
        Number ``n`` of rows of the table.
    """

    columns: Columns
    y: Bool
    weight: Float | None
    groups: Keys
    sample: KeySample | None
    rows: int


def label_sample(
    table: Table,
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
    table
        The rows.
    raw
        Their columns. Without a key, rows of equal values in all of them are a group, as of a
        recipe of the same columns; see `RawFeatures`.
    label
        Label column and positive label; see `positive_label`.
    weight
        Weight column. Default: weight 1.
    key
        Key column. Default: groups of equal values.
    sample
        The groups to draw; None for all.
    most
        About the most rows to gather; the share of a sample is lowered accordingly.
    rows
        Number of rows of ``table``, if known. Default: they are counted.
    remedy
        What to do, for the error of rows that do not fit in memory.

    Raises
    ------
    ConfigError
        A column is unknown or of an unsupported type, or there are more than the most rows, and no
        sample.
    DataError
        A value is invalid.
    HoldOutError
        No row is in the sample.
    ResourceError
        The rows exceed the memory that the driver may gather.
    """
    positive = positive_label(table, *label)
    rows = row_count(table, label[0]) if rows is None else rows
    if sample:
        sample = sample.limited(most, rows)
    elif rows > most:
        raise ConfigError(
            f"found {rows} rows to gather on the driver for growShare 1, expected at most "
            f"maxGrowRows {most}; set a growShare below 1, or raise maxGrowRows"
        )
    if weight:
        check_weights(table, weight)
    if key:
        check_hashable(table, key)
    others = [name for name in (label[0], weight, key) if name]
    selected = table.select([*raw.found, *others])
    found = _gathered(selected, raw, bool(key), sample, rows, remedy)
    width = len(raw.found)
    if weight:
        found = weighted(found, width + 1)
    arrays = [column.combine_chunks() for column in found.columns]
    columns = raw.decode(arrays[:width])
    y = LabelReader(label[0], positive).read(arrays[width])
    weights = row_weights(arrays[width + 1], weight) if weight else None
    groups = _groups(raw, arrays, bool(key))
    values = np.column_stack([values_of(name, values) for name, values in columns.items()])
    values[np.isnan(values)] = np.nan
    order = np.lexsort((Batch(values, y, weights).keys(), groups))
    _log.info("%d of %d rows are in memory", y.size, rows)
    ordered = None if weights is None else weights[order]
    return LabelSample(taken(columns, order), y[order], ordered, groups[order], sample, rows)


def _groups(raw: RawColumns, arrays: Sequence[pa.Array], keyed: bool) -> Keys:
    return xxhash64(arrays[-1:]) if keyed else row_groups(raw.decode(arrays[: len(raw.found)]))


def _gathered(
    table: Table, raw: RawColumns, keyed: bool, sample: KeySample | None, rows: int, remedy: str
) -> pa.Table:
    """The rows of the sample."""
    expected = f"a sample of some {int((sample.share if sample else 1.0) * rows)} of {rows} rows"

    def drawn(batches: Batches) -> Batches:
        for batch in batches:
            inside = sample.of(_groups(raw, batch.columns, keyed)) if sample else None
            yield batch if inside is None else batch.filter(pa.array(inside))

    limit = table.memory.gather_limit
    found = table.map(drawn, table.schema).gathered(limit)
    if found is None:
        raise ResourceError(
            f"found {expected} that exceeds {limit // table.memory.slots // 2**20} MiB in a task, "
            f"expected at most {limit // 2**20} MiB in {table.memory.slots} tasks; {remedy}, or "
            "raise spark.driver.memory"
        )
    if not found.num_rows:
        raise HoldOutError(
            f"found no row in {expected}, expected some; pass more rows, or draw more"
        )
    return found
