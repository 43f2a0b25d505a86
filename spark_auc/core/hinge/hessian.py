"""The Hessian of the all-pairs squared hinge at rounded margins."""

from __future__ import annotations

import numpy as np

from spark_auc.core.hinge.margins import Bins
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.types import Float


def hessian_of_bins(moments: ClassMoments, sums: Float, bins: Bins, centre: Float) -> Float:
    """The Hessian ``(d, d)`` of the summed loss, for margins that bins round.

    A pair violates the margin according to the bins of its rows. The sum over pairs then becomes a
    sum over rows and a sum over bins: with ``m_i`` the weight of the opposite rows in violating
    pairs of row ``i``, and ``P_b`` and ``N_b`` the sums of the rows in bin ``b``, the Hessian is
    ``sum_i u_i m_i x_i x_i'`` minus ``sum_(b < c) (P_b N_c' + N_c P_b')``. It is the Hessian at
    other margins, and hence positive semidefinite.

    Parameters
    ----------
    moments
        Moments of the rows with the weights ``u_i m_i``.
    sums : (2 B, d)
        Weighted sums of the positive, then of the negative rows in each bin.
    bins
        The bins.
    centre : (d,)
        Subtracted from the rows, so that columns far from 0 do not cancel.
    """
    positive, negative = sums.reshape(2, bins.positive.size, -1)
    positive = positive - np.outer(bins.positive, centre)
    negative = negative - np.outer(bins.negative, centre)
    cross = negative.T @ (np.cumsum(positive, axis=0) - positive / 2)
    shift = moments.mean - centre
    matrix: Float = moments.scatter() + moments.weight * np.outer(shift, shift) - cross - cross.T
    return matrix
