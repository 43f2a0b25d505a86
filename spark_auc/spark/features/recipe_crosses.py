"""The crosses of a recipe, chosen from a sample of the rows."""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame

from spark_auc.core.labels import Label
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.features.recipe import Recipe
from spark_auc.spark.data.raw_features import RawFeatures
from spark_auc.spark.features.label_sample import label_sample
from spark_auc.training.crosses import categorical, with_crosses

_log = logging.getLogger(__name__)

# The other rows choose the penalty.
_SAMPLE = KeySample(0.5)
_MOST_ROWS = 100_000
_MOST_COLUMNS = 16


def crossed(
    df: DataFrame,
    recipe: Recipe,
    label: tuple[str, Label | bool | None],
    weight: str | None = None,
    key: str | None = None,
    *,
    bits: int,
    rows: int | None = None,
) -> Recipe:
    """The recipe with crosses if they rank held-out rows of a sample better; see `with_crosses`.

    The sample is half of the groups of rows, at most about 100,000 rows, which the driver gathers
    by one pass. There is no pass, and there are no crosses, with less than 2 or more than 16
    categorical columns: the crosses of many take long, and gain little on click logs.

    Parameters
    ----------
    df
        The rows.
    recipe
        Their fitted recipe.
    label, weight, key, rows
        See `label_sample`.
    bits
        The largest logarithm of the number of features of crosses.

    Raises
    ------
    ConfigError
        A column is unknown or of an unsupported type.
    DataError
        A value is invalid, or the sample has rows of one class only.
    ResourceError
        The sample does not fit in the memory of the driver.
    """
    names = categorical(recipe)
    if len(names) > _MOST_COLUMNS:
        _log.info("no crosses of %d categorical columns: more than %d", len(names), _MOST_COLUMNS)
    if not 2 <= len(names) <= _MOST_COLUMNS:
        return recipe
    raw = RawFeatures.of(df, recipe).raw
    taught = label_sample(df, raw, label, weight, key, sample=_SAMPLE, most=_MOST_ROWS, rows=rows)
    return with_crosses(
        recipe,
        taught.columns,
        taught.y,
        taught.weight,
        taught.groups,
        bits=bits,
        chosen_by=taught.sample,
        rows=taught.rows,
    )
