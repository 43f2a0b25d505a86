"""Whether integers are codes: labels that depend on single values more than on nearby ones."""

from __future__ import annotations

import numpy as np

from spark_auc.core.types import Float
from spark_auc.features.column_auc import ColumnCounts

# Values on each side with which a value is compared.
_NEARBY = 5
# Most that one value adds: a number may have a few special values.
_MOST = 10.0
# Standard errors from which integers are codes, which 3 of 2,000 made-up columns of numbers exceed;
# and rows of a value, on average.
_ERRORS, _ROWS = 2.5, 2
# Below the second number of standard errors, the excess must be the first share of the rows: the
# many special values of counts in click logs exceed noise, but are no codes.
_SHARE, _SURE = 0.005, 10.0


def are_codes(counts: ColumnCounts) -> bool:
    """Whether the values of a column of integers are codes.

    Parameters
    ----------
    counts
        The values in the rows of both classes. Where not all are kept, those of the sample are
        compared with each other.
    """
    if _ROWS * counts.both.distinct > counts.both.rows:
        return False
    total, errors = excess(counts)
    return errors > _ERRORS and (total > _SHARE * counts.both.counts.sum() or errors > _SURE)


def excess(counts: ColumnCounts) -> tuple[float, float]:
    """How much rates of positive rows differ between nearby values.

    The rate of each value of two rows or more is compared with that of the five values below and
    above it. Of ``n`` rows at the value and ``m`` nearby, the difference has the variance
    ``q (1 - q) (1/n + 1/m)`` where the label depends on the order of the values alone and is smooth
    in it. The excess is the sum of the squared differences, in units of their variances and at most
    10 each, less their number.

    Returns
    -------
    total
        The excess.
    errors
        The same in standard deviations of this sum.
    """
    values = counts.both.values
    p, q = (of.counts.rows_of(values) for of in (counts.positive, counts.negative))
    n = p + q
    rows, positive = _nearby(n), _nearby(p)
    used = (n >= 2) & (rows > 0)
    if not used.any():
        return 0.0, 0.0
    n, p, rows, positive = (each[used] for each in (n, p, rows, positive))
    # Two rows at the rate of all rows keep rates from 0 and 1.
    prior = 2.0 * counts.positive.rows / counts.rows
    rate = (p + positive + prior) / (n + rows + 2.0)
    spread, size = rate * (1.0 - rate), 1.0 / (1.0 / n + 1.0 / rows)
    squares = (p / n - positive / rows) ** 2 * size / spread
    # The fourth moment of a binomial share.
    variance = 2.0 + (1.0 - 6.0 * spread) / (spread * size)
    total = float((np.minimum(squares, _MOST) - 1.0).sum())
    return total, total / float(np.sqrt(variance.sum()))


def _nearby(sums: Float) -> Float:
    """Sums ``(v,)`` over the values below and above each one."""
    total = np.concatenate([[0.0], np.cumsum(sums)])
    places = np.arange(sums.size)
    last = np.minimum(places + _NEARBY + 1, sums.size)
    return np.asarray(total[last] - total[np.maximum(places - _NEARBY, 0)] - sums)
