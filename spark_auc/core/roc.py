"""AUC, curves and thresholds of weighted scores, all read off one table.

Everything here is a function of a :class:`ScoreTable`: the weight of each class at each distinct
score. Rows are needed only to build that table, so a cluster may aggregate them first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
    outside : (2, 3, 2), where the table is a range of a larger one (see `within`): the same sums
        over the rows below and above (axis 0) all of its scores

    With whole-number weights the sums are exact below 2^53, so that neither the order of rows
    nor that of merges can change a bit. With other weights the order of rows still cannot, and
    `merge` is commutative in every bit but associative to rounding.
    """

    score: FloatArray
    sums: FloatArray
    outside: FloatArray = field(default_factory=lambda: np.zeros((2, 3, 2)))

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
        whole = not np.any(sums[0] % 1.0)
        order = (
            np.argsort(score, kind="stable") if whole else np.lexsort((*sums[1], *sums[0], score))
        )
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

    def within(self, outside: FloatArray) -> ScoreTable:
        """Return the table as a range of a larger one.

        Measures then refer to the whole: curves are the range's stretch of the whole curve, and
        weights of pairs, areas and averages are the range's share, which over all ranges add up.
        """
        return replace(self, outside=outside)

    @property
    def weight(self) -> FloatArray:
        """Weight of the positive and of the negative rows at each score, (2, m)."""
        return self.sums[0, ...]

    @property
    def squares(self) -> FloatArray:
        """Sum of the squared weights of the positive and of the negative rows, (2, m)."""
        return self.sums[1, ...]

    def class_sums(self) -> FloatArray:
        """Return the sums of weight, squared weight and 1 over each class, (3, 2)."""
        total: FloatArray = self.sums.sum(axis=2) + self.outside.sum(axis=0)
        return total

    @property
    def rows(self) -> tuple[int, int]:
        """Numbers of positive and of negative rows of weight above 0."""
        positive, negative = self.class_sums()[2]
        return int(positive), int(negative)

    def totals(self) -> tuple[float, float]:
        """Return the weight of each class; DataError unless both are present."""
        positive, negative = self.class_sums()[0]
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
        shifted = np.column_stack((self.outside[0, 0], self.weight))[:, :-1]
        return np.cumsum(shifted, axis=1)


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
