"""DeLong's variance of the AUC, and Wilson's confidence intervals.

DeLong, DeLong & Clarke-Pearson 1988, from sorted placements in O(n log n) (Sun & Xu 2014), with
weights: p = u / (sum of u in the class); the placement V of a row is the weighted share of the
other class that it beats, with ties counted half; class k contributes
sum p^2 (V - AUC)^2 / (1 - sum p^2). For rows of weight 1 this is the published estimator.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, DataError

SMALL_CLASS = 50
"""With fewer effective rows in a class, the normal approximation of differences is rough."""

# Least excess over 1 of the effective rows of a class for a variance with correct digits.
_LEAST_EXCESS = 1e-6


def placements(table: ScoreTable) -> Float:
    """Placements V at each score, ``(2, m)``: the share of the other class beaten, ties half.

    Row 0 is for positive rows (share of the negative weight below), row 1 for negative rows (share
    of the positive weight above). The weighted mean of each over its class is the AUC.

    Raises
    ------
    DataError
        The table has one class only.
    """
    positive, negative = table.totals()
    positives_beaten, negatives_beaten = table.below() + table.weight / 2
    return np.stack((negatives_beaten / negative, 1 - positives_beaten / positive))


def placement_products(tables: Sequence[ScoreTable], scores: Float, squares: Float) -> Float:
    """Sum u^2 (V - AUC)(V - AUC)' over the rows of each class; additive over blocks of rows.

    Parameters
    ----------
    tables
        One table per model, of all rows and not only of this block; ``k`` models.
    scores : (n, k)
        Scores of each row, or of each group of rows with equal scores, by each model.
    squares : (2, n)
        Sum of the squared weights of the positive and of the negative rows.

    Returns
    -------
    products : (2, k, k)
        Sums of the positive and of the negative rows; `auc_covariance` takes their sum over blocks.

    Raises
    ------
    DataError
        A score is not in its model's table, or a table has one class only.
    """
    centred = [placements(table) - auc(table) for table in tables]
    products = np.empty((2, len(tables), len(tables)))
    for k in range(2):
        rows = squares[k] > 0
        deviations = np.column_stack(
            [
                v[k, _positions(table, s)]
                for v, table, s in zip(centred, tables, scores[rows].T, strict=True)
            ]
        )
        products[k] = deviations.T @ (squares[k, rows, None] * deviations)
    return products


def _positions(table: ScoreTable, scores: Float) -> NDArray[np.intp]:
    positions = np.minimum(np.searchsorted(table.score, scores), table.score.size - 1)
    unknown = np.count_nonzero(table.score[positions] != scores)
    if unknown:
        raise DataError(
            f"found {unknown} of {scores.size} scores that are not in the model's table, expected "
            "the table to cover every row; build both from the same rows and number type"
        )
    return positions


def auc_covariance(class_sums: Float, products: Float) -> Float:
    """DeLong's covariance ``(k, k)`` of the AUCs of k models on the same rows.

    Parameters
    ----------
    class_sums : (3, 2)
        See `ScoreTable.class_sums`.
    products : (2, k, k)
        Sum of `placement_products` over all blocks of rows.

    Raises
    ------
    DataError
        A class has fewer than two rows, or one that outweighs all others; see `has_spread`.
    """
    weight, squares, rows = class_sums
    if not has_spread(class_sums):
        raise DataError(
            f"found {rows[0]:.0f} positive and {rows[1]:.0f} negative rows, "
            f"{effective_rows(class_sums).min():.6f} effective rows in a class, expected at least "
            "two of each, none a million times the others' weight, for a variance; widen the "
            "selection of rows"
        )
    total: Float = (products / (weight**2 - squares)[:, None, None]).sum(axis=0)
    return total


def has_spread(class_sums: Float) -> NDArray[np.bool_]:
    """Whether both classes have enough rows for a variance, ``()`` or ``(g,)``.

    A class needs two rows, and no row may outweigh the others so far that they are lost to
    rounding. ``class_sums`` is that of `ScoreTable.class_sums`, ``(3, 2)`` or ``(3, 2, g)``.
    """
    enough = (class_sums[2] > 1) & (effective_rows(class_sums) > 1 + _LEAST_EXCESS)
    spread: NDArray[np.bool_] = enough.all(axis=0)
    return spread


def auc_variance(table: ScoreTable) -> float:
    """DeLong's variance of the AUC of a table; raises `DataError` as `auc_covariance` does."""
    products = placement_products([table], table.score[:, None], table.squares)
    return float(auc_covariance(table.class_sums(), products)[0, 0])


def effective_rows(class_sums: Float) -> Float:
    """Effective size ``(2,)`` or ``(2, g)`` of each class, (sum u)^2 / sum u^2 (Kish 1965).

    For weights u = 1 it is the number of rows. ``class_sums`` is that of `has_spread`.
    """
    effective: Float = class_sums[0] ** 2 / class_sums[1]
    return effective


