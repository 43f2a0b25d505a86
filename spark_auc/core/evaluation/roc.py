"""AUC and curves of weighted scores, computed from a `ScoreTable`.

For a range of a table (`ScoreTable.within`) the areas are the shares of that range, which add up
to the area of the table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError


def pair_weights(table: ScoreTable) -> tuple[float, float, float]:
    """Weights of the (positive, negative) pairs that are won, tied and lost.

    Exact for whole weights if the product of the class weights is below 2^53.

    Raises
    ------
    DataError
        The table has one class only.
    """
    table.totals()
    won, lost = (table.weight * table.below()[::-1]).sum(axis=1)
    return float(won), float(table.weight.prod(axis=0).sum()), float(lost)


def auc(table: ScoreTable) -> float:
    """P(s+ > s-) + P(s+ = s-) / 2 over the weighted pairs (Hanley & McNeil 1982).

    In [0, 1] in floating point too; 0 only if all pairs are lost, 1 only if all are won (up to
    rounding).

    Raises
    ------
    DataError
        The table has one class only.
    """
    won, tied, lost = pair_weights(table)
    return (won + tied / 2) / (won + tied + lost)


class Sweep(NamedTuple):
    """True and false positives of each threshold, from the highest threshold down.

    Parameters
    ----------
    threshold : (k,)
        Thresholds of the rule "positive if score >= threshold", descending.
    tp, fp : (k,)
        Weight of the positive and of the negative rows at or above the threshold.
    positive, negative
        Total weight of each class.
    """

    threshold: Float
    tp: Float
    fp: Float
    positive: float
    negative: float

    def take(self, points: NDArray[np.intp]) -> Sweep:
        """The points with the given indices."""
        threshold, tp, fp = (values[points] for values in self[:3])
        return Sweep(threshold, tp, fp, self.positive, self.negative)

    def spaced(self, count: int) -> NDArray[np.intp]:
        """Indices of about ``count`` (>= 8) points, spaced evenly along the ROC curve.

        The area under them differs by at most about 1 / count, and for a smooth curve by about the
        square of this: the area between a monotone path and its chord is at most half of their
        common rectangle.

        Raises
        ------
        ConfigError
            ``count`` is less than 8.
        """
        if count < 8:
            raise ConfigError(f"found max_points = {count}, expected at least 8; set max_points")
        # Both ends of an edge that crosses a mark are chosen, so that long edges stay exact.
        length = self.tp / self.positive + self.fp / self.negative
        marks = np.linspace(0.0, 2.0, count // 2)
        after = np.searchsorted(length, marks[(length[0] <= marks) & (marks <= length[-1])])
        ends = (0, length.size - 1)
        return np.unique(np.clip(np.concatenate((after - 1, after, ends)), 0, length.size - 1))


def sweep(table: ScoreTable) -> Sweep:
    """All thresholds of a table, ``(m + 1,)``; the first is above all of its scores.

    For a range of a table, tp and fp begin at the weights above the range.

    Raises
    ------
    DataError
        The table has one class only.
    """
    positive, negative = table.totals()
    shifted = np.column_stack((table.outside[1, 0], table.weight[:, ::-1]))
    tp, fp = np.cumsum(shifted, axis=1)
    return Sweep(np.append(np.inf, table.score[::-1]), tp, fp, positive, negative)


def roc_curve(swept: Sweep) -> tuple[Float, Float, Float]:
    """False positive rates, true positive rates and thresholds of the points, each ``(k,)``.

    Those of all thresholds ascend from (0, 0) at threshold +inf.
    """
    return swept.fp / swept.negative, swept.tp / swept.positive, swept.threshold


def average_precision(table: ScoreTable) -> float:
    """Sum of precision times the step in recall (scikit-learn's definition)."""
    _, tp, fp, positive, _ = sweep(table)
    return float(np.diff(tp) @ (tp[1:] / (tp[1:] + fp[1:]))) / positive


def partial_area(table: ScoreTable, max_fpr: float) -> float:
    """Area under the ROC curve over 0 <= fpr <= max_fpr, in [0, max_fpr].

    Raises
    ------
    ConfigError
        ``max_fpr`` is not in (0, 1].
    DataError
        The table has one class only.
    """
    if not 0 < max_fpr <= 1:
        raise ConfigError(f"found max_fpr = {max_fpr}, expected a rate in (0, 1]; set max_fpr")
    fpr, tpr, _ = roc_curve(sweep(table))
    if fpr[0] >= max_fpr:
        return 0.0
    inside = np.searchsorted(fpr, max_fpr, side="right")
    last = min(max_fpr, fpr[-1])
    x = np.append(fpr[:inside], last)
    return float(np.trapezoid(np.append(tpr[:inside], np.interp(last, fpr, tpr)), x))


def standardized_area(area: float, max_fpr: float) -> float:
    """A partial area rescaled to 1/2 for a random and 1 for a perfect ranking (McClish 1989)."""
    chance = max_fpr**2 / 2
    return (1 + (area - chance) / (max_fpr - chance)) / 2


def expected_auc(probability: Float) -> float:
    """Expected AUC of ascending probabilities as scores, with labels drawn from them."""
    negative = 1 - probability
    concordant = probability @ (np.cumsum(negative) - negative / 2)
    return float(concordant / (probability.sum() * negative.sum()))
