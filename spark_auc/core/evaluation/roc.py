"""AUC and curves of weighted scores, all read off a `ScoreTable`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.evaluation.score_table import FloatArray, ScoreTable
from spark_auc.errors import ConfigError


def pair_weights(table: ScoreTable) -> tuple[float, float, float]:
    """Return the weight of the (positive, negative) pairs won, tied and lost by the scores.

    Exact while the product of the class weights, if whole, stays below 2^53.
    """
    table.totals()
    won, lost = (table.weight * table.below()[::-1]).sum(axis=1)
    return float(won), float(table.weight.prod(axis=0).sum()), float(lost)


def auc(table: ScoreTable) -> float:
    """P(s+ > s-) + P(s+ = s-) / 2 over the weighted pairs (Hanley & McNeil 1982).

    In [0, 1] in floating point too, and 0 or 1 only if no pair is won or none lost (to rounding).
    """
    won, tied, lost = pair_weights(table)
    return (won + tied / 2) / (won + tied + lost)


class Sweep(NamedTuple):
    """What thresholds do, from the strictest down: a curve before it is drawn.

    `threshold`, `tp` and `fp` are (k,): the rule "positive if score >= threshold" calls weight
    `tp` of the positives and `fp` of the negatives positive, out of `positive` and `negative`.
    """

    threshold: FloatArray
    tp: FloatArray
    fp: FloatArray
    positive: float
    negative: float

    def kept(self, points: NDArray[np.intp]) -> Sweep:
        """Return some of the points."""
        threshold, tp, fp = (values[points] for values in self[:3])
        return Sweep(threshold, tp, fp, self.positive, self.negative)

    def spread(self, count: int) -> NDArray[np.intp]:
        """Return about `count` (>= 8) points spread evenly along the ROC curve."""
        if count < 8:
            raise ConfigError(f"found max_points = {count}; expected 8 or more")
        # Both ends of an edge that crosses a mark are kept, so that no chord replaces a long edge.
        along = self.tp / self.positive + self.fp / self.negative
        marks = np.linspace(0.0, 2.0, count // 2)
        after = np.searchsorted(along, marks[(along[0] <= marks) & (marks <= along[-1])])
        ends = (0, along.size - 1)
        return np.unique(np.clip(np.concatenate((after - 1, after, ends)), 0, along.size - 1))


def sweep(table: ScoreTable) -> Sweep:
    """Return all thresholds of a table, (m + 1,), the first being that above its scores."""
    positive, negative = table.totals()
    shifted = np.column_stack((table.outside[1, 0], table.weight[:, ::-1]))
    tp, fp = np.cumsum(shifted, axis=1)
    return Sweep(np.append(np.inf, table.score[::-1]), tp, fp, positive, negative)


def roc_curve(
    table: ScoreTable, max_points: int | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (fpr, tpr, thresholds), ascending rates from (0, 0) at +inf: one point a score.

    With `max_points` (>= 8) a subset of the points spread evenly along the curve, each of them
    still exact. The area drawn changes by at most about 1 / max_points, and for a smooth curve
    by about its square: a monotone path leaves its chord by at most half their common rectangle.
    """
    swept = sweep(table)
    if max_points is not None and swept.threshold.size > max_points:
        swept = swept.kept(swept.spread(max_points))
    return swept.fp / swept.negative, swept.tp / swept.positive, swept.threshold


def precision_recall_curve(table: ScoreTable) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (precision, recall, thresholds), thresholds ascending, as scikit-learn does.

    Precision and recall have one point more, the closing (1, 0).
    """
    swept = sweep(table)
    thresholds, tp, fp = (values[:0:-1] for values in swept[:3])
    recall = np.append(tp, 0.0) / swept.positive
    return np.append(tp / (tp + fp), 1.0), recall, thresholds


def average_precision(table: ScoreTable) -> float:
    """Sum of precision times the step in recall (scikit-learn's definition: no interpolation)."""
    _, tp, fp, positive, _ = sweep(table)
    return float(np.diff(tp) @ (tp[1:] / (tp[1:] + fp[1:]))) / positive


def partial_area(table: ScoreTable, max_fpr: float) -> float:
    """Area under the ROC curve over 0 <= fpr <= max_fpr, with max_fpr in (0, 1]."""
    if not 0 < max_fpr <= 1:
        raise ConfigError(f"found max_fpr = {max_fpr}; expected a rate in (0, 1]")
    fpr, tpr, _ = roc_curve(table)
    if fpr[0] >= max_fpr:
        return 0.0
    inside = np.searchsorted(fpr, max_fpr, side="right")
    last = min(max_fpr, fpr[-1])
    x = np.append(fpr[:inside], last)
    return float(np.trapezoid(np.append(tpr[:inside], np.interp(last, fpr, tpr)), x))


def standardized_area(area: float, max_fpr: float) -> float:
    """A partial area on the scale 1/2 for chance and 1 for the best (McClish 1989)."""
    chance = max_fpr**2 / 2
    return (1 + (area - chance) / (max_fpr - chance)) / 2


def partial_auc(table: ScoreTable, max_fpr: float, standardized: bool = True) -> float:
    """Area under the ROC curve over 0 <= fpr <= max_fpr, standardized or as it is."""
    area = partial_area(table, max_fpr)
    return standardized_area(area, max_fpr) if standardized else area


def gain_curve(table: ScoreTable) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (share, gain, lift), (m,) each, from the best score down.

    The best `share` of all weight holds the fraction `gain` of the positive weight, which is
    `lift` = gain / share times what a random selection of the size would hold.
    """
    _, tp, fp, positive, negative = sweep(table)
    share, gain = ((tp + fp) / (positive + negative))[1:], (tp / positive)[1:]
    return share, gain, gain / share
