"""Sums over the pairs of a positive and a negative row that violate margin 1.

Signed scores treat both classes in the same way. With ``v = 1 - w'x`` for a positive row and
``v = w'x`` for a negative one, a pair violates the margin if ``v_i + v_j > 0``, and its loss is
then ``(v_i + v_j)^2 / 2``. The contribution of a row is thus a function of its ``v`` and of sums
over the rows of the opposite class above ``-v``, which are tabulated in order of ``v``. Negation is
exact, so that both rows of a pair give the same answer; a pair at exactly margin 1 does not
violate it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.hinge.row_scores import RowScores
from spark_auc.core.hinge.score_ranges import anchors, places
from spark_auc.core.kernels import compiled
from spark_auc.core.types import Float


class TailSums(NamedTuple):
    """Two sums over the rows of a class from each row upwards, in order of ``v``.

    Parameters
    ----------
    value : (m + 1,)
        ``v`` of the rows, ascending, with the last value repeated.
    mass : (m + 1,)
        Sum of the weights from each row upwards; 0 at the end.
    other : (m + 1,)
        A second sum from each row upwards; 0 at the end.
    """

    value: Float
    mass: Float
    other: Float

    def at(self, v: Float) -> tuple[Float, Float, Float]:
        """Sums over the rows above ``-v`` ``(n,)``.

        Returns
        -------
        gap, mass, other : (n,)
            Distance from ``-v`` to the lowest row above it, and both sums from that row upwards.
        """
        k = np.searchsorted(self.value[:-1], -v, "right")
        return self.value[k] + v, self.mass[k], self.other[k]


# Function from signed scores, weights and classes of rows to their factors in the gradient, the sum
# of the rows times these, and to bounds on the errors of the factors; all ``(n,)``.
GradientFactors: TypeAlias = Callable[[Float, Float, NDArray[np.bool_]], tuple[Float, Float | None]]
# Function from signed scores, their signed changes along a direction, weights and classes of rows
# to their factors in the product of the Hessian and the direction; all ``(n,)``.
ProductFactors: TypeAlias = Callable[[Float, Float, Float, NDArray[np.bool_]], Float]

# A difference of two scores that rounding cannot cause, relative to the largest score or to the
# margin 1.
_DISTINCT = 1e-9


class Bins(NamedTuple):
    """Rounded margins: a positive row violates the margin with negative rows of higher bins.

    The position of a positive row is ``-v``, that of a negative row ``v``. A pair within one bin
    counts half.

    Parameters
    ----------
    edges : (B - 1,)
        Boundaries between the bins, ascending.
    positive, negative : (B,)
        Weight of each class's rows in each bin.
    shift
        If the bins are made of ranges, that of their `anchors`: an edge is the anchor of the first
        range above it. Default: edges are positions between those of rows.
    """

    edges: Float
    positive: Float
    negative: Float
    shift: int | None = None

    def places(self, v: Float, y: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Each row's bin ``(n,)``."""
        place = places(v, y)
        if self.shift is not None:
            place = anchors(place, self.shift)
        return np.searchsorted(self.edges, place, "right")

    def masses(self) -> tuple[Float, Float]:
        """Weight of the opposite rows in violating pairs, by bin.

        Returns
        -------
        of_positive, of_negative : (B,)
            For a positive and for a negative row in each bin.
        """
        p, n = self.positive, self.negative
        return np.cumsum(n[::-1])[::-1] - n / 2, np.cumsum(p) - p / 2


def loss_gradient(v: Float, u: Float, opposite: TailSums) -> Float:
    """Derivative ``(n,)`` of the summed loss by each ``v`` of one class.

    Parameters
    ----------
    v, u : (n,)
        Signed scores and weights of rows of one class.
    opposite
        Tail sums of the opposite class: weights, and excesses over the first row.
    """
    gap, mass, excess = opposite.at(v)
    return u * (excess + gap * mass)


def loss_hessian_product(v: Float, r: Float, u: Float, opposite: TailSums) -> Float:
    """Change ``(n,)`` of `loss_gradient` to first order, if all ``v`` change by ``r``.

    Parameters
    ----------
    v, r, u : (n,)
        Signed scores, their changes, and weights of rows of one class.
    opposite
        Tail sums of the opposite class: weights, and weighted changes ``r``.
    """
    _, mass, change = opposite.at(v)
    return u * (mass * r + change)


@dataclass(frozen=True, eq=False)
class _Side:
    """Rows of one class in ascending order of ``v``, and their tail sums."""

    order: NDArray[np.int64]
    weight: Float
    excess: TailSums
    square: Float

    @classmethod
    def of(cls, v: Float, u: Float) -> _Side:
        order = np.argsort(v, kind="stable")
        value, weight = v[order], u[order]
        sums = np.zeros((3, v.size + 1))
        _sums_from(value, weight, *sums)
        mass, excess, square = sums
        return cls(order, weight, TailSums(np.append(value, value[-1:]), mass, excess), square)

    @property
    def value(self) -> Float:
        return self.excess.value[:-1]

    def changed(self, r: Float) -> TailSums:
        """Tail sums of the weights and of the weighted changes ``r`` ``(m,)``, in row order."""
        change = np.zeros(r.size + 1)
        change[:-1] = np.cumsum((self.weight * r[self.order])[::-1])[::-1]
        return self.excess._replace(other=change)


