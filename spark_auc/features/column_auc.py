"""The AUC of single columns, from the counts of their values in both classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.types import Float
from spark_auc.features.value_counts import ValueCounts

# Ranges of a column whose rates of positive rows are compared.
_RANGES = 16


class ClassCounts(NamedTuple):
    """The values of a column in the rows of one class.

    Parameters
    ----------
    counts
        Number of rows of each value.
    rows
        Number of rows. Rows that ``counts`` lacks have no value.
    """

    counts: ValueCounts
    rows: int

    @property
    def missing(self) -> int:
        """Number of rows without a value."""
        return self.rows - self.counts.rows


class ColumnCounts:
    """The values of a column in the rows of both classes.

    Parameters
    ----------
    positive, negative
        The values in the rows of each class.
    is_number
        Whether the order of the values matters.
    """

    def __init__(self, positive: ClassCounts, negative: ClassCounts, is_number: bool) -> None:
        self.positive, self.negative, self.is_number = positive, negative, is_number
        self.both = positive.counts.merge(negative.counts)
        self.rows = positive.rows + negative.rows

    def auc(self) -> float:
        """See `number_auc` and `token_auc`."""
        return (number_auc if self.is_number else token_auc)(self.positive, self.negative)

    def rates_differ(self, errors: float) -> bool:
        """Whether the rates of positive rows differ between ranges of a column of numbers.

        The statistic is that of Pearson's chi-squared test on 16 ranges of equal numbers of rows.

        Parameters
        ----------
        errors
            Number of standard deviations by which it must exceed its mean under equal rates.
        """
        classes = [state.counts for state in (self.positive, self.negative)]
        if not all(state.rows for state in classes):
            return False
        values, rows = self.both.weighted()
        ends = np.arange(1, _RANGES) * rows.sum() / _RANGES
        places = np.searchsorted(np.cumsum(rows), ends, "right")
        found = np.array(
            [
                np.bincount(np.searchsorted(values[places], of, "right"), weights, _RANGES)
                for of, weights in (state.weighted() for state in classes)
            ]
        )
        expected = np.outer(found.sum(axis=1), found.sum(axis=0)) / found.sum()
        known = expected > 0
        statistic = ((found - expected)[known] ** 2 / expected[known]).sum()
        # Values that are not kept are no evidence.
        kept = min(state.values.size / max(state.distinct, 1.0) for state in classes)
        free = _RANGES - 1
        return bool(statistic * kept > free + errors * np.sqrt(2.0 * free))


def number_auc(positive: ClassCounts, negative: ClassCounts) -> float:
    """The AUC of the values as scores; exact if all distinct values are kept.

    Rows without a value rank below or above all others, whichever brings the AUC farther from 0.5.
    """
    values, weights = zip(positive.counts.weighted(), negative.counts.weighted(), strict=True)
    distinct, places = np.unique(np.concatenate(values), return_inverse=True)
    sums = np.zeros((2, distinct.size + 2))
    own = places[: values[0].size], places[values[0].size :]
    for k, state in enumerate((positive, negative)):
        sums[k, 1 + own[k]] = weights[k]
        sums[k, 0] = state.missing
    ranks = np.arange(sums.shape[1], dtype=np.float64)
    below, above = _auc(ranks, sums), _auc(ranks, np.roll(sums, -1, axis=1))
    return max(below, above, key=lambda area: abs(area - 0.5))


def token_auc(positive: ClassCounts, negative: ClassCounts) -> float:
    r"""The AUC of the rate of positive rows of each value; exact if all distinct values are kept.

    Rates of the rows that are ranked would favour columns of many values: the rates of values with
    one row each rank all pairs correctly. Each pair of a positive and a negative row is therefore
    ranked by the rates of all other rows, which makes the AUC almost unbiased [1]_. The pair of a
    positive row with value :math:`a` and a negative row with value :math:`b \ne a` compares

    .. math::
        \frac{p_a - 1 + \pi}{n_a} \quad\text{and}\quad \frac{p_b + \pi}{n_b},

    where :math:`p` of the :math:`n` rows of a value are positive, :math:`\pi` is the rate of all
    other rows, and each value has one more row at that rate. A pair of rows of one value is a tie.
    Rates that leave out one row instead of the pair would rank it wrongly: those of a constant
    column have an AUC of 0.

    Rows without a value are rows of one more value.

    References
    ----------
    .. [1] A. Airola, T. Pahikkala, W. Waegeman, B. De Baets and T. Salakoski. An experimental
       comparison of cross-validation techniques for estimating the area under the ROC curve.
       Computational Statistics & Data Analysis 55(4), 2011.
    """
    values, represented = positive.counts.merge(negative.counts).weighted()
    p = np.append(positive.counts.rows_of(values), positive.missing)
    q = np.append(negative.counts.rows_of(values), negative.missing)
    n = np.maximum(p + q, 1.0)
    # Each value that is kept stands for so many distinct values.
    share = np.append(represented / n[:-1], 1.0)
    others = max(positive.rows + negative.rows - 2, 1)
    prior = (positive.rows - 1) / others
    sums = np.zeros((2, 2 * n.size))
    sums[0, : n.size], sums[1, n.size :] = share * p, share * q
    area = _auc(np.concatenate([(p - 1.0 + prior) / n, (p + prior) / n]), sums)
    # In a pair of rows of one value, the rate of the positive row is the lesser one.
    ties = (share * p) @ q / (sums[0].sum() * sums[1].sum())
    return area + float(ties) / 2


def _auc(scores: Float, sums: Float) -> float:
    return auc(ScoreTable.grouped(scores, np.broadcast_to(sums, (3, *sums.shape))))
