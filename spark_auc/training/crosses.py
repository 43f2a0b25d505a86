"""The choice of crosses of categorical columns for a recipe, from rows in memory."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import Float, Int
from spark_auc.features.cross_gains import bits_of, cross_gains, pair_residuals
from spark_auc.features.crosses import Crosses
from spark_auc.features.recipe import Recipe
from spark_auc.features.row_groups import values_of
from spark_auc.training.raw_rows import RawRows

_log = logging.getLogger(__name__)

# The false discovery rate up to which a pair is a candidate.
_RATE = 0.1
# The most categorical columns of which pairs are tried.
MOST_COLUMNS = 16
# The most pairs: each adds a feature to every row.
MOST_PAIRS = 64


def categorical(recipe: Recipe) -> tuple[str, ...]:
    """Columns with tokens of their values: text, booleans, and integers that may be codes.

    Of more than `MOST_COLUMNS` columns, those that have no other features; none if they are as many
    too.
    """
    others = {c.name for c in recipe.own_columns if not c.OF_VALUES}
    names = tuple(c.name for c in recipe.hashed if c.OF_VALUES)
    if len(names) > MOST_COLUMNS:
        names = tuple(name for name in names if name not in others)
    if len(names) > MOST_COLUMNS:
        _log.info("no crosses of %d categorical columns: more than %d", len(names), MOST_COLUMNS)
        return ()
    return names


def with_crosses(
    recipe: Recipe,
    rows: RawRows,
    scores: Float,
    *,
    bits: int = 18,
    chosen_by: KeySample | None = None,
    total: int | None = None,
) -> Recipe:
    """The recipe with crosses of pairs of categorical columns that add to single columns.

    `cross_gains` ranks the pairs by the residuals of single columns: those with a false discovery
    rate of at most 10 % are taken, at most the 64 of the largest excess.

    Parameters
    ----------
    recipe
        The fitted recipe. Its own crosses are replaced.
    rows
        Raw rows, of both classes.
    scores : (n,)
        Their scores by single columns; see `spark_auc.training.single_columns.single_scores`.
    bits
        The largest logarithm of the number of features of crosses. It is lower for fewer pairs of
        values: the number is a power of 2 above 1.5 times that of the pairs of values.
    chosen_by
        The sample of which these rows are, for `Recipe.chosen_by`.
    total
        Number of rows of which these are a sample, to estimate the number of pairs of values: that
        in the sample grows with the rows, up to all pairs. Default: these are all rows.
    """
    names = categorical(recipe)
    if len(names) < 2:
        return replace(recipe, crosses=None)
    growth = max(1.0, (total or rows.y.size) / rows.y.size)
    codes = {name: _codes(values_of(name, rows.columns[name])) for name in names}
    gains = cross_gains(codes, pair_residuals(rows.y, scores))
    found = [gain for gain in gains if gain.rate <= _RATE][:MOST_PAIRS]
    _log.info("chose %d of %d pairs of %d categorical columns", len(found), len(gains), len(names))
    if not found:
        return replace(recipe, crosses=None)
    both = [tuple(codes[name] for name in gain.pair) for gain in found]
    found = [g._replace(cells=_cells(a, b, growth)) for g, (a, b) in zip(found, both, strict=True)]
    crosses = Crosses(tuple(gain.pair for gain in found), bits_of(found, bits))
    return replace(recipe, crosses=crosses, chosen_by=chosen_by or recipe.chosen_by)


def _codes(values: Float) -> Int:
    """Numbers ``(n,)`` from 0 of the values of a column; missing ones are one value."""
    numbers: Int = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return numbers


def _cells(a: Int, b: Int, growth: float) -> int:
    """Number of pairs of values in ``growth`` times as many rows, at most all pairs."""
    sizes = int(a.max(initial=0)) + 1, int(b.max(initial=0)) + 1
    return int(min(growth * np.unique(a * sizes[1] + b).size, sizes[0] * sizes[1]))
