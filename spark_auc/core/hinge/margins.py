"""Which pairs of a positive and a negative row violate margin 1, and by how much, in sums.

In signed form both classes are alike. With ``v = 1 - w'x`` for a positive row and ``v = w'x`` for
a negative one, a pair violates where ``v_i + v_j > 0``, and then loses ``(v_i + v_j)^2 / 2``. What
a row feels is thus a function of its ``v`` and of sums over the other class's rows above ``-v``,
which tables in order of ``v`` hold. Negation is exact, so that the two rows of a pair always agree
whether it violates; one at exactly margin 1 does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.hinge.row_scores import RowScores
from spark_auc.core.kernels import compiled
from spark_auc.core.types import Float


class Above(NamedTuple):
    """Two sums, for each row of a class, over the rows of the class that are no lower.

    Parameters
    ----------
    value : (m + 1,)
        The rows' ``v``, ascending, the last one twice.
    mass : (m + 1,)
        Sum of the weights; 0 at the end.
    other : (m + 1,)
        Another sum; 0 at the end.
    """

    value: Float
    mass: Float
    other: Float

    def at(self, v: Float) -> tuple[Float, Float, Float]:
        """How far the row above ``-v`` is from it, and both sums from there on; each ``(n,)``."""
        k = np.searchsorted(self.value[:-1], -v, "right")
        return self.value[k] + v, self.mass[k], self.other[k]


Sides: TypeAlias = tuple[Above, Above]

# Between two scores, relative to the largest or to a margin of 1, what rounding cannot make.
_APART = 1e-9


class Bins(NamedTuple):
    """Rounded margins: a positive row violates with the negative ones of higher bins.

    A positive row lies at ``-v`` and a negative one at ``v``; with those of its own bin it counts
    half.

    Parameters
    ----------
    edges : (B - 1,)
        Between bins, ascending.
    positive, negative : (B,)
        Weight of each class's rows in each bin.
    """

    edges: Float
    positive: Float
    negative: Float

    def places(self, v: Float, y: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Each row's bin ``(n,)``."""
        return np.searchsorted(self.edges, np.where(y, -v, v))

    def masses(self) -> tuple[Float, Float]:
        """Weight that a positive and a negative row of each bin violate with, each ``(B,)``."""
        p, n = self.positive, self.negative
        return np.cumsum(n[::-1])[::-1] - n / 2, np.cumsum(p) - p / 2


def forces(v: Float, u: Float, opposite: Above) -> Float:
    """Derivative ``(n,)`` of the summed loss by each ``v`` of one class."""
    gap, mass, excess = opposite.at(v)
    return u * (excess + gap * mass)


def responses(v: Float, r: Float, u: Float, opposite: Above) -> Float:
    """What changes ``r`` of all ``v`` change in `forces`, to first order."""
    _, mass, moved = opposite.at(v)
    return u * (mass * r + moved)


@dataclass(frozen=True, eq=False)
class _Side:
    """One class's rows in ascending order of ``v``, and sums over the rows from each one on."""

    order: NDArray[np.int64]
    weight: Float
    excess: Above
    square: Float

    @classmethod
    def of(cls, v: Float, u: Float) -> _Side:
        order = np.argsort(v, kind="stable")
        value, weight = v[order], u[order]
        sums = np.zeros((3, v.size + 1))
        _sums_from(value, weight, *sums)
        mass, excess, square = sums
        return cls(order, weight, Above(np.append(value, value[-1:]), mass, excess), square)

    @property
    def value(self) -> Float:
        return self.excess.value[:-1]

    def changed(self, r: Float) -> Above:
        """The sums of the weights, and of the changes ``r``, given in their first order."""
        moved = np.zeros(r.size + 1)
        moved[:-1] = np.cumsum((self.weight * r[self.order])[::-1])[::-1]
        return self.excess._replace(other=moved)


