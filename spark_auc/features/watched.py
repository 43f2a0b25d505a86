"""A recipe that counts missing, extreme and new values in the pass that maps the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Float, Int
from spark_auc.errors import DataError
from spark_auc.features.drift import Drift
from spark_auc.features.raw_columns import Column, Columns, Text, read_only, rows_of
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import RecipeState
from spark_auc.features.recipe_rows import Entries
from spark_auc.features.seen import Seen

# Numbers of rows and of missing values of columns, by name.
Missing: TypeAlias = Mapping[str, tuple[int, int]]
# Bits before the first feature: that of index -1, for no token, is set.
_BEFORE = 32


@dataclass(frozen=True)
class Watched:
    """A recipe, and what its rows are compared with.

    Parameters
    ----------
    recipe
        The fitted recipe.
    seen
        Features that occurred in the fit. Default: tokens are not judged.
    """

    recipe: Recipe
    seen: Seen | None = None

    def __post_init__(self) -> None:
        dimension = self.recipe.starts[-2] - self.recipe.starts[-3]
        if self.seen and self.seen.dimension != dimension:
            raise DataError(
                f"found {self.seen.dimension} features of a fit, expected {dimension} as in the "
                "recipe; use the features of its own fit"
            )

    @cached_property
    def _words(self) -> NDArray[np.int32]:
        """The bits of `Seen` in words, after those of `_BEFORE`."""
        bits = np.unpackbits(self.seen.bits) if self.seen else np.empty(0, np.uint8)
        padding = np.zeros(-bits.size % 32, np.uint8)
        together = np.concatenate([np.ones(_BEFORE, np.uint8), bits, padding])
        return read_only(np.packbits(together, bitorder="little").view("<i4"))

    def transform(self, columns: Columns) -> tuple[sparse.csr_matrix, Drift]:
        """Rows as of `Recipe.transform`, and their counts; its errors.

        All names of ``columns`` that the recipe does not know are noted.
        """
        recipe = self.recipe
        unseen = np.zeros(len(recipe.tokens), np.int64)
        first, numeric = recipe.starts[-3] - _BEFORE, recipe.slots.size - unseen.size

        def watch(count: int, entries: Entries) -> None:
            _count_unseen(entries.indices[numeric:], count, first, self._words, unseen)

        X = recipe.transform(columns, watch if self.seen else None)
        drift = counted(recipe, columns)
        if not self.seen:
            return X, drift
        counts = drift.counts.copy()
        tokens = counts[len(recipe.numeric) : len(recipe.own_columns)]
        tokens[:, 4] = X.shape[0]
        slots = np.repeat(np.arange(len(tokens)), [len(each.parts) for each in recipe.hashed])
        of_columns = np.zeros(len(tokens), np.int64)
        np.add.at(of_columns, slots, unseen)
        # Missing values have one token, whose feature occurred in the fit or did not.
        tokens[:, 5] = of_columns - tokens[:, 1] * self._is_missing_unseen
        for count, hashed in zip(tokens, recipe.hashed, strict=True):
            if (unknown := hashed.unknown(columns[hashed.name])) is not None:
                count[5] = unknown
        return X, replace(drift, counts=counts)

    @cached_property
    def _is_missing_unseen(self) -> Int:
        """1 for each hashed column whose token of missing values did not occur in the fit."""
        recipe = self.recipe
        if recipe.missing != "indicator":
            return np.zeros(len(recipe.hashed), np.int64)
        places = np.array([h.missing_hash % recipe.dimension for h in recipe.hashed], np.int64)
        places += _BEFORE
        return np.array(1 - ((self._words[places >> 5] >> (places & 31)) & 1), np.int64)


def counted(recipe: Recipe, columns: Columns) -> Drift:
    """Counts of raw rows, which are not mapped; tokens are not judged.

    Parameters
    ----------
    recipe
        The fitted recipe.
    columns
        Columns by name. All names that the recipe does not know are noted.

    Raises
    ------
    DataError
        A column of the recipe is missing, or one of numbers has another type than in the fit.
    """
    drift = Drift.of_names(recipe, columns)
    if drift.absent.size:
        raise DataError(
            f"found no column {', '.join(map(repr, drift.absent.tolist()))} among "
            f"{sorted(columns)}, expected all columns of the fit; add them"
        )
    counts = drift.counts
    counts[:, 0] = rows_of(columns[recipe.columns[0].name])
    for place, column in enumerate(recipe.numeric):
        values, validity = column.doubles(columns[column.name])
        _count_beyond(values, validity, *column.bounds, counts[place, 1:4])
    for place, other in enumerate(recipe.columns[len(recipe.numeric) :], len(recipe.numeric)):
        counts[place, 1] = missing_of(columns[other.name])
    return drift


def drift_of_fit(recipe: Recipe, fit: RecipeState, tokens: Missing | None = None) -> Drift:
    """Counts of the rows of a fit, from its state.

    Where a state keeps a sample of the values, numbers beyond a range are estimated. Columns of
    tokens and trees have no rows if neither the state nor ``tokens`` has their missing values.

    Parameters
    ----------
    recipe
        The recipe that was fitted from the state, whose numeric columns are in the same order.
    fit
        The state.
    tokens
        Number of rows, and of missing values, of columns of tokens by name.
    """
    drift = Drift.zero(recipe)
    known = dict(tokens or {})
    for counts, column, summary in zip(drift.counts, recipe.numeric, fit.columns, strict=False):
        values, weights = summary.counts.weighted()
        values = np.concatenate([[-np.inf], values, [np.inf]])
        weights = np.concatenate([[summary.lowest], weights, [summary.highest]])
        low, high = column.bounds
        beyond = [float(weights[side].sum()) for side in (values < low, values > high)]
        counts[:4] = summary.rows, summary.missing, *np.rint(beyond)
        known[column.name] = summary.rows, summary.missing
    others = recipe.columns[len(recipe.numeric) :]
    for counts, other in zip(drift.counts[len(recipe.numeric) :], others, strict=True):
        counts[:2] = known.get(other.name, (0, 0))
    return drift


def missing_of(column: Column) -> int:
    """Number of missing values of a column, empty text included."""
    if isinstance(column, Text):
        here: Bool = column.starts != column.ends
    elif column.values.dtype.kind in "fM":
        here = ~np.isnan(column.values)
    else:
        here = np.ones(0 if column.validity is None else column.values.size, np.bool_)
    if column.validity is not None:
        here &= column.validity
    return here.size - int(np.count_nonzero(here))


@compiled()
def _count_beyond(values: Float, validity: Bool, low: float, high: float, out: Int) -> None:
    """Count missing values and those below and above a range; all comparisons of NaN are false."""
    missing = below = above = 0
    if validity.size:
        for row in range(values.size):
            x, valid = values[row], validity[row]
            missing += int(np.isnan(x) | (not valid))
            below += int(valid & (x < low))
            above += int(valid & (x > high))
    else:
        for row in range(values.size):
            x = values[row]
            missing += int(np.isnan(x))
            below += int(x < low)
            above += int(x > high)
    out[0], out[1], out[2] = missing, below, above


@compiled()
def _count_unseen(
    indices: NDArray[np.int32], rows: int, first: int, words: NDArray[np.int32], unseen: Int
) -> None:
    """Add the numbers of tokens whose bit is 0; ``first`` is the index of the first bit."""
    for s in range(unseen.size):
        line, count = indices[s, :rows], np.int32(0)
        for row in range(rows):
            at = max(line[row] - np.int32(first), np.int32(_BEFORE - 1))
            count += np.int32(1) - ((words[at >> np.int32(5)] >> (at & np.int32(31))) & np.int32(1))
        unseen[s] += count
