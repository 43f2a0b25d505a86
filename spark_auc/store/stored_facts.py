"""The facts of each schema id, in rows of the table."""

from __future__ import annotations

from spark_auc.errors import ModelFormatError, StoreConflict
from spark_auc.store.facts import Facts
from spark_auc.store.files import SourceFile
from spark_auc.store.rows import STORED, Source, text_row
from spark_auc.store.table import Table

# The period and source of the rows of facts; other names do not begin with "_".
FACTS = "_facts"


def stored_facts(table: Table) -> dict[str, Facts]:
    """The facts of each schema id; raises `ModelFormatError` if they are damaged."""
    stored = {}
    for key, file in sorted(table.files().items()):
        if key[1] != FACTS:
            continue
        # Any facts serve to read the bytes, which hold the true ones.
        reader = SourceFile(
            table.file_system(), file.path, Source(*key), Facts(1, 2), table.is_latest
        )
        facts = [Facts.from_json(row[STORED.index("bytes")]) for row in reader.all_rows()]
        if [f.schema_id for f in facts] != [key[0]]:
            raise ModelFormatError(
                f"found facts of {[f.schema_id for f in facts]} under the schema id {key[0]!a}, "
                "expected its own; restore the table, or build the store again"
            )
        stored[key[0]] = facts[0]
    return stored


def store_facts(table: Table, facts: Facts) -> None:
    """Store the facts under their schema id."""
    place = Source(facts.schema_id, FACTS, FACTS)
    try:
        table.replace(place.predicate(), iter([text_row(facts.to_json(), place)]), 1)
    except StoreConflict:
        # Another job stored the same facts: their hash is their place.
        table.refresh()
        if tuple(place) not in table.files():
            raise
