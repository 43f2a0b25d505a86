"""The choice of crosses of categorical columns for a recipe, from rows in memory."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.memory import ProcessMemory
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import Bool, Float, Int, Keys
from spark_auc.errors import DataError, HoldOutError
from spark_auc.features.cross_gains import CrossGain, bits_of, cross_gains, pair_residuals
from spark_auc.features.crosses import Crosses
from spark_auc.features.raw_columns import Columns
from spark_auc.features.recipe import Recipe
from spark_auc.features.row_groups import row_groups, values_of
from spark_auc.solvers.candidates import simplest
from spark_auc.solvers.ridge import LARGEST_FACTORISED
from spark_auc.training.penalty import choose_penalty
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train

_log = logging.getLogger(__name__)

# The false discovery rate up to which a pair is a candidate.
_RATE = 0.1
# The most categorical columns of which pairs are tried.
MOST_COLUMNS = 16
# The most pairs of a candidate: each adds a feature to every row.
MOST_PAIRS = 64
# The rows that rank the pairs; the others compare the candidates.
_RANKING = KeySample(0.5, 0xC5)
_FOLDS = 3
# Penalties as shares of the trace of the second moments.
_SHARES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)
# Of many features, which have no matrix, weaker penalties take most of the time.
_WEAKEST = 1e-4
_STEPS = 100
# The rows are faster than larger matrices.
_MEMORY = ProcessMemory(matrix_limit=LARGEST_FACTORISED)


class _Candidate(NamedTuple):
    """A recipe, its best penalty, and its AUC ``(k,)`` on each fold with this penalty."""

    words: str
    recipe: Recipe
    penalty: float
    auc: Float


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
    columns: Columns,
    y: Bool,
    weight: Float | None = None,
    group: Keys | None = None,
    *,
    bits: int = 18,
    chosen_by: KeySample | None = None,
    rows: int | None = None,
) -> Recipe:
    """The recipe with crosses of pairs of categorical columns, if they rank held-out rows better.

    A sample of half of the rows ranks the pairs by `cross_gains`, from the residuals of exact
    all-pairs ridge on the features of the recipe without crosses. The candidates are no crosses,
    those pairs with a false discovery rate of at most 10 %, and all pairs; of more than 64 pairs,
    the 64 of the largest excess. They are compared by the AUC of held-out folds with one ridge
    penalty for all features, the best of nine. The rows that ranked the pairs train in every fold
    and are held out in none. Among candidates whose mean AUC differs from the best one by at most
    one standard error of the differences on the folds, the one of the fewest pairs is taken.

    Parameters
    ----------
    recipe
        The fitted recipe. Its own crosses are replaced.
    columns
        Raw columns by name, as for `Recipe.transform`.
    y : (n,)
        True for positive rows.
    weight : (n,), optional
        Row weights. Default: 1.
    group : (n,), optional
        Rows of a group are in the same fold. Default: rows with equal values.
    bits
        The largest logarithm of the number of features of crosses. It is lower for fewer pairs of
        values: the number is a power of 2 above 1.5 times that of the pairs of values.
    chosen_by
        The sample of which these rows are, for `Recipe.chosen_by`.
    rows
        Number of rows of which these are a sample, to estimate the number of pairs of values: that
        in the sample grows with the rows, up to all pairs. Default: these are all rows.

    Raises
    ------
    DataError
        The rows are of one class, or a column cannot be used.
    """
    names = categorical(recipe)
    if len(names) < 2:
        return replace(recipe, crosses=None)
    # Leaves know the labels of the rows that grew them.
    plain = replace(recipe, crosses=None, trees=None)
    if y.all() or not y.any():
        raise DataError(
            f"found {y.size} rows of one class to choose crosses from, expected rows of both; pass "
            "more rows, or name the pairs"
        )
    if group is None:
        group = row_groups({c.name: columns[c.name] for c in recipe.columns})
    labelled = Batch(np.empty((y.size, 0)), y, weight, group=group)
    growth = max(1.0, (rows or y.size) / y.size)
    codes = {name: _codes(values_of(name, columns[name])) for name in names}
    try:
        base = _compared("no crosses", plain, columns, labelled)
        gains = _ranked(base, columns, labelled, codes, growth)
        found = [gain for gain in gains if gain.rate <= _RATE][:MOST_PAIRS]
        sets = {len(chosen): chosen for chosen in (found, gains[:MOST_PAIRS]) if chosen}
        candidates = [base]
        for chosen in sets.values():
            crosses = Crosses(tuple(gain.pair for gain in chosen), bits_of(chosen, bits))
            words = f"{len(chosen)} of {len(gains)} pairs"
            crossed = replace(plain, crosses=crosses)
            candidates.append(_compared(words, crossed, columns, labelled))
    except HoldOutError as error:
        _log.warning("no crosses were chosen: %s", error)
        return replace(recipe, crosses=None)
    best = candidates[simplest(np.stack([candidate.auc for candidate in candidates]))]
    _log.info("chose %s of %d categorical columns", best.words, len(names))
    made = best.recipe.crosses
    taught = (made and chosen_by) or recipe.chosen_by
    return replace(recipe, crosses=made, chosen_by=taught)


def _codes(values: Float) -> Int:
    """Numbers ``(n,)`` from 0 of the values of a column; missing ones are one value."""
    numbers: Int = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return numbers


def _ranked(
    base: _Candidate, columns: Columns, rows: Batch, codes: dict[str, Int], growth: float
) -> list[CrossGain]:
    """The pairs by their gains in the rows that rank them; cells are estimated for all rows."""
    inside = np.flatnonzero(_RANKING.inside(rows))
    batch = rows._replace(X=base.recipe.transform(columns)).take(inside)
    if batch.y.all() or not batch.y.any():
        raise HoldOutError(
            f"found {inside.size} rows of one class to rank pairs, expected both; use more rows"
        )
    model = train(_source(base.recipe, batch), _settings((base.penalty,)))
    residuals = pair_residuals(batch.y, settled_scores(batch.X, model.w))
    gains = cross_gains({name: code[inside] for name, code in codes.items()}, residuals)
    pairs = [(codes[a], codes[b]) for (a, b), *_ in gains]
    both = zip(gains, pairs, strict=True)
    return [gain._replace(cells=_cells(*pair, growth)) for gain, pair in both]


def _cells(a: Int, b: Int, growth: float) -> int:
    """Number of pairs of values in ``growth`` times as many rows, at most all pairs."""
    sizes = int(a.max(initial=0)) + 1, int(b.max(initial=0)) + 1
    return int(min(growth * np.unique(a * sizes[1] + b).size, sizes[0] * sizes[1]))


def _compared(words: str, recipe: Recipe, columns: Columns, rows: Batch) -> _Candidate:
    """A candidate with the AUC of the rows that did not rank pairs."""
    source = _source(recipe, rows._replace(X=recipe.transform(columns)))
    moments = column_moments(source)
    trace = float(moments.squares.sum())
    weakest = _SHARES[0] if recipe.size <= LARGEST_FACTORISED else _WEAKEST
    settings = _settings(tuple(trace * share for share in _SHARES if share >= weakest))
    selection = choose_penalty(source, settings.sampling, settings).selection
    auc = selection.auc[selection.chosen]
    _log.info("%s: AUC %.4f of held-out rows, %d features", words, auc.mean(), recipe.size)
    return _Candidate(words, recipe, selection.candidate.regParam, auc)


def _source(recipe: Recipe, batch: Batch) -> ArrayRows:
    return ArrayRows((batch,), recipe.size, _MEMORY)


def _settings(penalties: tuple[float, ...]) -> TrainingSettings:
    folds = Folds(_FOLDS, never_held_out=_RANKING)
    return TrainingSettings(
        reg_params=penalties,
        folds=folds,
        standardize=False,
        tol=1e-3,
        max_iter=_STEPS,
        on_failure="warn",
    )
