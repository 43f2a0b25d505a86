"""The facts of the moments that a job stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_auc.app.config.sections import Columns
from spark_auc.errors import ConfigError
from spark_auc.features.recipe_json import from_json, map_json
from spark_auc.store.facts import Facts

if TYPE_CHECKING:
    from spark_auc.pipeline.models import FittedRecipe
    from spark_auc.tables.segments import SegmentColumn


def facts_of(
    dimension: int,
    folds: int,
    seed: int,
    columns: Columns,
    recipe: FittedRecipe | None,
    segments: SegmentColumn | None = None,
) -> Facts:
    """The facts of rows of these columns; jobs of equal facts share a schema id.

    Parameters
    ----------
    dimension
        Number of features.
    folds, seed
        The folds.
    columns
        The section of the columns.
    recipe
        The fitted recipe; None for prepared features.
    segments
        The segment column; None for rows that are stored together.
    """
    label = 1 if columns.positiveLabel is None else columns.positiveLabel
    return Facts(
        dimension,
        folds,
        seed,
        float(label) if isinstance(label, int) else label,
        columns.weight,
        None if recipe is None else map_json(recipe.recipe),
        *(() if segments is None else (segments.column, segments.values)),
    )


def recipe_of(facts: Facts) -> FittedRecipe | None:
    """The fitted recipe of the features; None for prepared ones."""
    from spark_auc.pipeline.models import FittedRecipe

    return None if facts.recipe is None else FittedRecipe(from_json(facts.recipe))


def with_stored_segments(
    facts: Facts, stored: Mapping[str, Facts], column: str, schema_id: str | None
) -> Facts:
    """The facts with the segments of a store: those of its moments with equal other facts.

    Without equal ones, the store refuses the result with the difference.

    Parameters
    ----------
    facts
        Facts without segments.
    stored
        The facts of each schema id of the store.
    column
        Name of the segment column.
    schema_id
        The schema id of the moments; None for the only one.

    Raises
    ------
    ConfigError
        The store has no moments by segments of this column, or several that differ in the segments.
    """
    by_id = {name: of for name, of in stored.items() if schema_id in (None, name)}
    candidates = [
        replace(facts, segment_column=column, segments=of.segments)
        for of in by_id.values()
        if of.segment_column == column
    ]
    if not candidates:
        found = {name: of.segment_column for name, of in by_id.items()} or "no moments"
        raise ConfigError(
            f"found {found} in the store by schema id, expected moments with the segment column "
            f"{column!r}, whose values that are segments were chosen with the first period; run "
            "retrain with training.segmentCol first, or correct opauc.stream.store.segment and "
            "schemaId"
        )
    equal = {made.schema_id: made for made in candidates if made.schema_id in by_id}
    if len(equal) > 1:
        raise ConfigError(
            f"found moments of the schema ids {sorted(equal)} in the store, which differ in their "
            "segments, expected one; set opauc.stream.store.schemaId"
        )
    return next(iter(equal.values()), candidates[0])