@dataclass(frozen=True, eq=False)
class Margins:
    """The rows of both classes in order of their scores by one vector. Create it with `of`.

    Every sum has terms of one sign, the distances of neighbours times the weights above them, so
    that nothing cancels for any offset of the scores and any number of rows.

    Parameters
    ----------
    scores
        Signed scores of the rows; the first vector is that of the order.
    positive, negative
        Sorted rows of each class, with their tail sums.
    """

    scores: RowScores
    positive: _Side
    negative: _Side

    @classmethod
    def of(cls, scores: RowScores, previous: Margins | None = None) -> Margins:
        """The margins by the first vector of the scores.

        Parameters
        ----------
        scores
            Signed scores by one or more vectors.
        previous
            Margins whose sorting is used again if the rows and their first scores are the same.
        """
        if previous and all(
            np.array_equal(new[:2], old[:2])
            for new, old in zip(
                (scores.positive, scores.negative),
                (previous.scores.positive, previous.scores.negative),
                strict=True,
            )
        ):
            return cls(scores, previous.positive, previous.negative)
        u, r, *_ = scores.positive
        return cls(scores, _Side.of(r + 1.0, u), _Side.of(scores.negative[1], scores.negative[0]))

    def loss(self) -> float:
        """Sum over all pairs of ``max(0, 1 - margin)^2 / 2``, weighted."""
        v = self.positive.value
        k = np.searchsorted(self.negative.value, -v, "right")
        tail = self.negative.excess
        gap = tail.value[k] + v
        squares = self.negative.square[k] + gap * (2.0 * tail.other[k] + gap * tail.mass[k])
        return float(self.positive.weight @ squares) / 2

    def slope(self, vector: int) -> float:
        """Derivative of `loss` at the first vector along the vector number ``vector`` >= 1."""
        p, n = self.positive, self.negative
        of_positive = loss_gradient(p.value, p.weight, n.excess)
        of_negative = loss_gradient(n.value, n.weight, p.excess)
        return float(
            of_positive @ self.scores.positive[vector + 1][p.order]
            + of_negative @ self.scores.negative[vector + 1][n.order]
        )

    def bins(self, count: int) -> Bins:
        """Bins of about equal numbers of rows.

        There are ``count`` bins over the range of violating pairs, and one bin on either side.
        """
        p, n = self.positive, self.negative
        points = np.sort(np.concatenate([-p.value, n.value]))
        # The range from the lowest positive to the highest negative row; rows outside it violate
        # no pair and are in bins of their own.
        first, last = np.searchsorted(points, -p.value[-1]), np.searchsorted(points, n.value[-1])
        cut = first + np.arange(count + 1) * (last + 1 - first) // count
        # The row's score may later be computed in another order of summation. Rows that differ by
        # rounding alone are in one bin, and an edge is halfway between two distinct scores.
        least = _DISTINCT * max(1.0, float(np.abs(points).max(initial=0.0)))
        distinct = np.flatnonzero(np.diff(points) > least) + 1
        chosen = np.unique(np.searchsorted(distinct, cut))
        cut = distinct[chosen[chosen < distinct.size]]
        edges = (points[cut - 1] + points[cut]) / 2
        positive, negative = (
            np.asarray(
                np.bincount(np.searchsorted(edges, position), side.weight, edges.size + 1), float
            )
            for side, position in ((p, -p.value), (n, n.value))
        )
        return Bins(edges, positive, negative)

    def gradient_factors(self) -> GradientFactors:
        """The factors of rows in the gradient, without errors."""
        positive, negative = self.positive.excess, self.negative.excess

        def factors(v: Float, u: Float, y: NDArray[np.bool_]) -> tuple[Float, None]:
            out = np.empty_like(v)
            for side, sign, opposite in ((y, -1.0, negative), (~y, 1.0, positive)):
                out[side] = sign * loss_gradient(v[side], u[side], opposite)
            return out, None

        return factors

    def product_factors(self, vector: int, centre: float) -> ProductFactors:
        """The factors of rows in the product of the Hessian and the vector number ``vector``.

        ``centre`` is subtracted from the scores by this vector; it changes the rounding only.
        """
        positive = self.positive.changed(self.scores.positive[vector + 1] + centre)
        negative = self.negative.changed(self.scores.negative[vector + 1] - centre)

        def factors(v: Float, r: Float, u: Float, y: NDArray[np.bool_]) -> Float:
            change, out = r + np.where(y, centre, -centre), np.empty_like(v)
            for side, sign, opposite in ((y, -1.0, negative), (~y, 1.0, positive)):
                out[side] = sign * loss_hessian_product(v[side], change[side], u[side], opposite)
            return out

        return factors

    def loss_error(self) -> float:
        """Bound on the error of `loss` beyond rounding."""
        return 0.0


@compiled()
def _sums_from(value: Float, weight: Float, mass: Float, excess: Float, square: Float) -> None:
    """Sums over rows k.. of ``u``, ``u (v - v_k)`` and ``u (v - v_k)^2``, for each row k."""
    next_value = value[-1] if value.size else 0.0
    m = e = s = 0.0
    for k in range(value.size - 1, -1, -1):
        gap = next_value - value[k]
        s += gap * (2.0 * e + gap * m)
        e += gap * m
        m += weight[k]
        mass[k], excess[k], square[k] = m, e, s
        next_value = value[k]
