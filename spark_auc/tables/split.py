"""Rows to train on and rows to test on, by a hash or a time."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeVar, cast
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from spark_auc.core.labels import Label
from spark_auc.core.row_source import State
from spark_auc.core.types import Bool, Float
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.raw_columns import Numbers
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.hashes import check_hashable, hashable_names, xxhash64
from spark_auc.tables.labels import LabelReader, positive_label
from spark_auc.tables.nested import names_with_fields
from spark_auc.tables.stratified import ClassHashes, RowDraws, unit
from spark_auc.tables.table import Batches, Table, field_of
from spark_auc.tables.tally import Tally, tallied
from spark_auc.tables.types import is_time, shown_type

T = TypeVar("T", bound=Table)

_log = logging.getLogger(__name__)

# Bits of spans of time: 38 hours, an eighth of a second, and a microsecond.
_SPANS = (37, 17, 0)
_MOST_SPANS = 1 << 20
_HASHES = "hashes"


def by_key(
    table: T,
    fraction: float,
    seed: int,
    key: str | None = None,
    label: tuple[str, Label | bool | None] | None = None,
    without: Sequence[str] = (),
) -> tuple[T, T]:
    """The rows whose hash of seed and key is below ``fraction``, and the others.

    All rows of a key are in the same part. With the same seed, the first part of a smaller fraction
    is a subset of that of a larger one.

    Parameters
    ----------
    table
        The rows.
    fraction
        Expected share of the keys in the first part, in (0, 1).
    seed
        An integer of 32 bits.
    key
        Column to hash. Default: all columns that have a hash, except the label and ``without``, so
        that rows of equal values and labels are in the same part; the first part then has the
        fraction of the rows of each class, by one pass over the rows. Where the columns have few
        possible values, the rows of a value that many rows of both labels have are drawn one by
        one instead, by one more pass, if the rows are ordered.
    label
        Label column, which is not hashed, and positive label; see `positive_label`.
    without
        Further columns that are not hashed, such as those that no model uses.

    Raises
    ------
    ConfigError
        A column is unknown or has no hash, or the fraction is outside (0, 1).
    DataError
        Without a key, a label is invalid, or a class has one row.
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"found fraction = {fraction}; expected a share of train in (0, 1)")

    if key is not None or label is None:
        if key is not None:
            check_hashable(table, key)
        names = hashable_names(table) if key is None else [field_of(table, key).name]

        def below(arrays: Sequence[pa.Array]) -> Bool:
            return np.asarray(unit(xxhash64(arrays, salt=seed)) < fraction)

        return table.parted(names, lambda part: below)

    of_label = field_of(table, label[0]).name
    unused = {of_label, *names_with_fields(table, without)}
    names = [*(name for name in hashable_names(table) if name not in unused), of_label]
    if len(names) == 1:
        raise ConfigError(
            f"found no column of text, numbers, booleans or times beside the label {of_label!r}, "
            "expected some to draw rows by; add columns of features"
        )
    value = positive_label(table, *label)

    def hashes(common: Bool | None) -> ClassHashes:
        def read(batches: Batches) -> Iterator[tuple[Bool, Float]]:
            reader, draws = LabelReader(of_label, value), RowDraws(seed)
            for batch in batches:
                if common is not None:
                    part = batch.column(-1)[0].as_py()
                    if draws.common is None or draws.part != part:
                        draws = RowDraws(seed, common, part)
                columns = batch.columns[: len(names)]
                y = reader.read(columns[-1])
                yield y, draws.of(columns[:-1], y)

        def fold(batches: Batches) -> Iterator[tuple[str, State]]:
            yield _HASHES, ClassHashes.of(read(batches))

        what, size = "hashes of the rows of each class", ClassHashes.BYTES
        rows = table.select(names, placed=common is not None)
        states = rows.fold(fold, (ClassHashes,), state_bytes=size, what=what)
        return cast(ClassHashes, states.get(_HASHES, ClassHashes.of([])))

    found = hashes(None)
    of_class = found.rows.sum(axis=1)
    if of_class.min() == 1:
        kind = ("negative", "positive")[int(of_class.argmin())]
        raise DataError(
            f"found 1 {kind} row among {of_class.sum()}, expected at least 2, one for each part; "
            "add rows of this class, or hold out none"
        )
    common = None
    if (many := found.common()).any():
        share = 100 * found.rows[:, many].sum() / of_class.sum()
        if table.is_ordered:
            _log.info(
                "%.0f%% of the rows equal many others in all columns: each of them is drawn alone; "
                "if equal rows are of one person or thing, hold out by its key",
                share,
            )
            common = many
            found = hashes(common)
        else:
            _log.warning(
                "%.0f%% of the rows equal many others in all columns, and Spark puts equal rows "
                "into the same part: the test rows have values that no training row has, and "
                "their AUC is wrong; hold out by a column that differs in each row",
                share,
            )
    thresholds = found.thresholds(fraction)

    def keep(draws: RowDraws, arrays: Sequence[pa.Array]) -> Bool:
        y = LabelReader(of_label, value).read(arrays[-1])
        return np.asarray(draws.of(arrays[:-1], y) < thresholds[y.astype(np.int64)])

    return table.parted(names, lambda part: partial(keep, RowDraws(seed, common, part)))