@dataclass(frozen=True, eq=False)
class Margins:
    """The rows in order of their scores by one vector; made by `of`.

    Every sum is of terms of one sign, distances between neighbours times weights above them, so
    that none cancels, wherever the scores lie and however many rows there are.
    """

    scores: RowScores
    positive: _Side
    negative: _Side

    @classmethod
    def of(cls, scores: RowScores, known: Margins | None = None) -> Margins:
        """The margins by the first vector of the scores.

        ``known`` margins save the sorting where their rows came in the same order.
        """
        if known and all(
            np.array_equal(mine[:2], theirs[:2])
            for mine, theirs in zip(
                (scores.positive, scores.negative),
                (known.scores.positive, known.scores.negative),
                strict=True,
            )
        ):
            return cls(scores, known.positive, known.negative)
        u, r, *_ = scores.positive
        return cls(scores, _Side.of(r + 1.0, u), _Side.of(scores.negative[1], scores.negative[0]))

    def loss(self) -> float:
        """Sum over all pairs of ``max(0, 1 - margin)^2 / 2``, weighted."""
        v = self.positive.value
        k = np.searchsorted(self.negative.value, -v, "right")
        above = self.negative.excess
        gap = above.value[k] + v
        squares = self.negative.square[k] + gap * (2.0 * above.other[k] + gap * above.mass[k])
        return float(self.positive.weight @ squares) / 2

    def slope(self, vector: int) -> float:
        """Derivative of `loss` when the first vector moves along another, ``vector`` >= 1."""
        p, n = self.positive, self.negative
        of_positive = forces(p.value, p.weight, n.excess)
        of_negative = forces(n.value, n.weight, p.excess)
        return float(
            of_positive @ self.scores.positive[vector + 1][p.order]
            + of_negative @ self.scores.negative[vector + 1][n.order]
        )

    def bins(self, count: int) -> Bins:
        """So many bins of about as many rows each, where pairs violate, and one on either side."""
        p, n = self.positive, self.negative
        points = np.sort(np.concatenate([-p.value, n.value]))
        # Between the lowest positive and the highest negative row, and with rows that violate
        # with none apart.
        first, last = np.searchsorted(points, -p.value[-1]), np.searchsorted(points, n.value[-1])
        cut = first + np.arange(count + 1) * (last + 1 - first) // count
        # A row's score may be made anew in another order of additions: rows that rounding alone
        # tells apart are of one bin, and an edge lies halfway between two others.
        least = _APART * max(1.0, float(np.abs(points).max(initial=0.0)))
        apart = np.flatnonzero(np.diff(points) > least) + 1
        places = np.unique(np.searchsorted(apart, cut))
        cut = apart[places[places < apart.size]]
        edges = (points[cut - 1] + points[cut]) / 2
        of_positive, of_negative = (
            np.asarray(np.bincount(np.searchsorted(edges, at), side.weight, edges.size + 1), float)
            for side, at in ((p, -p.value), (n, n.value))
        )
        return Bins(edges, of_positive, of_negative)

    def excess(self) -> Sides:
        """What a row of either class needs to know its part of the gradient."""
        return self.positive.excess, self.negative.excess

    def changed(self, vector: int, centre: float) -> Sides:
        """What a row needs to know its part of the Hessian times a vector.

        Scores by ``vector`` are taken less ``centre``, which changes nothing but the rounding.
        """
        return (
            self.positive.changed(self.scores.positive[vector + 1] + centre),
            self.negative.changed(self.scores.negative[vector + 1] - centre),
        )


@compiled()
def _sums_from(value: Float, weight: Float, mass: Float, excess: Float, square: Float) -> None:
    """Sums over rows k.. of ``u``, ``u (v - v_k)`` and ``u (v - v_k)^2``, from each row k on."""
    below = value[-1] if value.size else 0.0
    m = e = s = 0.0
    for k in range(value.size - 1, -1, -1):
        gap = below - value[k]
        s += gap * (2.0 * e + gap * m)
        e += gap * m
        m += weight[k]
        mass[k], excess[k], square[k] = m, e, s
        below = value[k]
