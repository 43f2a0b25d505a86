"""How sure an AUC is: DeLong's variance, confidence intervals, and paired comparisons.

DeLong, DeLong & Clarke-Pearson 1988, by sorted placements in O(n log n) as Sun & Xu 2014, with
weights: p = u / (sum of u in the class), the placement V of a row is the weighted share of the
other class that it beats (ties half), and class k adds sum p^2 (V - AUC)^2 / (1 - sum p^2).
Rows of weight 1 give back the published estimator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, log, log1p, sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import FloatArray, ScoreTable
from spark_auc.errors import ConfigError, DataError

SMALL_CLASS = 50
"""Below this many effective rows of a class, nominal 95% intervals cover less (89-94% at 20)."""

# A variance keeps its digits where the effective rows of a class exceed 1 by this or more.
_APART = 1e-6


def placements(table: ScoreTable) -> FloatArray:
    """Return V at each score, (2, m): the share of the other class beaten, ties half.

    Row 0 is for positives (negatives below), row 1 for negatives (positives above); the weighted
    mean of either over its class is the AUC.
    """
    positive, negative = table.totals()
    positives_beaten, negatives_beaten = table.below() + table.weight / 2
    return np.stack((negatives_beaten / negative, 1 - positives_beaten / positive))


def placement_products(
    tables: Sequence[ScoreTable], scores: FloatArray, squares: FloatArray
) -> FloatArray:
    """Sum u^2 (V - AUC)(V - AUC)' over rows of each class: additive over blocks of rows.

    Parameters
    ----------
    tables : k tables, one a model, of ALL rows (not of this block)
    scores : (n, k), what each model gives each row, or each group of rows with equal scores
    squares : (2, n), sum of the squared weights of the positive and of the negative rows

    Returns
    -------
    (2, k, k) for the positive and the negative rows; `auc_covariance` takes their sum over blocks.

    Raises
    ------
    DataError
        If a score is not in its model's table, or a table has one class only.
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


def _positions(table: ScoreTable, scores: FloatArray) -> NDArray[np.intp]:
    at = np.minimum(np.searchsorted(table.score, scores), table.score.size - 1)
    strange = np.count_nonzero(table.score[at] != scores)
    if strange:
        raise DataError(
            f"found {strange} of {scores.size} scores that are not in the model's table; expected "
            "the table to cover every row: build both from the same rows and number type"
        )
    return at


def auc_covariance(class_sums: FloatArray, products: FloatArray) -> FloatArray:
    """Return DeLong's covariance (k, k) of the AUCs of k models on the same rows.

    `class_sums` (3, 2) is that of `ScoreTable.class_sums` and `products` the sum of
    `placement_products` over all blocks of rows. Raises DataError where a class has fewer than
    two rows of weight above 0, or one that outweighs all others: its spread is then unknown.
    """
    weight, squares, rows = class_sums
    if not has_spread(class_sums):
        raise DataError(
            f"found {rows[0]:.0f} positive and {rows[1]:.0f} negative rows of "
            f"{effective_rows(class_sums).min():.6f} effective ones in a class; expected at least "
            "two of each, none a million times the others' weight, for a variance: widen the "
            "selection of rows"
        )
    total: FloatArray = (products / (weight**2 - squares)[:, None, None]).sum(axis=0)
    return total


def has_spread(class_sums: FloatArray) -> bool:
    """Whether both classes have rows enough for a variance.

    Two of a class, of which one does not outweigh the others so far that they round away.
    """
    return bool(min(class_sums[2]) > 1 and (effective_rows(class_sums) > 1 + _APART).all())


def auc_variance(table: ScoreTable) -> float:
    """Return DeLong's variance of the AUC of `table`; DataError as `auc_covariance`."""
    products = placement_products([table], table.score[:, None], table.squares)
    return float(auc_covariance(table.class_sums(), products)[0, 0])


def effective_rows(class_sums: FloatArray) -> FloatArray:
    """Return each class's effective size (2,), (sum u)^2 / sum u^2 (Kish); its count if u = 1."""
    effective: FloatArray = class_sums[0] ** 2 / class_sums[1]
    return effective


class AUCInterval(NamedTuple):
    """An AUC with its two-sided confidence interval.

    `scale` says how it was made: "linear", "logit", "exact" for the one-sided bound at AUC 0 or 1,
    or "unknown" for [0, 1] where a class has one row, or one that outweighs all others: no
    spread is known, and the variance is nan. `small_sample` warns that a class has fewer than
    `SMALL_CLASS` effective rows.
    """

    auc: float
    lower: float
    upper: float
    variance: float
    level: float
    scale: Literal["linear", "logit", "exact", "unknown"]
    small_sample: bool


def auc_interval(
    table: ScoreTable, level: float = 0.95, scale: Literal["linear", "logit"] = "logit"
) -> AUCInterval:
    """Return the normal confidence interval of the AUC of a table; see `interval_of`.

    Raises DataError for one class; ConfigError for `level`.
    """
    value = auc(table)
    variance = auc_variance(table) if has_spread(table.class_sums()) else np.nan
    return interval_of(value, variance, table.class_sums(), level, scale)


