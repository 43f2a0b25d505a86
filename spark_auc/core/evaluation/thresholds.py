"""Choice of a threshold: criteria, and the best threshold by a criterion."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from spark_auc.core.evaluation.roc import Sweep
from spark_auc.core.types import Float

Criterion = Callable[[Sweep], Float]
"""Function from a sweep to the value ``(k,)`` of each threshold, which is maximised."""


def f1(swept: Sweep) -> Float:
    """Harmonic mean ``(k,)`` of precision and recall."""
    score: Float = 2 * swept.tp / (swept.tp + swept.fp + swept.positive)
    return score


def class_ratio(swept: Sweep) -> Float:
    """Negative difference ``(k,)`` of the weight predicted positive and the positive weight."""
    difference: Float = np.abs(swept.tp + swept.fp - swept.positive)
    return -difference


def cost_ratio(ratio: float) -> Criterion:
    """The criterion of least total cost; a false negative costs ``ratio`` false positives."""
    return lambda swept: ratio * swept.tp - swept.fp


def fpr_budget(budget: float) -> Criterion:
    """The criterion of highest recall at a false positive rate of at most ``budget``."""
    return lambda swept: np.where(swept.fp / swept.negative <= budget, swept.tp, -np.inf)


class OperatingPoint(NamedTuple):
    """The rates of the rule "positive if score >= threshold".

    Parameters
    ----------
    threshold
        The threshold.
    tpr, fpr
        True and false positive rates.
    precision
        Precision; nan if no row is at or above the threshold.
    """

    threshold: float
    tpr: float
    fpr: float
    precision: float


def best_threshold(swept: Sweep, criterion: Criterion) -> OperatingPoint:
    """The threshold with the greatest value of a criterion; among equals the highest threshold.

    It is a threshold of the sweep: a score, or +inf, above which there are no rows.
    """
    i = int(np.argmax(criterion(swept)))
    tp, fp = swept.tp[i], swept.fp[i]
    rates = (tp / swept.positive, fp / swept.negative, tp / (tp + fp) if tp + fp else np.nan)
    return OperatingPoint(float(swept.threshold[i]), *map(float, rates))
