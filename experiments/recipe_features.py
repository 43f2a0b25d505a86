"""Features of experiments on raw tables, fitted to training rows.

- `additive`: an automatic recipe; see `experiments.raw_tables.Auto`.
- `pairs`: products of hats of the pairs of numeric columns that add most to additive scores.

Rows of a recipe have unit length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from experiments.raw_sets import Rows
from experiments.raw_tables import planned_columns
from spark_auc.core.types import Float, Int
from spark_auc.features.pair_choice import PairCandidates
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import RecipePlan, RecipeState


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
