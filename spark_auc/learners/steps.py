"""Step sizes from the lengths of the rows."""

from __future__ import annotations

from dataclasses import dataclass

from spark_auc.core.moments.column_moments import ColumnMoments


@dataclass(frozen=True)
class Lengths:
    """Statistics of the lengths ``|x|`` of the training rows.

    Parameters
    ----------
    squares
        Moments of ``u |x|^2``, with the row weight ``u``, as one column; each row counts once.
    longest
        The largest length.
    """

    squares: ColumnMoments
    longest: float

    @property
    def radius(self) -> float:
        """``R^2 = E|D|^4 / E|D|^2`` for the differences ``D`` of a positive and a negative row.

        Constant steps on the squared loss converge up to ``1 / (4 R^2)`` for any ``R`` with
        ``E[|D|^2 D D'] <= R^2 E[D D']`` [1]_; this is the trace of that condition. Rows of
        different classes are assumed orthogonal, so that lengths suffice. 0 if all rows are 0.

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
        """The step size ``share / R^2``; ``share`` itself if all rows are 0."""
        return share / (self.radius or 1.0)
