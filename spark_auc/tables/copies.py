"""Rows to test on that are copies of rows to train on."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spark_auc.core.labels import Label
from spark_auc.tables.hashes import hashable_names, xxhash64
from spark_auc.tables.labels import LabelReader, positive_label
from spark_auc.tables.table import Batches, Table, field_of, fields_by_name
from spark_auc.tables.tally import Tally, tallied

_log = logging.getLogger(__name__)

# Rows of each part among which copies are looked for, and most distinct ones of them.
_ROWS, _MOST = 100_000, 400_000
# Least share of copies of which a warning tells.
_SHARE = 0.05
_SCHEMA = pa.schema([("row", pa.uint64())])


def warn_of_copies(
    train: Table,
    test: Table,
    used: Sequence[str],
    label: tuple[str, Label | bool | None],
    rows: float,
    without: Sequence[str] = (),
) -> None:
    """Warn where many rows to test on are copies of rows to train on, whose AUC is then too high.

    Parameters
    ----------
    train, test
        The parts of a table by the hash of its columns.
    used
        Names of the columns that the model uses.
    label
        Label column and positive label.
    rows
        Number of rows to train on.
    without
        Columns that were not hashed.
    """
    lookup, hashed = fields_by_name(train), hashable_names(train)

    def named(names: Sequence[str]) -> set[str]:
        return {field.name for name in names for field in lookup(name)}

    columns = [name for name in hashed if name in named(used)]
    others = [name for name in hashed if name not in named([*used, label[0], *without])]
    if not columns or not others:
        # Equal rows are in the same part.
        return
    share = copied(train, test, columns, label, min(1.0, _ROWS / max(rows, 1.0)))
    if share >= _SHARE:
        _log.warning(
            "%.0f%% of the rows to test on have the label and all values that the model uses of "
            "rows to train on: if they are copies, the AUC is too high; leave out %s, by which "
            "they differ, or name a key whose rows stay together",
            *(100 * share, ", ".join(map(repr, others[:8])) + ", ..." * (len(others) > 8)),
        )


def copied(
    train: Table,
    test: Table,
    columns: Sequence[str],
    label: tuple[str, Label | bool | None],
    fraction: float = 1.0,
) -> float:
    """The share of rows to test on that have copies among the rows to train on.

    A row has copies if rows to train on have its values, all of them with its label. The lower of
    the shares of the two classes counts: rows of few possible values have others of the frequent
    class by chance.

    Parameters
    ----------
    train, test
        The rows.
    columns
        Names of columns that have a hash.
    label
        Label column and positive label.
    fraction
        Share of the possible rows, by their hash, that is looked at.
    """
    name = field_of(train, label[0]).name
    value = positive_label(train, name, label[1])

    def of(table: Table) -> Tally:
        def hashed(batches: Batches) -> Batches:
            reader = LabelReader(name, value)
            for batch in batches:
                found = xxhash64(batch.columns[:-1])
                # The last bit is the label.
                of_row = found >> np.uint64(1) << np.uint64(1) | reader.read(batch.column(-1))
                kept = of_row[found < fraction * 2.0**64]
                yield pa.RecordBatch.from_arrays([pa.array(kept, pa.uint64())], schema=_SCHEMA)

        return tallied(table.select([*columns, name]).map(hashed, _SCHEMA), "row", _MOST)

    known, rows = of(train).values.astype(np.uint64), of(test)
    own = rows.values.astype(np.uint64)
    has_copies = np.isin(own, known) & ~np.isin(own ^ np.uint64(1), known)
    totals, copies = (
        np.bincount(own.astype(np.int64) & 1, rows.rows * kept, 2)
        for kept in (np.ones(own.size, np.bool_), has_copies)
    )
    return float(np.min(copies / totals)) if totals.all() else 0.0
