"""What class moments alone tell of the scores, taking those of each class as Gaussian."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from spark_auc.core.moments import PairMoments

Float = NDArray[np.float64]


def class_ratio_threshold(moments: PairMoments, w: Float) -> float:
    """Score above which as large a share of weight lies as is positive in training.

    The paper's rule for a classifier (MBA, section IV-A), here from class means and variances
    along ``w`` (d,): approximate where the scores are far from Gaussian.
    """
    classes = (moments.positive, moments.negative)
    share = np.array([m.weight for m in classes])
    share /= share.sum()
    mean = np.array([m.mean @ w for m in classes])
    spread = np.sqrt([m.variance_along(w) for m in classes])
    # A class of equal scores is a step; a small width keeps the share continuous.
    spread = np.maximum(spread, 1e-9 * max(np.ptp(mean), *spread, np.finfo(float).tiny))

    def excess(threshold: float) -> float:
        return float(share @ stats.norm.sf(threshold, mean, spread) - share[0])

    low, high = (mean - 40 * spread).min(), (mean + 40 * spread).max()
    return float(optimize.brentq(excess, low, high)) if low < high else float(low)
