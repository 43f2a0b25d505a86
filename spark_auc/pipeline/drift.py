"""Missing, extreme and unknown columns of the rows that a recipe maps, counted in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from spark_auc.core.row_source import State
from spark_auc.features.drift import Drift
from spark_auc.features.recipe import Recipe
from spark_auc.features.seen import Seen
from spark_auc.features.watched import Watched, counted
from spark_auc.tables.nested import paths_of
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.table import Batches, Table

# Bytes of the state of a column: its name, kind and counts.
_COLUMN_BYTES = 1_000


def drift_of(table: Table, recipe: Recipe, *, seen: Seen | None = None) -> Drift:
    """Counts of the rows of a table.

    The states of the tasks are merged as results, so that a repeated task counts once.

    Parameters
    ----------
    table
        Rows with the recipe's columns. All names of other columns are noted as unknown, except
        those of structs of which it has fields.
    recipe
        The fitted recipe.
    seen
        Features that tokens are compared with, for which the rows are mapped. Default: tokens are
        not judged.

    Raises
    ------
    ConfigError
        A column is missing.
    DataError
        A column has another type than in the fit, or a line is malformed.
    """
    raw = RawFeatures.of(table, recipe).raw

    def fold(batches: Batches) -> Iterator[tuple[str, State]]:
        drift, watched = Drift.zero(recipe), Watched(recipe, seen)
        for batch in batches:
            columns = raw.decode(batch.columns)
            found = counted(recipe, columns) if seen is None else watched.transform(columns)[1]
            drift = drift.merge(found)
        yield "drift", drift

    size = _COLUMN_BYTES * len(recipe.columns)
    what = f"missing and extreme values of {len(raw.names)} raw columns"
    states = table.select(raw.found).fold(fold, (Drift,), state_bytes=size, what=what)
    # The recipe may write names in another case.
    of_recipe = dict(zip(raw.found, raw.names, strict=True))
    names = (f.name for f in table.schema if of_recipe.keys().isdisjoint(paths_of(f)))
    named = Drift.of_names(recipe, [of_recipe.get(name, name) for name in names])
    return named.merge(cast(Drift, states["drift"])) if states else named
