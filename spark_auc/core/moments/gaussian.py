"""AUC, threshold and log odds from the moments of the scores, for classes of Gaussian scores."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from spark_auc.core.moments.column_moments import ColumnMoments

# Steps between the least and the greatest threshold, as many as doubles tell apart.
_STEPS = 2**53


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
    return float(ndtr(difference / spread))


def class_ratio_threshold(scores: ColumnMoments) -> float:
    """Threshold at which the share of weight at or above it is that of the positive class.

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
        return float(share @ ndtr(-(threshold - mean) / spread) - share[0])

    low, high = (mean - 40 * spread).min(), (mean + 40 * spread).max()

    def at(step: float) -> float:
        return float(low + (high - low) * (step / _STEPS))

    # Importing the root finders of scipy takes longer than fitting a small table. Between classes
    # that are far apart the excess is 0 on a range, of which the middle is taken.
    steps, key = range(_STEPS), lambda step: -excess(at(step))
    root = at((bisect_left(steps, 0.0, key=key) + bisect_right(steps, 0.0, key=key)) / 2)
    # Of equal scores none is at or above it: rare positives are the rule.
    return float(np.nextafter(root, np.inf))


class Line(NamedTuple):
    """The map ``slope * score + intercept``."""

    slope: float
    intercept: float


def log_odds_line(scores: ColumnMoments) -> Line:
    """Log odds of the positive class, for classes of Gaussian scores of equal variance.

    With prevalence and means of the classes and the pooled variance ``v`` within them, the slope is
    ``delta / v`` (Fisher's linear discriminant in one dimension). Without variance there are no
    finite log odds, and the slope is 0.

    Parameters
    ----------
    scores
        Moments of one column, the scores, of rows of both classes.
    """
    share = scores.weight / scores.weight.sum()
    variance, mean = float(share @ scores.variance[:, 0]), scores.mean[:, 0]
    slope = float(scores.delta[0]) / variance if variance > 0 else 0.0
    return Line(slope, float(np.log(share[0] / share[1]) - slope * mean.mean()))


def mapped(scores: ColumnMoments, line: Line) -> ColumnMoments:
    """Moments of the scores after a line."""
    squared = line.slope**2
    return replace(
        scores,
        mean=scores.mean * line.slope + line.intercept,
        scatter=scores.scatter * squared,
        rounding=scores.rounding * squared,
    )


def mixture_auc(parts: Sequence[ColumnMoments]) -> float:
    """AUC over the rows of all parts, each with two classes of Gaussian scores.

    The weighted mean of ``Phi((m_a - m_b) / sqrt(v_a + v_b))`` over the positive class ``a`` of a
    part and the negative class ``b`` of a part; within one part it is `estimated_auc`.

    Parameters
    ----------
    parts
        Moments of one column, the scores, of each part.
    """
    weight = np.array([part.weight for part in parts])
    mean = np.array([part.mean[:, 0] for part in parts])
    variance = np.array([part.variance[:, 0] for part in parts])
    difference = mean[:, :1] - mean[:, 1]
    spread = np.sqrt(variance[:, :1] + variance[:, 1])
    certain = np.where(difference == 0, 0.0, np.copysign(np.inf, difference))
    ratio = np.divide(difference, spread, out=certain, where=spread > 0)
    pairs = np.outer(weight[:, 0], weight[:, 1])
    return float((pairs * ndtr(ratio)).sum() / pairs.sum())
