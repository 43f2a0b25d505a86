"""What a training made of each column: its type, its features, and why it was left out."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from spark_auc.pipeline.models import FittedRecipe
from spark_auc.tables.names import folding
from spark_auc.tables.table import Table
from spark_auc.tables.text_types import format_of
from spark_auc.tables.types import raw_type, shown_type

_log = logging.getLogger(__name__)

# Most columns that the log names.
_LOGGED = 50


def column_facts(
    table: Table,
    fitted: FittedRecipe,
    roles: Mapping[str, str | None],
    words: Mapping[str, Mapping[str, int]],
) -> list[dict[str, Any]]:
    """What became of each column of the rows of a training.

    Parameters
    ----------
    table
        The rows.
    fitted
        The recipe.
    roles
        Columns that are no features, by what they are.
    words
        Numbers of rows of the words that count as missing in some columns, by their names.

    Returns
    -------
    list of dict
        For each column its ``name``, ``type``, ``format`` of text (None for others), ``kinds`` of
        features, number of ``missing`` values (None if it is unknown), the ``words`` of all rows
        that count as missing beside those of every column, with their numbers, and a ``note``.
    """
    fold, kinds = folding(exact=table.exact_names), dict[str, list[str]]()
    for column in fitted.recipe.columns:
        kinds.setdefault(fold(column.name), []).append(column.kind)
    missing = fitted.drift.missing() if fitted.drift else {}
    counts = {fold(name): count for name, (_, count) in missing.items()}
    role_of = {fold(name): role for role, name in roles.items() if name}
    notes = {fold(decision.column): decision.sentence for decision in fitted.decisions}
    found = []
    for field in table.schema:
        name, reading = fold(field.name), format_of(field)
        no_features = "" if name in kinds else "no features"
        found.append(
            {
                "name": field.name,
                "type": raw_type(field.type) or shown_type(field),
                "format": reading and reading.format,
                "kinds": kinds.get(name, []),
                "missing": counts.get(name),
                "words": dict(words.get(field.name, {})),
                "note": role_of.get(name) or notes.get(name) or no_features,
            }
        )
    for derived in fitted.recipe.derived:
        name = fold(derived.name)
        found.append(
            {
                "name": derived.name,
                "type": "float",
                "format": None,
                "kinds": kinds.get(name, []),
                "missing": counts.get(name),
                "words": {},
                "note": derived.NOTE,
            }
        )
    return found


def log_columns(facts: Sequence[Mapping[str, Any]]) -> None:
    """Log what became of the columns, one line for each of the first."""
    for fact in facts[:_LOGGED]:
        is_read = fact["format"] not in (None, fact["type"])
        parts = [fact["type"], *([f"as {fact['format']}"] if is_read else [])]
        parts += [" and ".join(fact["kinds"])] if fact["kinds"] else []
        parts += [f"{fact['missing']:,} missing"] if fact["missing"] else []
        parts += [f"missing words in all rows: {_shown(fact['words'])}"] if fact["words"] else []
        parts += [fact["note"]] if fact["note"] else []
        _log.info("column %r: %s", fact["name"], ", ".join(parts))
    if len(facts) > _LOGGED:
        _log.info("and %d columns more: see columns.json", len(facts) - _LOGGED)


def _shown(words: Mapping[str, int]) -> str:
    return ", ".join(f"{word!r} ({rows:,})" for word, rows in words.items())
