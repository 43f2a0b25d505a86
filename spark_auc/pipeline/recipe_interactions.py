"""The pairs and the crosses of a recipe, chosen from one sample of the rows."""

from __future__ import annotations

import logging

from spark_auc.core.labels import Label
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import HoldOutError
from spark_auc.features.pair_choice import MOST_COLUMNS
from spark_auc.features.recipe import Recipe
from spark_auc.pipeline.label_sample import label_sample
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.table import Table
from spark_auc.training.crosses import categorical, with_crosses
from spark_auc.training.pairs import with_pairs
from spark_auc.training.raw_rows import RawRows
from spark_auc.training.single_columns import single_scores

_log = logging.getLogger(__name__)

# The other rows choose the penalty.
_SAMPLE = KeySample(0.5)
_MOST_ROWS = 100_000


def with_interactions(
    table: Table,
    recipe: Recipe,
    label: tuple[str, Label | bool | None],
    weight: str | None = None,
    key: str | None = None,
    *,
    pairs: int | None = None,
    bits: int | None = None,
    rows: int | None = None,
) -> Recipe:
    """The recipe with pairs and crosses that a sample chooses; see `with_pairs`, `with_crosses`.

    The sample is half of the groups of rows, or the groups that grew the trees of the recipe, at
    most about 100,000 rows, which the driver gathers by one pass. There is no pass without a
    choice: there are no pairs of less than 2 or more than 500 numeric columns, and no crosses of
    less than 2 categorical ones (see `categorical`). From a sample of one class nothing is chosen.

    Parameters
    ----------
    table
        The rows.
    recipe
        Their fitted recipe.
    label, weight, key, rows
        See `label_sample`.
    pairs
        Most pairs of numeric columns to choose. Default: those of the recipe remain.
    bits
        The largest logarithm of the number of features of crosses. Default: those of the recipe
        remain.

    Raises
    ------
    ConfigError
        A column is unknown or of an unsupported type.
    DataError
        A value is invalid.
    ResourceError
        The sample does not fit in the memory of the driver.
    """
    numeric = {column.name for column in recipe.numeric}
    if pairs is not None and not 2 <= len(numeric) <= MOST_COLUMNS:
        level = logging.INFO if len(numeric) < 2 else logging.WARNING
        _log.log(
            level, "no pairs of %d numeric columns, expected 2 to %d", len(numeric), MOST_COLUMNS
        )
        pairs = None
    if bits is not None and len(categorical(recipe)) < 2:
        bits = None
    if pairs is None and bits is None:
        return recipe
    raw = RawFeatures.of(table, recipe).raw
    # The rows that grew trees do not train anyway.
    grown = recipe.trees.grown if recipe.trees else None
    sample = grown or _SAMPLE
    try:
        taught = label_sample(
            *(table, raw, label, weight, key),
            sample=sample,
            most=_MOST_ROWS,
            rows=rows,
            remedy="name the pairs and crosses, or set them to null",
        )
    except HoldOutError as error:
        _log.warning("no pairs and crosses are chosen: %s", error)
        return recipe
    if taught.y.all() or not taught.y.any():
        _log.warning(
            "no pairs and crosses are chosen: found a sample of %d rows of one class, expected "
            "rows of both",
            taught.y.size,
        )
        return recipe
    labelled = RawRows(taught.columns, taught.y, taught.weight, taught.groups)
    chosen_by = None if grown else taught.sample
    try:
        scores = single_scores(recipe, labelled)
    except HoldOutError as error:
        _log.warning("no pairs and crosses are chosen: %s", error)
        return recipe
    if pairs is not None:
        recipe = with_pairs(recipe, labelled, scores, count=pairs, chosen_by=chosen_by)
    if bits is not None:
        both = recipe, labelled, scores
        recipe = with_crosses(*both, bits=bits, chosen_by=chosen_by, total=taught.rows)
    return recipe
