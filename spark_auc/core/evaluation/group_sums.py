"""AUC and DeLong's variance of many groups of rows that arrive in the order of their scores.

A group takes a fixed number of sums, whatever its rows: those of rows of higher scores are added to
those of lower ones. So neither a group nor a task must fit in memory.

For a class k let c be the weight of the other class below a row, ties half. Placements are linear
in c (`delong.placements`), so mean and variance of c over the rows of a class, weighted by the
squares of their weights, give DeLong's variance. Both merge without cancellation (Chan, Golub &
LeVeque 1979).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.evaluation.delong import effective_rows, has_spread, interval_ends
from spark_auc.core.kernels import compiled
from spark_auc.core.types import Float

# Columns of the sums, the first of two for the positive and the second for the negative rows: rows,
# weights, squared weights; pairs won, tied and lost; mean and variance of c.
_ROWS, _WEIGHT, _SQUARES, _WON, _TIED, _LOST, _MEAN, _SPREAD, _SIZE = 0, 2, 4, 6, 7, 8, 9, 11, 13


@compiled()
def _append(low: Float, high: Float) -> None:
    """Add to the sums ``low`` those of rows with higher scores."""
    low[_WON] += high[_WON] + high[_WEIGHT] * low[_WEIGHT + 1]
    low[_TIED] += high[_TIED]
    low[_LOST] += high[_LOST] + high[_WEIGHT + 1] * low[_WEIGHT]
    for k in range(2):
        if high[_SQUARES + k] > 0:
            share = high[_SQUARES + k] / (low[_SQUARES + k] + high[_SQUARES + k])
            step = high[_MEAN + k] + low[_WEIGHT + 1 - k] - low[_MEAN + k]
            spread = share * (high[_SPREAD + k] + (1 - share) * step * step)
            low[_SPREAD + k] = (1 - share) * low[_SPREAD + k] + spread
            low[_MEAN + k] += share * step
    for k in range(_WON):
        low[k] += high[k]


@compiled()
def _close(total: Float, tied: Float) -> None:
    """Move the rows of one score from ``tied`` to the sums ``total`` of lower scores."""
    tied[_TIED] = tied[_WEIGHT] * tied[_WEIGHT + 1]
    for k in range(2):
        tied[_MEAN + k] = tied[_WEIGHT + 1 - k] / 2
    _append(total, tied)
    for k in range(_SIZE):
        tied[k] = 0.0


@compiled()
def _add(
    ends: NDArray[np.int64],
    score: Float,
    y: NDArray[np.bool_],
    weight: Float,
    totals: Float,
    tied: Float,
) -> None:
    row = 0
    for group in range(ends.size):
        while row < ends[group]:
            if weight[row] > 0:
                if score[row] != tied[group, _SIZE]:
                    _close(totals[group], tied[group])
                    tied[group, _SIZE] = score[row]
                k = 0 if y[row] else 1
                tied[group, _ROWS + k] += 1
                tied[group, _WEIGHT + k] += weight[row]
                tied[group, _SQUARES + k] += weight[row] * weight[row]
            row += 1


@compiled()
def _close_all(totals: Float, tied: Float) -> None:
    for group in range(len(totals)):
        _close(totals[group], tied[group])


@compiled()
def _append_all(low: Float, high: Float) -> None:
    for group in range(len(low)):
        _append(low[group], high[group])


class OpenGroup(NamedTuple):
    """A group whose next rows may have the score of its last ones.

    Parameters
    ----------
    total : (13,)
        Sums of the rows below the highest score.
    tied : (14,)
        Sums of the rows of the highest score, and that score; nan without rows.
    """

    total: Float
    tied: Float


class GroupMeasures(NamedTuple):
    """Measures of ``g`` groups; nan for those that are not defined.

    Parameters
    ----------
    positive, negative : (g,)
        Numbers of rows of weight above 0.
    weight : (g,)
        Total weight of the rows.
    auc : (g,)
        AUC; nan for a group of one class.
    lower, upper : (g,)
        Ends of the interval; nan for a group with a single row of a class.
    """

    positive: NDArray[np.int64]
    negative: NDArray[np.int64]
    weight: Float
    auc: Float
    lower: Float
    upper: Float


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums of the rows of ``g`` groups; create them with `of`.

    Parameters
    ----------
    values : (g, 13)
        The sums.
    """

    values: Float

    @classmethod
    def of(
        cls,
        ends: NDArray[np.int64],
        score: Float,
        y: NDArray[np.bool_],
        weight: Float,
        before: OpenGroup | None = None,
    ) -> tuple[GroupSums, OpenGroup]:
        """The sums of one or more consecutive groups of rows.

        Parameters
        ----------
        ends : (g,)
            The end of each group: the number of rows up to its last one.
        score : (n,)
            Finite scores, ascending in each group.
        y : (n,)
            True for positive rows.
        weight : (n,)
            Weights; a row of weight 0 is ignored.
        before
            The first group's rows that came earlier, of the same or lower scores.

        Returns
        -------
        GroupSums
            The sums.
        OpenGroup
            The last group, as ``before`` of its next rows.
        """
        totals, tied = np.zeros((ends.size, _SIZE)), np.zeros((ends.size, _SIZE + 1))
        tied[:, _SIZE] = np.nan
        if before is not None:
            totals[0], tied[0] = before
        _add(ends, score, y, weight, totals, tied)
        last = OpenGroup(totals[-1].copy(), tied[-1].copy())
        _close_all(totals, tied)
        return cls(totals), last

    def take(self, groups: slice) -> GroupSums:
        """The sums of a range of the groups."""
        return GroupSums(self.values[groups])

    @classmethod
    def union(cls, parts: Iterable[GroupSums]) -> GroupSums:
        """The sums of the groups of all parts."""
        return cls(np.concatenate([np.empty((0, _SIZE)), *(part.values for part in parts)]))

    def merge(self, above: GroupSums) -> GroupSums:
        """The sums of both sets of rows; in each group all scores of ``above`` are higher."""
        values = self.values.copy()
        _append_all(values, above.values)
        return GroupSums(values)

    def measures(self, level: float) -> GroupMeasures:
        """The AUC of each group and its interval of a confidence level in (0, 1).

        Raises
        ------
        ConfigError
            ``level`` is not in (0, 1).
        """
        sums = self.values.T
        rows, weight, squares = sums[:_WEIGHT], sums[_WEIGHT:_SQUARES], sums[_SQUARES:_WON]
        class_sums = np.stack((weight, squares, rows))
        won, tied, lost = sums[_WON:_MEAN]
        with np.errstate(divide="ignore", invalid="ignore"):
            auc = (won + tied / 2) / (won + tied + lost)
            # Placements are c / weight of the other class, for negative rows 1 - c / weight.
            others = weight[::-1]
            mean, spread = sums[_MEAN:_SPREAD] / others, sums[_SPREAD:] / others**2
            deviation = np.stack((mean[0] - auc, 1 - mean[1] - auc))
            variance = squares / (weight**2 - squares) * (spread + deviation**2)
            variance = np.where(has_spread(class_sums), variance.sum(axis=0), np.nan)
            effective = effective_rows(class_sums).min(axis=0)
            ends = interval_ends(auc, variance, effective, level)
        known = rows.min(axis=0) > 1
        positive, negative = rows.astype(np.int64)
        lower, upper = (np.where(known, end, np.nan) for end in ends)
        return GroupMeasures(positive, negative, weight.sum(axis=0), auc, lower, upper)
