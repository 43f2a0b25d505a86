"""The pairs of categorical columns whose values interact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import special

from spark_auc.core.types import Bool, Float, Int
from spark_auc.errors import DataError
from spark_auc.features.pair_gains import false_rates


class CrossGain(NamedTuple):
    """What the residuals of a model tell about a pair of categorical columns.

    Parameters
    ----------
    pair
        Names of the columns.
    cells
        Number of pairs of values in the rows.
    excess
        How much the products of the residuals of two rows with the same pair of values exceed what
        each column alone explains, in standard deviations without an interaction.
    rate
        The false discovery rate: about the share of pairs without an interaction among those of at
        least this excess [1]_.

    References
    ----------
    .. [1] Y. Benjamini, Y. Hochberg. Controlling the False Discovery Rate: A Practical and Powerful
       Approach to Multiple Testing. J. R. Stat. Soc. B 57 (1995), 289-300.
    """

    pair: tuple[str, str]
    cells: int
    excess: float
    rate: float


def pair_residuals(y: Bool, scores: Float) -> Float:
    """Half the negative gradient ``(n,)`` of the mean squared loss over pairs, by the scores.

    With means ``m_k`` of the scores of the ``n_k`` rows of a class it is
    ``(1 + m_- - f_i) / n_+`` for a positive row, ``(m_+ - 1 - f_j) / n_-`` for a negative one.

    Raises
    ------
    DataError
        The rows are of one class.
    """
    n_plus = int(y.sum())
    n_minus = y.size - n_plus
    if not (n_plus and n_minus):
        raise DataError(
            f"found {n_plus} positive and {n_minus} negative rows, expected both classes; pass "
            "more rows"
        )
    above, below = 1.0 + scores[~y].mean() - scores, scores[y].mean() - 1.0 - scores
    residuals: Float = np.where(y, above / n_plus, below / n_minus)
    return residuals


def cross_gains(codes: Mapping[str, Int], residuals: Float) -> list[CrossGain]:
    """The gains of all pairs of columns, by descending excess; equal ones in the columns' order.

    If the rows of each pair of values have an effect of their own of variance ``t_ab``, and those
    of each value of a column one of variance ``t_a``, the product of the residuals of two rows has
    the expectation ``t_ab + t_a + t_b`` in a cell. With the sums ``S`` of the products of two rows
    of a cell and their numbers ``P``, the excess is that of

        ``S_ab - P_ab (S_a / P_a + S_b / P_b)``

    over the standard deviation of ``S_ab`` for independent residuals of mean 0. A cell needs two
    rows only, so that pairs of thousands of values are compared as those of a few. What a strong
    penalty leaves of the effects of a column alone is no interaction, and is subtracted.

    Parameters
    ----------
    codes
        Numbers ``(n,)`` from 0 of the values of each column.
    residuals : (n,)
        Residuals of the rows, of mean 0 without an interaction.
    """
    single = {name: _products(column, residuals) for name, column in codes.items()}
    rows = []
    for a, b in combinations(codes, 2):
        both = codes[a] * (codes[b].max(initial=0) + 1) + codes[b]
        cell: Int = np.unique(both, return_inverse=True)[1]
        total, pairs, variance, third = _products(cell, residuals)
        shared = sum(single[name][0] / max(single[name][1], 1.0) for name in (a, b))
        excess = float((total - pairs * shared) / np.sqrt(variance)) if variance > 0.0 else 0.0
        chance = _chance(excess, variance, third)
        rows.append(((a, b), int(cell.max(initial=-1)) + 1, excess, chance))
    rates = false_rates(np.array([chance for *_, chance in rows]))
    rated = zip(rows, rates.tolist(), strict=True)
    gains = [CrossGain(pair, cells, excess, rate) for (pair, cells, excess, _), rate in rated]
    return sorted(gains, key=lambda gain: -gain.excess)


def _products(cell: Int, residuals: Float) -> tuple[float, float, float, float]:
    """Of the products of two rows of one cell: sum, number, variance and third cumulant of the sum.

    The cumulants are the larger ones of two: for residuals of these absolute values and independent
    signs, and for residuals that are independent draws of all. Where no cell has two rows of a rare
    class, the signs alone tell of next to no variance.
    """
    rows, sums = np.bincount(cell).astype(float), np.bincount(cell, residuals)
    second, fourth, sixth = (np.bincount(cell, residuals**k) for k in (2, 4, 6))
    total = float((sums**2 - second).sum() / 2)
    pairs, triples = (rows * (rows - 1)).sum() / 2, (rows * (rows - 1) * (rows - 2)).sum()
    square, cube = float((residuals**2).mean()), float((residuals**3).mean())
    variance = max(float((second**2 - fourth).sum() / 2), pairs * square**2)
    third = float((second**3 - 3 * second * fourth + 2 * sixth).sum())
    return total, float(pairs), variance, max(third, pairs * cube**2 + triples * square**3)


def _chance(excess: float, variance: float, third: float) -> float:
    """The probability of this excess or more, by a chi-squared variable of the same skewness.

    It is at least that of a normal variable: where few cells have two rows of a rare class, the
    skewness is so great that nearly all of the chi-squared variable is just below its mean, and an
    excess of about 0 would seem rare.
    """
    skewness = third / variance**1.5 if variance > 0.0 else 0.0
    normal = float(special.ndtr(-excess))
    if skewness < 1e-3:
        return normal
    freedom = 8.0 / skewness**2
    least = max(freedom + np.sqrt(2.0 * freedom) * excess, 0.0)
    return max(normal, float(special.chdtrc(freedom, least)))


def bits_of(gains: Sequence[CrossGain], most: int) -> int:
    """Logarithm of the number of features for these pairs: above 1.5 times that of their cells.

    Parameters
    ----------
    gains
        The pairs.
    most
        The largest result.
    """
    cells = sum(gain.cells for gain in gains)
    return int(np.clip(np.ceil(np.log2(1.5 * cells + 1)), 8, most))
