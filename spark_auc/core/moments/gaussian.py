"""AUC and threshold from the moments of the scores, for classes of Gaussian scores."""

from __future__ import annotations

import numpy as np
from scipy import optimize, stats

from spark_auc.core.moments.column_moments import ColumnMoments


def estimated_auc(scores: ColumnMoments) -> float:
    """AUC of two Gaussian classes (Ghanbari and Scheinberg, arXiv 1802.02535).

    ``Phi(w'delta / sqrt(w'(C_+ + C_-) w))``, from the moments of the scores ``X w``.

    Parameters
    ----------
    scores
        Moments of one column, the scores.
    """
    difference, spread = float(scores.delta[0]), float(np.sqrt(scores.variance.sum()))
    if not spread:
        return 0.5 + 0.5 * float(np.sign(difference))
    return float(stats.norm.cdf(difference / spread))


def class_ratio_threshold(scores: ColumnMoments) -> float:
    """Threshold at which the share of weight above it equals the share of the positive class.

    The paper's rule for a classifier (MBA, section IV-A), here from the moments of the scores
    ``X w``; approximate unless the scores of each class are Gaussian.

    Parameters
    ----------
    scores
        Moments of one column, the scores.
    """
    share = scores.weight / scores.weight.sum()
    mean, spread = scores.mean[:, 0], np.sqrt(scores.variance[:, 0])
    # A class of equal scores has a step distribution; a small width makes the share continuous.
    spread = np.maximum(spread, 1e-9 * max(np.ptp(mean), *spread, np.finfo(float).tiny))

    def excess(threshold: float) -> float:
        return float(share @ stats.norm.sf(threshold, mean, spread) - share[0])

    low, high = (mean - 40 * spread).min(), (mean + 40 * spread).max()
    return float(optimize.brentq(excess, low, high)) if low < high else float(low)
