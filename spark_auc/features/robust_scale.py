"""A scale for raw numeric columns of any unit and with any tails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.special import ndtri

from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import FINITE
from spark_auc.core.state.schema import Fields, array, reals
from spark_auc.core.types import Float, Int, Rows
from spark_auc.features.embedding import Stored, check_columns
from spark_auc.features.knots import knots_of
from spark_auc.features.splines import hat, not_increasing

# The kurtosis above which tails are heavy; that of an exponential distribution is 9.
_HEAVY = 10.0
# Quantiles of a column with heavy tails.
_KNOTS = 64


@dataclass(frozen=True, eq=False)
class RobustScale(Stored):
    """Each column with mean 0 and variance 1, and without heavy tails.

    A column whose kurtosis is at most 10, or that has two values, is standardised. Others have
    heavy tails, and a few of their values would be most of the distances between rows. Such a value
    becomes the Gaussian quantile of the share of rows below it plus half of the share of rows that
    hold it [1]_, at 64 knots (see `spark_auc.features.recipe_fit.knots_of`) and linear between
    them, which is then standardised. This depends on the order of the values only, up to the
    interpolation.

    Values beyond those of the fit, infinite values included, are clipped to these. A missing value
    (NaN) becomes 0, the mean. A constant column becomes 0.

    The constructor is `of`.

    Parameters
    ----------
    knots, heights : (K,)
        The knots of all columns, one column after another, and the scaled values at the knots.
    starts : (d + 1,)
        The knots of column ``j`` are ``knots[starts[j]:starts[j + 1]]``.

    References
    ----------
    .. [1] B. L. van der Waerden. Order Tests for the Two-Sample Problem and Their Power.
       Indagationes Mathematicae 14, 1952.
    """

    FIELDS: ClassVar[Fields] = {
        "knots": reals("K", rule=FINITE),
        "heights": reals("K", rule=FINITE),
        "starts": array("<i8", "d+1"),
    }
    RELATIONS = (not_increasing,)

    knots: Float
    heights: Float
    starts: Int

    @classmethod
    def of(cls, columns: Iterable[tuple[Float, Float]]) -> Self:
        """The scale of ``d`` columns.

        Parameters
        ----------
        columns
            Distinct values of each column, ascending, and their numbers of rows; see
            `spark_auc.features.value_counts.ValueCounts.weighted`.
        """
        parts = [_column(values, weights) for values, weights in columns]
        starts = np.cumsum([0, *(knots.size for knots, _ in parts)], dtype=np.int64)
        knots, heights = (
            np.concatenate([np.empty(0), *(part[k] for part in parts)]) for k in range(2)
        )
        return cls(knots, heights, starts)

    @property
    def input_dimension(self) -> int:
        """Number of columns ``d``."""
        return self.starts.size - 1

    @property
    def dimension(self) -> int:
        """Number of features ``F = d``."""
        return self.input_dimension

    @property
    def takes_missing(self) -> bool:
        """See `Embedding.takes_missing`."""
        return True

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(columns)

    def varies(self) -> Float:
        """1.0 for each column ``(d,)`` that varies, which has variance 1 after scaling; else 0."""
        ends = zip(self.starts[:-1], self.starts[1:], strict=True)
        return np.array([float(self.heights[a:b].any()) for a, b in ends])

    def transform(self, X: Rows) -> Float:
        """Map rows ``(n, d)`` to dense ``(n, d)``; see `Embedding.transform`."""
        check_columns(X, self.input_dimension)
        dense = np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), float)
        out = np.empty(dense.shape)
        _fill(dense, self.knots, self.heights, self.starts, out)
        return out


def _column(values: Float, weights: Float) -> tuple[Float, Float]:
    """Knots of a column, and the scaled values at the knots."""
    if values.size < 2:
        return values, np.zeros(values.size)
    shares, ends = weights / weights.sum(), values[[0, -1]]
    # Between 0 and 1, where powers do not overflow.
    units = _interpolated(values, ends, np.array([0.0, 1.0]))
    mean, deviation = _moments(units, shares)
    kurtosis = shares @ ((units - mean) / deviation) ** 4
    if kurtosis <= _HEAVY or values.size == 2:
        return ends, (np.array([0.0, 1.0]) - mean) / deviation
    knots = knots_of(values, weights, _KNOTS)
    middle = np.cumsum(shares) - shares / 2
    heights = ndtri(middle[np.searchsorted(values, knots)])
    mean, deviation = _moments(_interpolated(values, knots, heights), shares)
    return knots, (heights - mean) / deviation


def _moments(values: Float, shares: Float) -> tuple[float, float]:
    """Mean and standard deviation of values with shares of the rows."""
    mean = float(shares @ values)
    return mean, float(np.sqrt(shares @ (values - mean) ** 2))


def _interpolated(values: Float, knots: Float, heights: Float) -> Float:
    out = np.empty((values.size, 1))
    _fill(values[:, None], knots, heights, np.array([0, knots.size]), out)
    return out[:, 0]


@compiled()
def _fill(X: Float, knots: Float, heights: Float, starts: Int, out: Float) -> None:
    for j in range(X.shape[1]):
        first, last = starts[j], starts[j + 1] - 1
        for i in range(X.shape[0]):
            x = X[i, j]
            if np.isnan(x) or last < first:
                out[i, j] = 0.0
            else:
                low, share = hat(x, knots, first, last)
                out[i, j] = heights[low]
                if share > 0.0:
                    out[i, j] = (1.0 - share) * heights[low] + share * heights[low + 1]
