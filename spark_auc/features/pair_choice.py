"""The choice of pairs of numeric columns that a recipe has beside its single columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.types import Bool, Float
from spark_auc.errors import ConfigError, DataError, some_of
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.pair_gains import PairGain, best_pairs
from spark_auc.features.pair_histograms import HATS, PairHistograms
from spark_auc.features.raw_columns import Columns, Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import RecipeState, doubles_of
from spark_auc.features.splines import Splines

# The largest number of columns of which all pairs are compared: their sums take 0.3 GB.
MOST_COLUMNS = 500
# The false discovery rate up to which a pair is chosen.
_RATE = 0.1


@dataclass(frozen=True)
class PairCandidates:
    """The numeric columns of a recipe that may be paired, with the knots that pairs have.

    Rows are mapped twice: the recipe without pairs is fitted and scored, the states of its scores
    are merged, and the recipe with the chosen pairs is fitted. The pairs depend on the labels of
    the rows of the states: a penalty that is chosen on the same rows is too low for few rows. See
    `spark_auc.training.pairs` for all of it in memory.

    Parameters
    ----------
    columns
        The columns with at least two and at most 8 knots.

    Raises
    ------
    ConfigError
        There are more than 500 columns.
    """

    columns: tuple[Spline, ...]

    def __post_init__(self) -> None:
        if len(self.columns) > MOST_COLUMNS:
            raise ConfigError(
                f"found {len(self.columns)} numeric columns to choose pairs from, expected at most "
                f"{MOST_COLUMNS}; name the pairs, or leave columns out"
            )

    @classmethod
    def of(cls, recipe: Recipe, state: RecipeState, hats: int = HATS) -> PairCandidates:
        """The candidates of a recipe.

        Parameters
        ----------
        recipe
            The fitted recipe.
        state
            The state that it was fitted from.
        hats
            Greatest number of knots of a column.

        Raises
        ------
        DataError
            The state is of another number of columns.
        """
        return cls(tuple(_splines(recipe, state, hats).values()))

    @cached_property
    def _splines(self) -> Splines:
        return Splines.of_knots([column.knots for column in self.columns])

    def zero(self) -> PairHistograms:
        """The state of no rows."""
        return PairHistograms.zero(len(self.columns))

    def histograms(
        self, columns: Columns, y: Bool, scores: Float, weight: Float | None = None
    ) -> PairHistograms:
        """The state of some rows.

        Parameters
        ----------
        columns
            Raw columns by name, as for `Recipe.transform`.
        y : (n,)
            True for positive rows.
        scores : (n,)
            Scores of the rows by the model of the recipe without pairs.
        weight : (n,), optional
            Row weights. Default: 1.

        Raises
        ------
        DataError
            A column has another type than in the rows of the fit, or a score is not finite.
        """
        X = np.empty((y.size, len(self.columns)))
        for j, column in enumerate(self.columns):
            column.check(columns[column.name])
            X[:, j] = doubles_of(cast(Numbers, columns[column.name]))
        return PairHistograms.of(self._splines, Batch(X, y, weight), scores)

    def chosen(self, recipe: Recipe, histograms: PairHistograms, count: int = 10) -> Recipe:
        """The recipe with the best pairs, at most ``count``; see `best_pairs`.

        Only pairs are chosen whose false discovery rate is at most 10 %, so that a table of many
        columns without interactions mostly has none. Effects of single columns are meant to add on
        the scale of probabilities; those that add to the log-odds may show as a weak pair.

        Raises
        ------
        ConfigError
            ``count`` is not a whole number of at least 1.
        DataError
            A class has no rows, or the state is of another number of columns.
        """
        return replace(recipe, pairs=tuple(pair for pair, _ in self.best(histograms, count)))

    def best(self, histograms: PairHistograms, count: int = 10) -> list[tuple[Pair, PairGain]]:
        """The pairs of `chosen` and their gains; errors are those of `chosen`."""
        if histograms.dimension != len(self.columns):
            raise DataError(
                f"found a state of {histograms.dimension} columns, expected {len(self.columns)}; "
                "use states of these candidates"
            )
        gains = [gain for gain in best_pairs(histograms, count) if gain.rate <= _RATE]
        return list(zip(self.pairs(gains), gains, strict=True))

    def pairs(self, gains: Sequence[PairGain]) -> tuple[Pair, ...]:
        """The pairs of columns that have these gains."""
        return tuple(Pair(self.columns[g.first], self.columns[g.second]) for g in gains)


def named_pairs(
    recipe: Recipe, state: RecipeState, names: Sequence[Sequence[str]]
) -> tuple[Pair, ...]:
    """The pairs of columns with these names, with the knots that chosen pairs have.

    Parameters
    ----------
    recipe
        The fitted recipe.
    state
        The state that it was fitted from.
    names
        Pairs of names of its numeric columns.

    Raises
    ------
    ConfigError
        A name is not that of a numeric column with at least two values, or a pair has one column.
    DataError
        The state is of another number of columns.
    """
    splines = _splines(recipe, state)
    if unknown := dict.fromkeys(name for pair in names for name in pair if name not in splines):
        raise ConfigError(
            f"found a pair of the columns {', '.join(map(repr, unknown))}, expected numeric "
            f"columns of two or more values, {some_of(splines)}; change the pair, or name these "
            "columns among those of spline or standard"
        )
    return tuple(Pair(splines[first], splines[second]) for first, second in names)


def _splines(recipe: Recipe, state: RecipeState, hats: int = HATS) -> dict[str, Spline]:
    """The numeric columns with at least two knots by name, with the knots that pairs have."""
    if len(state.columns) != len(recipe.numeric):
        raise DataError(
            f"found a state of {len(state.columns)} columns, expected {len(recipe.numeric)}; "
            "use the state of the fit of this recipe"
        )
    both = zip(recipe.numeric, state.columns, strict=True)
    # A column may be numeric in several ways.
    columns = {c.name: (c.type, summary.knots(hats)) for c, summary in both}
    splines = {name: Spline(name, *rest) for name, rest in columns.items()}
    return {name: spline for name, spline in splines.items() if len(spline.knots) > 1}
