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

    A row that trees grow from has the share among the rows of the other folds, so that it knows
    neither its label nor those of its group. Other rows have the share among all of these rows.

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
        The group of each row; a group is in one fold.
    """
    mass = np.ones(y.size) if weight is None else weight
    fold = (_FOLDS * hashed_shares(groups, 0, _SALT)).astype(np.int64)
    places, shape = fold * (size + 1) + codes, (2, _FOLDS, size + 1)
    sums = np.stack([np.bincount(places, part, shape[1] * shape[2]) for part in (mass, mass * y)])
    by_fold = sums.reshape(shape)
    whole = by_fold.sum(axis=1)
    others = whole[:, None, :] - by_fold
    return CategoryNumbers(_shrunk(others)[fold, codes], _shrunk(whole))


def counts(codes: Int, size: int) -> CategoryNumbers:
    """The number of rows of each category; arguments are those of `target_statistics`."""
    table = np.bincount(codes, minlength=size + 1).astype(float)
    return CategoryNumbers(table[codes], table)


def _shrunk(sums: Float) -> Float:
    """Shares of positive mass of sums ``(2, ..., K)`` of all and of positive mass."""
    mass, positive = sums.sum(axis=-1, keepdims=True)
    # Rows of one fold only have no others.
    share = np.divide(positive, mass, out=np.zeros_like(mass), where=mass > 0)
    mean: Float = (sums[1] + _PRIOR * share) / (sums[0] + _PRIOR)
    return mean
