"""Numbers in place of the categories of a column, by which trees split it at thresholds.

A category has its share of positive rows (a target statistic) and its number of rows. Trees that
split many categories by sets fit the labels of few rows; thresholds of one number for all of them
do so less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spark_auc.core.batch import hashed_shares
from spark_auc.core.types import Bool, Float, Int, Keys

# Rows of the mean that are added to each category.
_PRIOR = 20.0
_FOLDS = 5
# Separates these folds from other uses of the same keys.
_SALT = 0xC7


class CategoryNumbers(NamedTuple):
    """A number for the category of each row, and for each category.

    Parameters
    ----------
    rows : (n,)
        The numbers of the rows that trees grow from.
    table : (K + 1,)
        The numbers of ``K`` categories in other rows, then that of all others.
    """

    rows: Float
    table: Float


def target_statistics(
    codes: Int, size: int, y: Bool, weight: Float | None, groups: Keys
) -> CategoryNumbers:
    """The share of positive rows of each category, shrunk to that of all rows.

    A row that trees grow from has the share among the rows of the other folds, so that its number
    does not know its label. Other rows have the share among all of these rows.

    Parameters
    ----------
    codes : (n,)
        The category of each row, from 0 to ``size``; ``size`` is that of all others.
    size
        Number of categories ``K``.
    y : (n,)
        True for positive rows.
    weight : (n,), optional
        Row weights. Default: 1.
    groups : (n,)
        The group of each row. The rows of a group are in different folds: a column alone has
        groups of one value each, whose statistics would be those of no row.
    """
    mass = np.ones(y.size) if weight is None else weight
    keys = groups + _places_in_groups(groups)
    fold = (_FOLDS * hashed_shares(keys, 0, _SALT)).astype(np.int64)
    places, shape = fold * (size + 1) + codes, (2, _FOLDS, size + 1)
    sums = np.stack([np.bincount(places, part, shape[1] * shape[2]) for part in (mass, mass * y)])
    by_fold = sums.reshape(shape)
    # A difference from the whole would have the label of a row in its rounding.
    others = np.stack([np.delete(by_fold, k, axis=1).sum(axis=1) for k in range(_FOLDS)], axis=1)
    return CategoryNumbers(_shrunk(others)[fold, codes], _shrunk(by_fold.sum(axis=1)))


def counts(codes: Int, size: int) -> CategoryNumbers:
    """The number of rows of each category; arguments are those of `target_statistics`."""
    table = np.bincount(codes, minlength=size + 1).astype(float)
    return CategoryNumbers(table[codes], table)


def _places_in_groups(groups: Keys) -> Keys:
    """The number of each row in its group, from 0."""
    order, place = np.argsort(groups, kind="stable"), np.arange(groups.size)
    is_new = np.append(True, np.diff(groups[order]) != 0)[: groups.size]
    places = np.empty(groups.size, np.uint64)
    places[order] = place - np.maximum.accumulate(np.where(is_new, place, 0))
    return places


def _shrunk(sums: Float) -> Float:
    """Shares of positive mass of sums ``(2, ..., K)`` of all and of positive mass."""
    mass, positive = sums.sum(axis=-1, keepdims=True)
    # Rows of one fold only have no others.
    share = np.divide(positive, mass, out=np.zeros_like(mass), where=mass > 0)
    mean: Float = (sums[1] + _PRIOR * share) / (sums[0] + _PRIOR)
    return mean
