"""The choice of pairs of numeric columns for a recipe, from rows in memory."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import cast

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import Float
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.pair_choice import PairCandidates
from spark_auc.features.pair_histograms import HATS
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import RecipeState, doubles_of
from spark_auc.solvers.ridge import LARGEST_FACTORISED
from spark_auc.training.raw_rows import RawRows

_log = logging.getLogger(__name__)

# Fewest knots of a column of a pair. Of two tables with many pairs, 45 of 5 to 7 knots ranked .002
# to .004 better than 20 of 8 knots, and fewer cells take less time.
_FEWEST = 4
# Fewest features that there is room for: 16 pairs of 8 knots each.
_ROOM = 1024


def with_pairs(
    recipe: Recipe,
    rows: RawRows,
    scores: Float,
    *,
    count: int = 10,
    chosen_by: KeySample | None = None,
) -> Recipe:
    """The recipe with the pairs of numeric columns whose interaction adds most to single columns.

    Knots of the pairs are quantiles of the rows, 8 of each column, or as many, from 4 on, as give
    all pairs and columns of numbers at most 2,048 features; 16 pairs have 8 in any case.

    Parameters
    ----------
    recipe
        The fitted recipe. Its own pairs are replaced.
    rows
        Raw rows, of both classes.
    scores : (n,)
        Their scores by single columns; see `spark_auc.training.single_columns.single_scores`.
    count
        Largest number of pairs; see `PairCandidates.chosen`.
    chosen_by
        The sample of which these rows are, for `Recipe.chosen_by`.

    Raises
    ------
    ConfigError
        ``count`` is not a whole number of at least 1, or there are more than 500 numeric columns.
    """
    numbers = (doubles_of(cast(Numbers, rows.columns[c.name])) for c in recipe.numeric)
    state = RecipeState(tuple(ColumnSummary.of(values) for values in numbers))
    candidates = PairCandidates.of(recipe, state)
    best = candidates.best(candidates.histograms(rows.columns, rows.y, scores, rows.weight), count)
    for pair, gain in best:
        first, second = (column.name for column in pair.columns)
        _log.info(
            "chose the pair of %r and %r: it lowers the squared loss by %.3g, noise by %.3g",
            first,
            second,
            gain.gain,
            gain.noise,
        )
    if len(best) < count:
        _log.info(
            "%d pairs of %d columns lower the loss beyond noise, %d were asked for",
            len(best),
            len(candidates.columns),
            count,
        )
    gains = [gain for _, gain in best]
    room = max(LARGEST_FACTORISED - recipe.starts[len(recipe.numeric)], _ROOM)
    for hats in range(HATS, _FEWEST - 1, -1):
        pairs = PairCandidates.of(recipe, state, hats).pairs(gains)
        if sum(pair.size for pair in pairs) <= room:
            break
    return replace(recipe, pairs=pairs, chosen_by=chosen_by if pairs else recipe.chosen_by)
