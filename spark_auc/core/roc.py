"""AUC, curves and thresholds of weighted scores, all read off one table.

Everything here is a function of a :class:`ScoreTable`: the weight of each class at each distinct
score. Rows are needed only to build that table, so a cluster may aggregate them first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.errors import ConfigError, DataError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """The class weights at each distinct score: a mergeable summary that loses nothing of AUC.

    Build it with `of` (rows) or `grouped` (an aggregate); both validate.

    Attributes
    ----------
    score : (m,) distinct finite scores, ascending
    sums : (3, 2, m), the sums at each score of weight, squared weight and 1 (axis 0) over the
        positive and the negative rows (axis 1)

    With whole-number weights the sums are exact below 2^53, so that neither the order of rows
    nor that of merges can change a bit. With other weights the order of rows still cannot, and
    `merge` is commutative in every bit but associative to rounding.
    """

    score: FloatArray
    sums: FloatArray

    @classmethod
    def zero(cls) -> ScoreTable:
        """Return the table of no rows: the identity of `merge`."""
        return cls.grouped(np.empty(0), np.empty((3, 2, 0)))

    @classmethod
    def of(
        cls, scores: FloatArray, y: NDArray[np.bool_], weight: FloatArray | None = None
    ) -> ScoreTable:
        """Tabulate rows: scores (n,), y (n,) true where positive, weight (n,) >= 0, default 1.

        Rows of weight 0 count as absent. One class only, or no rows, is a valid part of a larger
        table, and refused by the measures that need both. Raises DataError as `grouped`, and for
        labels that are not boolean or lengths that differ.
        """
        scores, y = np.asarray(scores, dtype=np.float64), np.asarray(y)
        u = np.ones(scores.shape) if weight is None else np.asarray(weight, dtype=np.float64)
        if y.dtype != np.bool_ or not scores.shape == y.shape == u.shape == (scores.size,):
            raise DataError(
                f"found scores {scores.shape}, labels {y.dtype}{y.shape} and weights {u.shape}; "
                "expected one-dimensional arrays of one length and boolean labels: pass "
                "y == positive_label"
            )
        with np.errstate(over="ignore"):  # an infinite square is refused by `grouped`
            powers = np.stack((u, u * u, np.ones_like(u)))
        return cls.grouped(scores, np.where((y, ~y), powers[:, np.newaxis], 0.0))

    @classmethod
    def grouped(cls, score: FloatArray, sums: FloatArray) -> ScoreTable:
        """Tabulate groups of rows, in any order, scores possibly repeated (shapes as the fields).

        Raises DataError, with counts, when a score is not finite or a sum is not finite or < 0.
        """
        bad_scores = np.count_nonzero(~np.isfinite(score))
        bad_sums = np.count_nonzero(~(np.isfinite(sums) & (sums >= 0)).all(axis=(0, 1)))
        if bad_scores or bad_sums:
            raise DataError(
                f"found {bad_scores} NaN or infinite scores and {bad_sums} NaN, infinite or "
                f"negative weights among {score.size} rows; expected finite scores and finite "
                "weights >= 0: filter or repair these rows"
            )
        kept = sums[0].any(axis=0)
        score, sums = score[kept] + 0.0, sums[..., kept]  # + 0.0 makes -0.0 the 0.0 it equals
        # Equal scores too are put in order: sums of fractions must not depend on how rows arrive.
        order = np.lexsort((*sums[1], *sums[0], score))
        score, sums = score[order], sums[..., order]
        starts = np.flatnonzero(np.diff(score, prepend=-np.inf))
        table = cls(score[starts], np.add.reduceat(sums, starts, axis=-1))
        table.score.setflags(write=False)
        table.sums.setflags(write=False)
        return table

    def merge(self, other: ScoreTable) -> ScoreTable:
        """Return the table of both sets of rows."""
        return self.grouped(
            np.concatenate((self.score, other.score)),
            np.concatenate((self.sums, other.sums), axis=-1),
        )

    @property
    def weight(self) -> FloatArray:
        """Weight of the positive and of the negative rows at each score, (2, m)."""
        return self.sums[0, ...]

    @property
    def squares(self) -> FloatArray:
        """Sum of the squared weights of the positive and of the negative rows, (2, m)."""
        return self.sums[1, ...]

    @property
    def rows(self) -> tuple[int, int]:
        """Numbers of positive and of negative rows of weight above 0."""
        positive, negative = self.sums[2].sum(axis=1)
        return int(positive), int(negative)

    def totals(self) -> tuple[float, float]:
        """Return the weight of each class; DataError unless both are present."""
        positive, negative = self.weight.sum(axis=1)
        if not 1e-300 < positive * negative < 1e300:
            raise DataError(
                f"found {self.rows[0]} positive rows of weight {positive:g} and {self.rows[1]} "
                f"negative rows of weight {negative:g}; expected some of both classes: check the "
                "positive label, widen the selection of rows, or rescale extreme weights"
            )
        return float(positive), float(negative)

    def below(self) -> FloatArray:
        """Return the class weights strictly below each score, (2, m)."""
        # Shifted sums: subtracting a score's own weight would leave residues where the truth is 0.
        return np.cumsum(np.pad(self.weight, ((0, 0), (1, 0)))[:, :-1], axis=1)


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


def _sweep(table: ScoreTable) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return descending thresholds from +inf, and the class weights at or above, (m + 1,) each."""
    table.totals()
    weights = np.cumsum(np.pad(table.weight[:, ::-1], ((0, 0), (1, 0))), axis=1)
    return np.append(np.inf, table.score[::-1]), weights[0], weights[1]


