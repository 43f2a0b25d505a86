"""Sums over the pairs that violate margin 1, from ranges of scores in bounded memory.

Pairs of rows in different ranges are exact: their sums need the sums of each range alone. Of a pair
within one range it is not known whether it violates the margin. It counts half, whatever its sign,
so that its loss is wrong by at most a quarter of its squared margin error, and the coefficients of
its rows by at most half of the error's size. Both are computed from the sums of the range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.hinge.margins import Bins, GradientFactors, ProductFactors
from spark_auc.core.hinge.score_ranges import ScoreRanges, anchors, places, unstretched
from spark_auc.core.types import Float

Index64: TypeAlias = NDArray[np.int64]


class _Opposite(NamedTuple):
    """Sums over the opposite rows that violate the margin with the rows of each range.

    Parameters
    ----------
    mass, distance, square : (m,)
        Sums of the weight, of the distance from the anchor of the range, and of its square. Rows of
        the range itself are not in them.
    """

    mass: Float
    distance: Float
    square: Float


@dataclass(frozen=True, eq=False)
class RangeMargins:
    """The rows of both classes in ranges of their scores by one vector.

    Parameters
    ----------
    ranges
        The ranges, with the changes of the scores along a direction.
    """

    ranges: ScoreRanges

    @cached_property
    def _above(self) -> _Opposite:
        """The negative rows of higher ranges; their distances are positive."""
        gap = np.diff(unstretched(self.ranges.anchor))
        upward = _sums(self.ranges.sums[:3, 1, ::-1], gap[::-1])
        return _Opposite(*(sums[::-1] for sums in upward))

    @cached_property
    def _below(self) -> _Opposite:
        """The positive rows of lower ranges; their distances are negative."""
        return _sums(self.ranges.sums[:3, 0], -np.diff(unstretched(self.ranges.anchor)))

    def loss(self) -> float:
        """Sum over all pairs of ``max(0, 1 - margin)^2 / 2``, weighted; see `loss_error`."""
        (p, _), (a, _), (s, _) = self.ranges.sums[:3]
        above = self._above
        outside = p * above.square - 2.0 * a * above.distance + s * above.mass
        return float(outside.sum()) / 2 + self.loss_error()

    def loss_error(self) -> float:
        """Bound on the error of `loss`: half of the largest loss of the pairs within ranges."""
        (p, n), (a, b), (s, t) = self.ranges.sums[:3]
        return float(np.maximum(p * t - 2.0 * a * b + n * s, 0.0).sum()) / 4

    def slope(self, vector: int) -> float:
        """Derivative of `loss` along the direction of the changes; ``vector`` is 1."""
        offset, factor = self._lines
        change, both = self.ranges.sums[3:]
        return float((offset * change + factor * both).sum())

    def gradient_factors(self) -> GradientFactors:
        """See `Margins.gradient_factors`.

        With ``D`` the distance of a row from the opposite rows of its range, the error of its
        factor is at most ``sum |D| / 2 <= sqrt(sum 1 * sum D^2) / 2``, weighted.
        """
        (offset, factor), at, sums = self._lines, self._at, self.ranges.sums[:3]

        def factors(v: Float, u: Float, y: NDArray[np.bool_]) -> tuple[Float, Float]:
            side, number, e = at(v, y)
            mass, excess, square = sums[:, 1 - side, number]
            size = square + e * e * mass
            # The difference may be lost to rounding, but for a share of its terms.
            squares = np.maximum(size - 2.0 * e * excess, 0.0) + 8 * np.finfo(float).eps * size
            exact = offset[side, number] + factor[side, number] * e
            return u * exact, u * np.sqrt(mass * squares) / 2

        return factors

    def product_factors(self, vector: int, centre: float) -> ProductFactors:
        """See `Margins.product_factors`; ``vector`` is 1.

        Pairs within a range count half, so that the Hessian is symmetric and positive semidefinite.
        """
        weight, change = self.ranges.sums[0], self.ranges.sums[3] - centre * self.ranges.sums[0]
        below, above = np.cumsum(change[0]), np.cumsum(change[1][::-1])[::-1]
        changes = np.stack([above - change[1] / 2, below - change[0] / 2])
        mass = np.stack([self._above.mass + weight[1] / 2, self._below.mass + weight[0] / 2])

        at = self._at

        def factors(v: Float, r: Float, u: Float, y: NDArray[np.bool_]) -> Float:
            side, number, _ = at(v, y)
            unsigned = places(r, y) - centre
            result: Float = u * (mass[side, number] * unsigned - changes[side, number])
            return result

        return factors

    def bins(self, count: int) -> Bins:
        """Bins of whole ranges, of about equal weight; see `Margins.bins`."""
        positive, negative = self.ranges.sums[0]
        # Rows below every positive and above every negative row violate no pair.
        first = int(np.argmax(positive > 0))
        last = positive.size - int(np.argmax(negative[::-1] > 0))
        total = np.cumsum((positive + negative)[first:last])
        levels = np.arange(count) * (total[-1] if total.size else 0.0) / count
        cut = first + np.searchsorted(total, levels, "right")
        cut = np.unique(np.append(cut, [first, last]))
        cut = cut[(cut > 0) & (cut < positive.size)]
        positive, negative = np.add.reduceat(self.ranges.sums[0], np.append(0, cut), axis=1)
        return Bins(self.ranges.anchor[cut], positive, negative, self.ranges.shift)

    @property
    def _at(self) -> Callable[[Float, NDArray[np.bool_]], tuple[Index64, Index64, Float]]:
        """Function to each row's class (0 if positive), range, and excess over its anchor."""
        anchor, shift = self.ranges.anchor, self.ranges.shift

        def at(v: Float, y: NDArray[np.bool_]) -> tuple[Index64, Index64, Float]:
            place = places(v, y)
            # A row that has no range was not there when the ranges were made.
            number = np.searchsorted(anchor[:-1], anchors(place, shift))
            return np.where(y, 0, 1), number, place - unstretched(anchor[number])

        return at

    @cached_property
    def _lines(self) -> tuple[Float, Float]:
        """A row's factor in the gradient is linear in its excess: offsets and slopes ``(2, m)``."""
        (p, n), (a, b) = self.ranges.sums[:2]
        above, below = self._above, self._below
        return (
            np.stack([-(above.distance + b / 2), -(below.distance + a / 2)]),
            np.stack([above.mass + n / 2, below.mass + p / 2]),
        )


def _sums(sums: Float, gap: Float) -> _Opposite:
    """Sums over the rows of all earlier ranges, as distances from the anchor of each range.

    Parameters
    ----------
    sums : (3, m)
        Sums of each range: weight, excess over the anchor of the range, and squared excess.
    gap : (m - 1,)
        What the distances of rows grow by from each range to the next.
    """
    weight, excess, square = sums
    zero = np.zeros(min(1, weight.size))
    mass = np.cumsum(weight)[:-1]
    distance = np.cumsum(excess[:-1] + mass * gap)
    before = np.concatenate([zero, distance[:-1]])[: distance.size] + excess[:-1]
    squares = np.cumsum(square[:-1] + gap * (2.0 * before + gap * mass))
    return _Opposite(*(np.concatenate([zero, total]) for total in (mass, distance, squares)))
