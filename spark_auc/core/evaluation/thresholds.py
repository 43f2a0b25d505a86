"""Choosing a threshold: criteria over what thresholds do, and the best point by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from spark_auc.core.evaluation.roc import Sweep
from spark_auc.core.evaluation.score_table import FloatArray

Criterion = Callable[[Sweep], FloatArray]
"""Value, to be maximised, of each threshold of a sweep."""


def f1(swept: Sweep) -> FloatArray:
    """Harmonic mean of precision and recall."""
    score: FloatArray = 2 * swept.tp / (swept.tp + swept.fp + swept.positive)
    return score


def class_ratio(swept: Sweep) -> FloatArray:
    """Call as much weight positive as is positive."""
    excess: FloatArray = np.abs(swept.tp + swept.fp - swept.positive)
    return -excess


def cost_ratio(ratio: float) -> Criterion:
    """Least total cost, a false negative costing `ratio` times a false positive."""
    return lambda swept: ratio * swept.tp - swept.fp


def fpr_budget(budget: float) -> Criterion:
    """Highest recall at a false positive rate of at most `budget`."""
    return lambda swept: np.where(swept.fp / swept.negative <= budget, swept.tp, -np.inf)


class OperatingPoint(NamedTuple):
    """A rule "positive if score >= threshold" and what it does; precision is nan if none is."""

    threshold: float
    tpr: float
    fpr: float
    precision: float


def best_threshold(swept: Sweep, criterion: Criterion) -> OperatingPoint:
    """Return the threshold of the greatest value of `criterion`, the strictest among equals.

    It is one of the sweep's: a score, or +inf (call nothing positive).
    """
    i = int(np.argmax(criterion(swept)))
    tp, fp = swept.tp[i], swept.fp[i]
    rates = (tp / swept.positive, fp / swept.negative, tp / (tp + fp) if tp + fp else np.nan)
    return OperatingPoint(float(swept.threshold[i]), *map(float, rates))