def roc_curve(
    table: ScoreTable, max_points: int | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (fpr, tpr, thresholds), ascending rates from (0, 0) at +inf: one point a score.

    With `max_points` (>= 8) a subset of the points spread evenly along the curve, each of them
    still exact. The area drawn changes by at most about 1 / max_points, and for a smooth curve
    by about its square: a monotone path leaves its chord by at most half their common rectangle.
    """
    thresholds, tp, fp = _sweep(table)
    fpr, tpr = fp / fp[-1], tp / tp[-1]
    if max_points is None or thresholds.size <= max_points:
        return fpr, tpr, thresholds
    if max_points < 8:
        raise ConfigError(f"found max_points = {max_points}; expected 8 or more")
    # Both ends of an edge that crosses a mark are kept, so that no chord replaces a long edge.
    after = np.searchsorted(fpr + tpr, np.linspace(0.0, 2.0, max_points // 2))
    kept = np.unique(np.clip(np.concatenate((after - 1, after)), 0, fpr.size - 1))
    return fpr[kept], tpr[kept], thresholds[kept]


def precision_recall_curve(table: ScoreTable) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (precision, recall, thresholds), thresholds ascending, as scikit-learn does.

    Precision and recall have one point more, the closing (1, 0).
    """
    thresholds, tp, fp = (values[:0:-1] for values in _sweep(table))
    return np.append(tp / (tp + fp), 1.0), np.append(tp / tp[0], 0.0), thresholds


def average_precision(table: ScoreTable) -> float:
    """Sum of precision times the step in recall (scikit-learn's definition: no interpolation)."""
    precision, recall, _ = precision_recall_curve(table)
    return float(-np.diff(recall) @ precision[:-1])


def partial_auc(table: ScoreTable, max_fpr: float, standardized: bool = True) -> float:
    """Area under the ROC curve over 0 <= fpr <= max_fpr, with max_fpr in (0, 1].

    Standardized (McClish 1989): 1/2 for chance and 1 for the best, whatever max_fpr is.
    """
    if not 0 < max_fpr <= 1:
        raise ConfigError(f"found max_fpr = {max_fpr}; expected a rate in (0, 1]")
    fpr, tpr, _ = roc_curve(table)
    inside = np.searchsorted(fpr, max_fpr, side="right")
    x = np.append(fpr[:inside], max_fpr)
    area = float(np.trapezoid(np.append(tpr[:inside], np.interp(max_fpr, fpr, tpr)), x))
    chance = max_fpr**2 / 2
    return (1 + (area - chance) / (max_fpr - chance)) / 2 if standardized else area


def gain_curve(table: ScoreTable) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (share, gain, lift), (m,) each, from the best score down.

    The best `share` of all weight holds the fraction `gain` of the positive weight, which is
    `lift` = gain / share times what a random selection of the size would hold.
    """
    _, tp, fp = _sweep(table)
    share, gain = ((tp + fp) / (tp[-1] + fp[-1]))[1:], (tp / tp[-1])[1:]
    return share, gain, gain / share


Criterion = Callable[[FloatArray, FloatArray], FloatArray]
"""Value, to be maximised, of each threshold, given the true and the false positive weight from
the strictest threshold (0) to the laxest (all)."""


def f1(tp: FloatArray, fp: FloatArray) -> FloatArray:
    """Harmonic mean of precision and recall."""
    score: FloatArray = 2 * tp / (tp + fp + tp[-1])
    return score


def class_ratio(tp: FloatArray, fp: FloatArray) -> FloatArray:
    """Call as much weight positive as is positive."""
    excess: FloatArray = np.abs(tp + fp - tp[-1])
    return -excess


def cost_ratio(ratio: float) -> Criterion:
    """Least total cost, a false negative costing `ratio` times a false positive."""
    return lambda tp, fp: ratio * tp - fp


def fpr_budget(budget: float) -> Criterion:
    """Highest recall at a false positive rate of at most `budget`."""
    return lambda tp, fp: np.where(fp / fp[-1] <= budget, tp, -np.inf)


class OperatingPoint(NamedTuple):
    """A rule "positive if score >= threshold" and what it does; precision is nan if none is."""

    threshold: float
    tpr: float
    fpr: float
    precision: float


def best_threshold(table: ScoreTable, criterion: Criterion) -> OperatingPoint:
    """Return the threshold of the greatest value of `criterion`, the strictest among equals.

    It is a score of the table, or +inf (call nothing positive).
    """
    thresholds, tp, fp = _sweep(table)
    i = int(np.argmax(criterion(tp, fp)))
    called = tp[i] + fp[i]
    rates = (tp[i] / tp[-1], fp[i] / fp[-1], tp[i] / called if called else np.nan)
    return OperatingPoint(float(thresholds[i]), *map(float, rates))
