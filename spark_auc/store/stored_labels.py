"""The negative label of each schema id, in rows of the table; the facts have the positive one.

The rows have a schema id and a period of their own, so that readers of facts and periods skip them.
"""

from __future__ import annotations

import json
from hashlib import sha256

from spark_auc.core.labels import Label
from spark_auc.errors import DataError, ModelFormatError, StoreConflict
from spark_auc.store.facts import Facts
from spark_auc.store.files import SourceFile
from spark_auc.store.rows import PARTITIONS, STORED, TABLE, Source, text_row
from spark_auc.store.table import Table

# Stands for a schema id and a period; names of periods do not begin with "_".
_LABELS = "_labels"


def negative_label(location: str, facts: Facts) -> Label | None:
    """The label of negative rows under the schema id of facts; None if no job stored it.

    Raises
    ------
    ModelFormatError
        The row is damaged.
    """
    return _read(Table(location, TABLE, PARTITIONS), facts)


def has_negative_label(location: str, facts: Facts, label: Label) -> bool:
    """Whether a label is stored; errors are those of `store_negative_label`."""
    return _is(_read(Table(location, TABLE, PARTITIONS), facts), label)


def store_negative_label(location: str, facts: Facts, label: Label) -> None:
    """Store the label of negative rows, unless it is stored.

    Raises
    ------
    DataError
        Another label is stored.
    ModelFormatError
        The row is damaged.
    """
    table, place = Table(location, TABLE, PARTITIONS), _place(facts)
    if _is(_read(table, facts), label):
        return
    try:
        table.replace(place.predicate(), iter([text_row(_text(facts, label), place)]), 1)
    except StoreConflict:
        # Another job stored a label.
        table.refresh()
        if not _is(_read(table, facts), label):
            raise


def _is(stored: Label | None, label: Label) -> bool:
    if stored not in (None, label):
        raise DataError(
            f"found the negative label {label!r}, expected {stored!r} as in the stored moments; "
            "correct the rows, or build the store again with a full refresh"
        )
    return stored is not None


def _place(facts: Facts) -> Source:
    return Source(_LABELS, _LABELS, facts.schema_id)


def _text(facts: Facts, label: Label) -> str:
    digest = sha256(json.dumps([facts.schema_id, label]).encode()).hexdigest()
    return json.dumps({"negativeLabel": label, "sha256": digest})


def _read(table: Table, facts: Facts) -> Label | None:
    file = table.files().get(tuple(place := _place(facts)))
    if file is None:
        return None
    reader = SourceFile(table.file_system(), file.path, place, facts, table.is_latest)
    (data,) = (row[STORED.index("bytes")] for row in reader.all_rows())
    try:
        label: Label = json.loads(data)["negativeLabel"]
        if _text(facts, label).encode() != data:
            raise ValueError("another digest")
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFormatError(
            f"found a damaged negative label of the schema id {facts.schema_id} "
            f"({str(error)[:80]}), expected that of the first period; restore the table, or build "
            "the store again"
        ) from None
    return label