def interval_of(
    value: float,
    variance: float,
    class_sums: FloatArray,
    level: float = 0.95,
    scale: Literal["linear", "logit"] = "logit",
) -> AUCInterval:
    """Return the normal confidence interval of an AUC of a variance, on the scale asked for.

    The linear interval is cut to [0, 1]; the logit one stays inside by itself.

    At AUC 1 (0 by symmetry) the variance is 0 and says nothing. Instead: pair each row of the
    smaller class, of n rows, with its own row of the other class. These n pairs are independent,
    each scores w in {0, 1/2, 1} of mean AUC = A, hence P(w = 1) <= A, and all are won with
    probability <= A^n. So A < (1 - level)^(1/n) is rejected, which is Clopper & Pearson's
    one-sided bound for n successes in n. With weights n is `effective_rows`: an approximation.

    A variance of nan, of a class of one row, gives [0, 1].

    Raises ConfigError for `level`.
    """
    quantile, rows = _quantile(level), float(effective_rows(class_sums).min())
    if value in (0.0, 1.0):
        bound = (1 - level) ** (1 / rows)
        lower, upper = (bound, 1.0) if value else (0.0, 1 - bound)
        return AUCInterval(value, lower, upper, 0.0, level, "exact", rows < SMALL_CLASS)
    if np.isnan(variance):
        return AUCInterval(value, 0.0, 1.0, variance, level, "unknown", True)
    reach = quantile * sqrt(variance) * np.array((-1.0, 1.0))
    if scale == "linear":
        ends = np.clip(value + reach, 0, 1)
    else:  # by tanh(x / 2) = 2 expit(x) - 1, which cannot overflow
        with np.errstate(over="ignore"):
            logits = log(value) - log1p(-value) + reach / (value * (1 - value))
        ends = (1 + np.tanh(logits / 2)) / 2
    lower, upper = map(float, ends)
    return AUCInterval(value, lower, upper, variance, level, scale, rows < SMALL_CLASS)


def _quantile(level: float) -> float:
    if not 0 < level < 1:
        raise ConfigError(f"found level = {level}; expected a probability between 0 and 1")
    return NormalDist().inv_cdf((1 + level) / 2)


class AUCDifference(NamedTuple):
    """The difference of two AUCs, its confidence interval, and the test that it is 0."""

    difference: float
    lower: float
    upper: float
    z: float
    p_value: float


@dataclass(frozen=True, eq=False)
class PairedAUC:
    """AUCs (k,) of k models on the same rows, and DeLong's covariance (k, k) of them.

    `small_sample` is as in `AUCInterval`.
    """

    auc: FloatArray
    covariance: FloatArray
    small_sample: bool

    @classmethod
    def of(
        cls, scores: FloatArray, y: NDArray[np.bool_], weight: FloatArray | None = None
    ) -> PairedAUC:
        """Compare columns of scores (n, k), with y (n,) true where positive, weight (n,) >= 0.

        Raises DataError as `ScoreTable.of` and `auc_covariance`.
        """
        tables = [ScoreTable.of(column, y, weight) for column in scores.T]
        u = np.ones(y.shape) if weight is None else weight
        products = placement_products(tables, scores, np.where((y, ~y), u * u, 0.0))
        return cls.from_products(tables, products)

    @classmethod
    def from_products(cls, tables: Sequence[ScoreTable], products: FloatArray) -> PairedAUC:
        """Finish from the tables of all rows and the summed `placement_products`."""
        aucs = np.array([auc(table) for table in tables])
        return cls.from_sums(aucs, tables[0].class_sums(), products)

    @classmethod
    def from_sums(cls, aucs: FloatArray, class_sums: FloatArray, products: FloatArray) -> PairedAUC:
        """Finish from the AUCs, the class sums and the summed `placement_products`."""
        small = bool(effective_rows(class_sums).min() < SMALL_CLASS)
        return cls(aucs, auc_covariance(class_sums, products), small)

    def compare(self, first: int = 0, second: int = 1, level: float = 0.95) -> AUCDifference:
        """Test AUC[first] - AUC[second], by the normal approximation, two-sided.

        Models that rank alike differ by 0 +- 0, with z = 0 and p = 1. Raises DataError where the
        AUCs differ by a variance of 0 (say, a perfect model against a constant): z means nothing.
        """
        difference = float(self.auc[first] - self.auc[second])
        own = self.covariance[first, first] + self.covariance[second, second]
        variance = float(own - 2 * self.covariance[first, second])
        if variance <= 1e-14 * own:  # what rounding leaves of an exact 0
            if abs(difference) > 1e-14:
                raise DataError(
                    f"found AUCs that differ by {difference:g} with a DeLong variance of 0; "
                    "expected scores that are neither perfect nor constant: report the AUCs alone"
                )
            return AUCDifference(0.0, 0.0, 0.0, 0.0, 1.0)
        error = sqrt(variance)
        z, reach = difference / error, _quantile(level) * error
        p_value = erfc(abs(z) / sqrt(2))
        return AUCDifference(difference, difference - reach, difference + reach, z, p_value)
