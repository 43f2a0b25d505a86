"""Features of the rankers of `experiments.past_ours`, fitted to training rows.

- `additive`: an automatic recipe; see `experiments.raw_tables.Auto`.
- `pairs`: products of hats of the pairs of numeric columns that add most to additive scores.
- `crosses`: hashed pairs of columns of text.
- `chosen_crosses`: hashed pairs of a column of text and another that gain on held-out rows.
- `leaves`: leaves of trees that LightGBM grows.

Each block of features has rows of at most unit length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from experiments.past_peers import Codes
from experiments.past_sets import Rows
from experiments.raw_tables import planned_columns
from spark_auc.core.types import Float, Int
from spark_auc.features.crosses import Crosses
from spark_auc.features.pair_choice import PairCandidates
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import RecipePlan, RecipeState
from spark_auc.trees.forest import Forest
from spark_auc.trees.grow import grow
from spark_auc.trees.leaves import leaves

CROSS_BITS = 20
# Most stored entries of crosses of all rows; above them, crosses are not a candidate.
MOST_CROSSES = 5_000_000
# Of crosses that are chosen: their number, least gain in standard errors, and rows added to a cell.
MOST_PAIRS, NOISE, SHRINKAGE = 20, 2.0, 10.0
Block: TypeAlias = Callable[[Rows], sparse.csr_matrix]


@dataclass(frozen=True)
class OfRecipe:
    """The features of a recipe that any training row has.

    Parameters
    ----------
    recipe
        The recipe.
    kept : (F,)
        Numbers of the features.
    """

    recipe: Recipe
    kept: Int

    @classmethod
    def of(cls, recipe: Recipe, rows: Rows) -> OfRecipe:
        """The features of training rows."""
        return cls(recipe, np.unique(recipe.transform(rows.columns).indices))

    def __call__(self, rows: Rows) -> sparse.csr_matrix:
        """The rows, with rows of zeros where all features are new."""
        X = self.recipe.transform(rows.columns)
        # Fewer columns by a table of places: slicing a matrix of 2^20 columns takes longer.
        place = np.full(X.shape[1], -1)
        place[self.kept] = np.arange(self.kept.size)
        known = place[X.indices] >= 0
        ends = np.append(0, np.cumsum(known))[X.indptr]
        entries = X.data[known], place[X.indices[known]], ends
        return sparse.csr_matrix(entries, (X.shape[0], self.kept.size))


def additive(rows: Rows, knots: int) -> tuple[Recipe, RecipeState]:
    """The automatic recipe of single columns, and the state that it was fitted from."""
    distinct = rows.frame.nunique()
    plan = RecipePlan(tuple(planned_columns(rows.columns, distinct, rows.y.size)), knots)
    state = plan.fold([rows.columns])
    return plan.fitted(state), state


def pairs(rows: Rows, recipe: Recipe, state: RecipeState, scores: Float, count: int) -> Recipe:
    """The best pairs of numeric columns beside the recipe; the recipe itself if none gains."""
    candidates = PairCandidates.of(recipe, state)
    if len(candidates.columns) < 2:
        return recipe
    return candidates.chosen(recipe, candidates.histograms(rows.columns, rows.y, scores), count)


def crosses(rows: Rows, recipe: Recipe) -> Crosses | None:
    """All pairs of columns of text; None if there are none or too many."""
    names = [column.name for column in recipe.hashed if column.type == "text"]
    both = tuple(combinations(names, 2))
    if not both or rows.y.size * len(both) > MOST_CROSSES:
        return None
    return Crosses(both, CROSS_BITS)


def chosen_crosses(rows: Rows, recipe: Recipe, scores: Float, seed: int) -> Crosses | None:
    """The pairs of a column of text and any other column that add most to scores; None if none do.

    The gain of a pair is what the shrunk means of its cells, of four fifths of the rows, take off
    the mean squared residual of the last fifth; each fifth is held out once. Numbers are cut at
    their octiles. Kept are at most `MOST_PAIRS` whose gain is above `NOISE` standard errors.
    """
    codes = {column.name: _codes(rows.frame[column.name]) for column in recipe.own_columns}
    texts = {column.name for column in recipe.hashed if column.type == "text"}
    # Rows of both classes have equal weights in all; the residual is that of the best line.
    weight = np.where(rows.y, 0.5 / rows.y.mean(), 0.5 / (1 - rows.y.mean()))
    line = np.polyfit(scores, rows.y, 1, w=np.sqrt(weight))
    residual = rows.y - np.polyval(line, scores)
    folds = rows.folds(seed)
    gains = []
    for pair in combinations(codes, 2):
        if not texts & set(pair):
            continue
        first, second = (codes[name] for name in pair)
        cell = np.unique(first * (second.max() + 1) + second, return_inverse=True)[1]
        mean = np.empty(rows.y.size)
        for fit, held_out in folds:
            sums = np.bincount(cell[fit], (weight * residual)[fit], cell.max() + 1)
            sizes = np.bincount(cell[fit], weight[fit], cell.max() + 1)
            mean[held_out] = (sums / (sizes + SHRINKAGE))[cell[held_out]]
        gain = weight * mean * (2 * residual - mean)
        gains.append((gain.mean() / (gain.std() / np.sqrt(gain.size) + 1e-300), gain.mean(), pair))
    best = sorted(((gain, pair) for z, gain, pair in gains if z > NOISE), reverse=True)
    kept = tuple(pair for _, pair in best[:MOST_PAIRS])
    return Crosses(kept, CROSS_BITS) if kept else None


def _codes(series: pd.Series[Any]) -> Int:
    """Whole numbers from 0 of categories, or of eighths of the rows; 0 is a missing value."""
    if series.dtype == object:
        return pd.factorize(series)[0] + 1
    values = series.to_numpy()
    cuts = np.unique(np.nanquantile(values, np.arange(1, 8) / 8))
    return np.where(np.isnan(values), 0, 1 + np.searchsorted(cuts, values, side="left"))


@dataclass(frozen=True)
class Leaves:
    """The leaves of frozen trees, each of size ``1 / sqrt(T)``.

    Parameters
    ----------
    forest
        The ``T`` trees.
    codes
        Categories of the columns of text.
    """

    forest: Forest
    codes: Codes

    @classmethod
    def grown(cls, rows: Rows, seed: int, settings: Mapping[str, Any]) -> Leaves:
        """Trees of all rows."""
        codes = Codes.of(rows.frame)
        X = codes.encoded(rows.frame)
        categorical = [list(X.columns).index(name) for name in codes.categories]
        values = X.to_numpy(float)
        return cls(grow(values, rows.y, categorical=categorical, seed=seed, **settings), codes)

    @property
    def prior(self) -> Float:
        """The weights with which the features score as the trees do."""
        values: Float = self.forest.values * np.sqrt(self.forest.trees)
        return values

    def __call__(self, rows: Rows) -> sparse.csr_matrix:
        """The leaves of rows."""
        values = self.codes.encoded(rows.frame).to_numpy(float)
        found = leaves(self.forest, values)
        found.data /= np.sqrt(self.forest.trees)
        return found


@dataclass(frozen=True)
class Stacked:
    """Several blocks of features side by side."""

    blocks: Sequence[Block]

    def __call__(self, rows: Rows) -> sparse.csr_matrix:
        """The features of rows."""
        if len(self.blocks) == 1:
            return self.blocks[0](rows)
        return sparse.hstack([block(rows) for block in self.blocks], format="csr")
