"""Contributions of raw columns to the scores of a linear model of a recipe's features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Float, Int
from spark_auc.errors import DataError
from spark_auc.features.raw_columns import Columns, rows_of
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_rows import Entries, Layout, cross, join

# Name of the part of all leaves: a leaf depends on several columns.
TREES = "trees"


def parts(recipe: Recipe) -> tuple[str, ...]:
    """Names ``(p,)``: columns of a recipe, its pairs and crosses, as "age x city", its trees."""
    return tuple(" x ".join(names) or TREES for names in part_columns(recipe))


def part_columns(recipe: Recipe) -> tuple[tuple[str, ...], ...]:
    """Names of the one or two columns of each of the `parts`, and none for the trees."""
    names = _names(recipe)
    pairs = ((names[a], names[b]) for a, b in _pairs(recipe)[0].tolist())
    return (*((name,) for name in names), *pairs, *([()] if recipe.trees else []))


def contributions(recipe: Recipe, w: Float, columns: Columns) -> Float:
    """Contributions ``(n, p)`` of the `parts` of a recipe to the scores ``x'w`` of rows.

    A contribution is the sum of ``x_j w_j`` over the features of a part. Rows are divided by their
    norm as in `Recipe.transform`. The sum of the contributions of a row is its score, but for
    rounding (1e-15 of the sum of their absolute values per feature).

    Parameters
    ----------
    recipe
        The fitted recipe.
    w : (F,)
        Weights of the features.
    columns
        Raw columns by name, as for `Recipe.transform`.

    Raises
    ------
    DataError
        As in `Recipe.transform`, or there is another number of weights than of features.
    """
    check_weights(recipe, w)
    weights, owners = np.ascontiguousarray(w, float), _owners(recipe)
    rows = rows_of(columns[recipe.columns[0].name])
    out = np.zeros((rows, len(parts(recipe))))
    for begin, count, entries in recipe.entries(columns):
        norms = _norms(recipe, entries, begin, count)
        _add(entries, recipe.layout, *owners, weights, norms, out[begin : begin + count])
    return out


def check_weights(recipe: Recipe, w: Float) -> None:
    """`DataError` for another number of weights than of features of a recipe."""
    if np.shape(w) != (recipe.size,):
        raise DataError(
            f"found weights of shape {np.shape(w)}, expected ({recipe.size},); use the weights of "
            "a model of this recipe's features"
        )


def largest(values: Float, count: int) -> Int:
    """Places ``(n, count)`` of the largest values of each row in absolute value, descending.

    Values of 0 are left out: the last places of a row may be -1. Of equal values the first is
    before the others.

    Parameters
    ----------
    values : (n, p)
        Contributions.
    count
        Largest number of places of a row.
    """
    places = np.full((len(values), count), -1)
    _select(np.ascontiguousarray(values), places)
    return places


def _pairs(recipe: Recipe) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs ``(q, 2)`` of columns, and the number of the pair of each pair of slots and of hats."""
    crossed = _columns(recipe)[recipe.slots[recipe.slot_pairs]]
    names = _names(recipe)
    hats = [[names.index(column.name) for column in pair.columns] for pair in recipe.pairs]
    numbers = np.sort(np.concatenate([crossed, np.array(hats, np.int64).reshape(-1, 2)]), axis=1)
    pairs, owners = np.unique(numbers, axis=0, return_inverse=True)
    return pairs, owners.ravel().astype(np.int64)


def _names(recipe: Recipe) -> list[str]:
    return list(dict.fromkeys(column.name for column in recipe.own_columns))


def _columns(recipe: Recipe) -> Int:
    """Number of the name of each of `Recipe.own_columns`, of which several may have one name."""
    names = _names(recipe)
    return np.array([names.index(column.name) for column in recipe.own_columns], np.int64)


def _owners(recipe: Recipe) -> tuple[Int, Int]:
    """The part of each slot, and of each pair of slots."""
    columns, (pairs, owners) = _columns(recipe), _pairs(recipe)
    first = columns.max(initial=-1) + 1
    crossed, joint = np.split(first + owners, [len(recipe.slot_pairs)])
    if recipe.trees:
        joint = np.append(joint, first + len(pairs))
    # Slots count the joint entries from -1 downwards.
    return np.concatenate([columns, joint[::-1]])[recipe.slots], crossed


def _norms(recipe: Recipe, entries: Entries, begin: int, count: int) -> Float:
    """The numbers by which rows are divided: norms, or 1."""
    norms = np.ones(count)
    if recipe.unit:
        most = count * (recipe.slots.size + len(recipe.slot_pairs))
        data, indices, ends = np.empty(most), np.empty(most, np.int32), np.empty(count, np.int32)
        join(entries, recipe.layout._replace(unit=False), 0, data, indices, ends)
        _measure(data, ends, norms)
    if not np.isfinite(norms).all():
        raise DataError(
            f"found a row (row {begin + int(np.argmin(np.isfinite(norms)))} of a batch) whose norm "
            "is not finite, expected a finite norm; repair or drop the row, or use splines"
        )
    return norms


@compiled()
def _select(values: Float, places: Int) -> None:
    """Insert the places of each row among those of larger values."""
    count = places.shape[1]
    for i in range(values.shape[0]):
        for part in range(values.shape[1]):
            size = abs(values[i, part])
            if size == 0.0:
                continue
            k = count
            while k > 0 and (places[i, k - 1] < 0 or size > abs(values[i, places[i, k - 1]])):
                if k < count:
                    places[i, k] = places[i, k - 1]
                k -= 1
            if k < count:
                places[i, k] = part


@compiled()
def _measure(data: Float, ends: NDArray[np.int32], norms: Float) -> None:
    begin = 0
    for i in range(ends.size):
        squared = 0.0
        for k in range(begin, ends[i]):
            squared += data[k] * data[k]
        norms[i] = np.sqrt(squared) if squared else 1.0
        begin = ends[i]


@compiled()
def _add(
    entries: Entries,
    layout: Layout,
    slots: Int,
    pairs: Int,
    w: Float,
    norms: Float,
    out: Float,
) -> None:
    """Add the contributions of rows ``(m, p)``; ``slots`` and ``pairs`` are those of `_owners`."""
    numeric = entries.values.shape[0]
    for i in range(norms.size):
        for s in range(slots.size):
            index = entries.indices[s, i]
            if index >= 0:
                value = entries.values[s, i] if s < numeric else 1.0
                out[i, slots[s]] += w[index] * (value / norms[i])
        for p in range(pairs.size):
            key, product = cross(entries, i, layout, p)
            if product != 0.0:
                out[i, pairs[p]] += w[layout.crosses + np.int64(key)] * (product / norms[i])