class AUCInterval(NamedTuple):
    """An AUC with its two-sided confidence interval.

    Parameters
    ----------
    auc
        The AUC.
    lower, upper
        Ends of the interval, in [0, 1].
    variance
        DeLong's variance; nan if it is unknown.
    level
        Confidence level, in (0, 1).
    scale
        Method: "wilson" for the score interval, "linear" for the normal one, "exact" for the
        one-sided bound at AUC 0 or 1, "unknown" for [0, 1] if the variance is unknown
        (`has_spread`).
    small_sample
        Whether a class has fewer than `SMALL_CLASS` effective rows.
    """

    auc: float
    lower: float
    upper: float
    variance: float
    level: float
    scale: Literal["wilson", "linear", "exact", "unknown"]
    small_sample: bool


def auc_interval(
    table: ScoreTable, level: float = 0.95, scale: Literal["wilson", "linear"] = "wilson"
) -> AUCInterval:
    """The confidence interval of the AUC of a table; see `interval_of`.

    Raises
    ------
    DataError
        The table has one class only.
    ConfigError
        ``level`` is not in (0, 1).
    """
    value = auc(table)
    variance = auc_variance(table) if has_spread(table.class_sums()) else np.nan
    return interval_of(value, variance, table.class_sums(), level, scale)


def interval_of(
    value: float,
    variance: float,
    class_sums: Float,
    level: float = 0.95,
    scale: Literal["wilson", "linear"] = "wilson",
) -> AUCInterval:
    """The confidence interval of an AUC A, from its variance v.

    "wilson" is the score interval of a share (Wilson 1927) for the rows that a share would need to
    have this variance, m = A (1 - A) / v (Korn & Graubard 1998). Here the variance is
    (b + f v) / (1 + f). DeLong's v errs far from few rows, and so does it near AUC 1, where few of
    the rows have lost a pair. The bound b = A (1 - A) / n, with the ``n`` rows of the smaller
    class, is the largest variance that there is (Birnbaum & Klose 1957). It counts as one row, and
    v as f = 4 A (1 - A) (n - 1) rows, whose part in all rows grows to 1.

    "linear" is the normal interval A +- z sqrt(v), clipped to [0, 1].

    At AUC 1 (and by symmetry at 0) the variance is 0 and gives no interval. Instead, pair each of
    the n rows of the smaller class with a row of its own of the other class. These n pairs are
    independent; each scores w in {0, 1/2, 1} of mean AUC = A, hence P(w = 1) <= A, and all are won
    with probability <= A^n. So A < (1 - level)^(1/n) is rejected: the one-sided bound of Clopper &
    Pearson 1934 for n successes in n trials. With weights, n is approximated by `effective_rows`.

    Parameters
    ----------
    value
        The AUC.
    variance
        Its variance; nan, for a class without spread, gives [0, 1].
    class_sums : (3, 2)
        See `ScoreTable.class_sums`.
    level
        Confidence level, in (0, 1).
    scale
        The method, "wilson" or "linear".

    Raises
    ------
    ConfigError
        ``level`` is not in (0, 1).
    """
    rows = float(effective_rows(class_sums).min())
    ends = interval_ends(np.array(value), np.array(variance), np.array(rows), level, scale)
    lower, upper = map(float, ends)
    small = rows < SMALL_CLASS
    if value in (0.0, 1.0):
        return AUCInterval(value, lower, upper, 0.0, level, "exact", small)
    if np.isnan(variance):
        return AUCInterval(value, lower, upper, variance, level, "unknown", True)
    return AUCInterval(value, lower, upper, variance, level, scale, small)


def interval_ends(
    value: Float,
    variance: Float,
    rows: Float,
    level: float,
    scale: Literal["wilson", "linear"] = "wilson",
) -> tuple[Float, Float]:
    """Ends of the intervals of AUCs, element by element; see `interval_of`.

    Parameters
    ----------
    value, variance
        The AUCs and their variances; a nan AUC has no interval.
    rows
        Effective rows of the smaller class.
    level, scale
        See `interval_of`.
    """
    quantile = normal_quantile(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        if scale == "linear":
            reach = quantile * np.sqrt(variance)
            low, high = np.clip(value - reach, 0, 1), np.clip(value + reach, 0, 1)
        else:
            spread = value * (1 - value)
            own = 4 * spread * (rows - 1)
            # z^2 / m; the roots t of m (t - A)^2 = z^2 t (1 - t) are the ends.
            factor = quantile**2 * (1 / rows + own * variance / spread) / (1 + own)
            reach = np.sqrt(factor * (spread + factor / 4))
            low, high = ((value + factor / 2 + end) / (1 + factor) for end in (-reach, reach))
            low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
        bound = (1 - level) ** (1 / rows)
    unknown = np.isnan(variance) & ~np.isnan(value)
    lower = np.where(value == 1, bound, np.where(unknown | (value == 0), 0.0, low))
    upper = np.where(value == 0, 1 - bound, np.where(unknown | (value == 1), 1.0, high))
    return lower, upper


def normal_quantile(level: float) -> float:
    """Quantile of the normal distribution for a two-sided confidence level in (0, 1)."""
    if not 0 < level < 1:
        raise ConfigError(
            f"found level = {level}, expected a probability between 0 and 1; set level"
        )
    return NormalDist().inv_cdf((1 + level) / 2)
