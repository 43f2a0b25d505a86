"""Held-out rows that are copies of rows to train on."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spark_auc.core.labels import Label
from spark_auc.pipeline.models import PipelineModel
from spark_auc.tables.hashes import hashable_names, xxhash64
from spark_auc.tables.labels import LabelReader, positive_label
from spark_auc.tables.nested import names_with_fields
from spark_auc.tables.table import Batches, Table, field_of
from spark_auc.tables.tally import Tally, tallied

_log = logging.getLogger(__name__)

# Expected number of rows to train on among which copies are looked for, and most distinct rows of
# a part.
_ROWS, _MOST = 100_000, 400_000
# Least share of copies of which a warning tells, and most names in it.
_SHARE, _NAMES = 0.05, 20
_SCHEMA = pa.schema([("row", pa.uint64())])


def warn_of_copies(
    train: Table,
    test: Table,
    model: PipelineModel,
    label: tuple[str, Label | bool | None],
    without: Sequence[str] = (),
) -> None:
    """Warn where many held-out rows are copies of rows to train on: the AUC is then too high.

    It takes a pass over each part, if the model leaves columns out by which rows were divided.

    Parameters
    ----------
    train, test
        The parts of a table by the hash of its columns (`spark_auc.tables.split.by_key`).
    model
        The model of the rows to train on.
    label
        Label column and positive label.
    without
        Columns that were not hashed.

    Raises
    ------
    DataError
        A label is invalid.
    """
    recipe, features = model.recipe, model.ranker.values()["featuresCol"]
    if recipe is None and isinstance(features, str):
        # A column of vectors has no hash.
        return
    hashed = hashable_names(train)
    inputs = [column.name for column in recipe.inputs] if recipe else features
    used = names_with_fields(train, inputs)
    known = used | names_with_fields(train, [label[0], *without])
    columns = [name for name in hashed if name in used]
    others = [name for name in hashed if name not in known]
    # Rows that are equal in columns with a hash may differ in another. Without others, equal rows
    # are in one part, or equal by chance.
    if len(columns) < len(used) or not others:
        return
    rows = sum(model.summary.rows.values())
    share = copied(train, test, columns, label, min(1.0, _ROWS / max(rows, 1)))
    if share >= _SHARE:
        more = len(others) - _NAMES
        _log.warning(
            "at least %.0f%% of the held-out rows of each class equal rows to train on, in the "
            "label and all columns that the model uses; if they are copies, the AUC is too high: "
            "leave out the other columns (%s), or name a key whose rows stay together",
            100 * share,
            ", ".join(map(repr, others[:_NAMES])) + (f" and {more} more" if more > 0 else ""),
        )


def copied(
    train: Table,
    test: Table,
    columns: Sequence[str],
    label: tuple[str, Label | bool | None],
    fraction: float = 1.0,
) -> float:
    """The share of held-out rows that have copies among the rows to train on.

    A row has copies if rows to train on have its values, all of them with its label. The lower of
    the shares of the two classes counts: where rows have few possible values, many rows of the
    frequent class equal others by chance.

    Parameters
    ----------
    train, test
        The rows.
    columns
        Names of columns that have a hash.
    label
        Label column and positive label.
    fraction
        Share of the hashes of rows that are compared.

    Raises
    ------
    DataError
        A label is invalid.
    """
    name = field_of(train, label[0]).name
    value = positive_label(train, name, label[1])

    def keys_of(table: Table) -> Tally:
        def keys(batches: Batches) -> Batches:
            reader = LabelReader(name, value)
            for batch in batches:
                hashes = xxhash64(batch.columns[:-1])
                # The last bit is the label.
                made = hashes >> np.uint64(1) << np.uint64(1) | reader.read(batch.column(-1))
                kept = made[hashes < fraction * 2.0**64]
                yield pa.RecordBatch.from_arrays([pa.array(kept, pa.uint64())], schema=_SCHEMA)

        return tallied(table.select([*columns, name]).map(keys, _SCHEMA), "row", _MOST)

    known, held_out = keys_of(train).values.astype(np.uint64), keys_of(test)
    own = held_out.values.astype(np.uint64)
    has_copies = np.isin(own, known) & ~np.isin(own ^ np.uint64(1), known)
    is_positive = (own & np.uint64(1)).astype(np.int64)
    rows = np.bincount(is_positive, held_out.rows, 2)
    copies = np.bincount(is_positive, held_out.rows * has_copies, 2)
    return float(np.min(copies / rows)) if rows.all() else 0.0
