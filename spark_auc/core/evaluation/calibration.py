"""Calibration measures of scores that are probabilities, computed from a `ScoreTable`."""

from __future__ import annotations

import numpy as np

from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, DataError


def _probabilities(table: ScoreTable) -> Float:
    outside = np.count_nonzero((table.score < 0) | (table.score > 1))
    if outside or not table.score.size:
        raise DataError(
            f"found {outside} of {table.score.size} distinct scores outside [0, 1], expected at "
            "least one row, and probabilities; map the scores to probabilities first"
        )
    return table.score


def total_log_loss(table: ScoreTable) -> float:
    """Weighted sum of the log losses of a table, or of a range of a table, in nats.

    Probabilities are clipped to [eps, 1 - eps], eps = 2^-52, as in scikit-learn, so that the
    largest loss of a row is 36 nats.

    Raises
    ------
    DataError
        The table is empty, or a score is outside [0, 1].
    """
    eps = np.finfo(np.float64).eps
    p = np.clip(_probabilities(table), eps, 1 - eps)
    positive, negative = table.weight
    return float(-(positive @ np.log(p) + negative @ np.log1p(-p)))


def reliability_sums(table: ScoreTable, bins: int) -> Float:
    """Sums of probability, of positive weight and of weight in each bin, ``(3, bins)``.

    Bins are of equal weight, without splitting a score.

    Parameters
    ----------
    table
        The table, or a range of it, which gives the range's share of the sums.
    bins
        Number of bins.

    Raises
    ------
    ConfigError
        ``bins`` is less than 1.
    DataError
        The table is empty, or a score is outside [0, 1].
    """
    if bins < 1:
        raise ConfigError(f"found bins = {bins}, expected at least 1; set bins")
    p = _probabilities(table)
    weight = table.weight.sum(axis=0)
    below = table.below().sum(axis=0)
    position = (below + weight / 2) / table.class_sums()[0].sum()
    number = np.minimum((position * bins).astype(np.intp), bins - 1)
    terms = (p * weight, table.weight[0], weight)
    return np.stack([np.bincount(number, values, bins) for values in terms])


def reliability_of(sums: Float) -> tuple[Float, Float, Float]:
    """Mean probability, positive share and weight of each non-empty bin, each ``(b,)``."""
    predicted, observed, total = sums[:, sums[2] > 0]
    return predicted / total, observed / total, total


def error_of(sums: Float) -> float:
    """Expected calibration error (Naeini et al. 2015), in [0, 1].

    The weighted mean of |mean probability - positive share| over the bins of `reliability_sums`.
    """
    predicted, observed, weight = reliability_of(sums)
    return float(np.abs(predicted - observed) @ weight / weight.sum())
