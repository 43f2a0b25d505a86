"""How long steps may be, as the lengths of the rows say."""

from __future__ import annotations

from dataclasses import dataclass

from spark_auc.core.moments.column_moments import ColumnMoments


@dataclass(frozen=True)
class Lengths:
    """Lengths ``|x|`` of the rows that are learnt.

    Parameters
    ----------
    squares
        Moments of one column, the squared length of each row times its weight; rows count once.
    longest
        The largest length.
    """

    squares: ColumnMoments
    longest: float

    @property
    def radius(self) -> float:
        """``R^2 = E|D|^4 / E|D|^2`` for the differences ``D`` of a positive and a negative row.

        Steps on a squared loss converge while they are a small part of ``1 / R^2``: in theory up
        to ``1 / (4 R^2)`` where ``E[|D|^2 D D'] <= R^2 E[D D']`` [1]_, of which this is the trace.
        Rows of other classes are taken as orthogonal, so that the lengths suffice. 0 where all
        rows are 0.

        References
        ----------
        .. [1] F. Bach, E. Moulines. Non-strongly-convex smooth stochastic approximation with
           convergence rate O(1/n). NIPS 2013.
        """
        second = self.squares.mean[:, 0]
        fourth = self.squares.variance[:, 0] + second**2
        total = float(second.sum())
        return float(fourth.sum() + 2.0 * second.prod()) / total if total else 0.0

    def step(self, share: float) -> float:
        """The step of ``share / R^2``; ``share`` itself where all rows are 0."""
        return share / (self.radius or 1.0)