def by_time(table: T, column: str, start: datetime) -> tuple[T, T]:
    """The rows before a time, and those from it on.

    Parameters
    ----------
    table
        The rows. A pass over them raises `DataError` for a row without a time.
    column
        Column of dates or times.
    start
        The time, on the clocks of the table's zone if it has no zone of its own.

    Raises
    ------
    ConfigError
        The column is unknown or has no times, or the time has a zone and the column has none.
    """
    field, zone = field_of(table, column), table.zone
    if not is_time(field.type):
        raise ConfigError(
            f"found {shown_type(field)} in column {column!r}, expected dates or times; cast it, or "
            "name another column"
        )
    if start.tzinfo is not None:
        if not (pa.types.is_timestamp(field.type) and field.type.tz):
            raise ConfigError(
                f"found {start} for column {column!r} of {shown_type(field)}, expected a time "
                "without a zone, like those of the column"
            )
        start = start.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    moment = np.datetime64(start, "us")

    def keep(arrays: Sequence[pa.Array]) -> Bool:
        if arrays[0].null_count:
            raise DataError(
                f"found a null in time column {column!r}, expected a time; fill or remove these "
                "rows"
            )
        found = raw_column(column, arrays[0], zone)
        assert isinstance(found, Numbers)
        return np.asarray(found.values < moment)

    return table.parted([field.name], lambda part: keep)


class TimeCut(NamedTuple):
    """A time at which rows are cut, and numbers of rows.

    Parameters
    ----------
    time
        The time, on the clocks of the table.
    before, through, rows
        Numbers of the rows before it, of those up to it, and of all.
    """

    time: np.datetime64
    before: int
    through: int
    rows: int


def time_at(table: Table, column: str, share: float) -> TimeCut:
    """The earliest time up to which at least a share of the rows is, exactly.

    Passes over the column count the rows of ever shorter spans of time.

    Raises
    ------
    ConfigError
        The column is unknown or has no times.
    DataError
        There are no rows, or one has no time.
    """
    field = field_of(table, column)
    if not is_time(field.type):
        raise ConfigError(
            f"found {shown_type(field)} in column {column!r}, expected times such as "
            "2026-03-01 12:30:00; name another column with --time, or leave --time out"
        )
    rows, rank, span, width, earlier = 0, 0, 0, None, 0
    for shift in _SPANS:
        tally = _spans(table, field.name, shift, span, width)
        if tally.missing:
            raise DataError(
                f"found {tally.missing} rows without a time in column {column!r}, expected a time "
                "in each row"
            )
        spans = tally.values.astype(np.int64)
        if not spans.size:
            raise DataError(f"found no time in column {column!r}, expected times")
        if width is None:
            rows = int(tally.rows.sum())
            rank = int(np.ceil(share * rows))
        order = np.argsort(spans)
        before = np.cumsum(tally.rows[order])
        place = int(np.searchsorted(before, rank - earlier))
        earlier += int(before[place - 1]) if place else 0
        span, width = int(spans[order[place]]), shift
    own = int(tally.rows[order[place]])
    return TimeCut(np.datetime64(span, "us"), earlier, earlier + own, rows)


def _spans(table: Table, name: str, shift: int, inside: int, width: int | None) -> Tally:
    """Rows of each span of 2^shift microseconds, within one of 2^width."""
    zone, schema = table.zone, pa.schema([("span", pa.int64())])

    def numbered(batches: Batches) -> Batches:
        for batch in batches:
            found = raw_column(name, batch.column(0), zone)
            assert isinstance(found, Numbers)
            micros = found.values.view(np.int64)
            missing = batch.column(0).is_null().to_numpy(zero_copy_only=False)
            kept = slice(None) if width is None else (micros >> width == inside) & ~missing
            spans = pa.array((micros >> shift)[kept], mask=missing[kept])
            yield pa.RecordBatch.from_arrays([spans], schema=schema)

    return tallied(table.select([name]).map(numbered, schema), "span", _MOST_SPANS)
