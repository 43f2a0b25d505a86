"""How well scores that claim to be probabilities are, read off a `ScoreTable`."""

from __future__ import annotations

from typing import Literal

import numpy as np

from spark_auc.core.evaluation.score_table import FloatArray, ScoreTable
from spark_auc.errors import ConfigError, DataError


def _probabilities(table: ScoreTable) -> FloatArray:
    outside = np.count_nonzero((table.score < 0) | (table.score > 1))
    if outside or not table.score.size:
        raise DataError(
            f"found {outside} of {table.score.size} distinct scores outside [0, 1]; expected at "
            "least one row, and probabilities: map the scores to probabilities first"
        )
    return table.score


def total_log_loss(table: ScoreTable) -> float:
    """Sum of the weighted negative log likelihoods (nats) of a table, or of a range of one.

    Clipped to [eps, 1 - eps], eps = 2^-52, as scikit-learn does: a certain error costs 36 nats.
    """
    eps = np.finfo(np.float64).eps
    p = np.clip(_probabilities(table), eps, 1 - eps)
    positive, negative = table.weight
    return float(-(positive @ np.log(p) + negative @ np.log1p(-p)))


def log_loss(table: ScoreTable) -> float:
    """Mean negative log likelihood (nats) of scores that are probabilities; see above."""
    return total_log_loss(table) / float(table.class_sums()[0].sum())


def reliability_sums(
    table: ScoreTable, bins: int = 10, width: Literal["count", "score"] = "count"
) -> FloatArray:
    """Return (3, bins): the sums of probability, of positive weight and of weight in each bin.

    The bins have equal weight ("count", as far as ties allow: a score is never split) or equal
    width in probability ("score": [0, 1/bins), ... with 1 in the last). Of a range, its share.
    """
    if bins < 1:
        raise ConfigError(f"found bins = {bins}; expected 1 or more")
    p = _probabilities(table)
    weight = table.weight.sum(axis=0)
    below = table.below().sum(axis=0)
    position = p if width == "score" else (below + weight / 2) / table.class_sums()[0].sum()
    bin_of = np.minimum((position * bins).astype(np.intp), bins - 1)
    summed = (p * weight, table.weight[0], weight)
    return np.stack([np.bincount(bin_of, values, bins) for values in summed])


def reliability_of(sums: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (mean probability, positive share, weight) of each bin that is not empty."""
    predicted, observed, total = sums[:, sums[2] > 0]
    return predicted / total, observed / total, total


def reliability_curve(
    table: ScoreTable, bins: int = 10, width: Literal["count", "score"] = "count"
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the `reliability_of` the `reliability_sums` of a table."""
    return reliability_of(reliability_sums(table, bins, width))


def calibration_error(
    table: ScoreTable, bins: int = 10, width: Literal["count", "score"] = "count"
) -> float:
    """Return the weighted mean of |mean probability - positive share| over the reliability bins.

    The expected calibration error of Naeini et al. 2015.
    """
    return error_of(reliability_sums(table, bins, width))


def error_of(sums: FloatArray) -> float:
    """Return the calibration error of `reliability_sums`."""
    predicted, observed, weight = reliability_of(sums)
    return float(np.abs(predicted - observed) @ weight / weight.sum())
