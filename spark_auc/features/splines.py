"""Piecewise linear functions of each column: a linear model of them is additive, not linear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import FINITE, not_csr
from spark_auc.core.state.schema import Fields, Values, array, reals
from spark_auc.core.types import Float, Int, Rows
from spark_auc.core.validation import check_whole
from spark_auc.errors import ConfigError
from spark_auc.features.embedding import Stored, check_columns


def _apart(values: Values) -> str | None:
    knots, starts = values["knots"], values["starts"]
    if wrong := not_csr(np.zeros(knots.size, np.int64), starts, starts.size - 1, 1):
        return wrong
    with np.errstate(over="ignore"):
        steps = np.diff(knots)
    # From the last knot of one column to the first of the next one is no step.
    steps[starts[(starts > 0) & (starts < knots.size)] - 1] = 1.0
    increase = (steps > 0).all() and np.isfinite(steps).all()
    return None if increase else "the knots of a column do not increase"


@dataclass(frozen=True, eq=False)
class Splines(Stored):
    """Linear B-splines ("hats") of raw numeric columns, and whether each value is missing.

    The hat of a knot is 1 there, falls linearly to 0 at the knots beside it, and is 0 beyond
    them: a value lies under at most two hats, whose values sum to 1. A linear model of them is a
    continuous piecewise linear function of each column, and indifferent to what unit it has.

    Column ``j`` of ``k_j`` knots becomes ``k_j + 1`` features: its hats, then 1 where the value
    is missing (NaN; the hats are 0 there). The last is there for every column, so that ``F``
    does not depend on whether rows that knots were taken from missed any.

    Beyond the outer knots, infinite values included, a value counts as the outer knot: a straight
    line goes on without bound, and in columns with heavy tails one row would outweigh the rest.

    One knot gives one hat, which is 1 everywhere: such a column tells only whether it is missing.
    Without knots (a column never seen but missing), a value that is present gives no entry.

    The constructor is `of_knots`, or `of_quantiles`.

    Parameters
    ----------
    knots : (K,)
        The knots of all columns, one column after another.
    starts : (d + 1,)
        Those of column ``j`` are ``knots[starts[j]:starts[j + 1]]``.

    References
    ----------
    .. [1] C. de Boor. A Practical Guide to Splines. Springer, 1978. Chapter IX.
    """

    FIELDS: ClassVar[Fields] = {
        "knots": reals("K", rule=FINITE),
        "starts": array("<i8", "d+1"),
    }
    RELATIONS = (_apart,)

    knots: Float
    starts: Int

    @classmethod
    def of_knots(cls, columns: Sequence[ArrayLike]) -> Self:
        """Hats at given knots, increasing, of each of ``d`` columns.

        Raises
        ------
        ConfigError
            The knots of a column do not increase, are not finite, or lie further apart than the
            largest number.
        """
        arrays = [np.asarray(column, float).ravel() for column in columns]
        for j, knots in enumerate(arrays):
            with np.errstate(over="ignore", invalid="ignore"):
                steps = np.diff(knots)
            if not (np.isfinite(knots).all() and (steps > 0).all() and np.isfinite(steps).all()):
                raise ConfigError(
                    f"found knots {knots.tolist()} in column {j}, expected finite, increasing "
                    "ones; sort them, each value once"
                )
        starts = np.cumsum([0, *(a.size for a in arrays)], dtype=np.int64)
        return cls(np.concatenate([np.empty(0), *arrays]), starts)

    @classmethod
    def of_quantiles(cls, columns: Iterable[ArrayLike]) -> Self:
        """Hats at quantiles of each of ``d`` columns, those at `probabilities` for one.

        Equal quantiles, as of a column of few values, are one knot; those that are not finite
        are none.
        """
        unique = [np.unique(np.asarray(column, float)) for column in columns]
        return cls.of_knots([knots[np.isfinite(knots)] for knots in unique])

    @property
    def input_dimension(self) -> int:
        """Number of columns ``d``."""
        return self.starts.size - 1

    @property
    def dimension(self) -> int:
        """Number of features ``F``: that of knots, and one a column."""
        return self.knots.size + self.input_dimension

    @property
    def takes_missing(self) -> bool:
        """See `Embedding.takes_missing`."""
        return True

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        """A column's name with the knot of each of its hats, and with "missing"."""
        made: list[str] = []
        for j, name in enumerate(columns):
            knots = self.knots[self.starts[j] : self.starts[j + 1]]
            made += [*(f"{name}~{knot:g}" for knot in knots), f"{name} missing"]
        return tuple(made)

    def transform(self, X: Rows) -> sparse.csr_matrix:
        """Map rows ``(n, d)`` to CSR ``(n, F)`` of at most ``2 d`` entries a row.

        Raises
        ------
        DataError
            The rows are of another dimension.
        """
        check_columns(X, self.input_dimension)
        dense = np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), float)
        data = np.empty(2 * dense.size)
        indices = np.empty(data.size, np.int32)
        indptr = np.zeros(dense.shape[0] + 1, np.int64)
        _fill(dense, self.knots, self.starts, data, indices, indptr)
        stored = indptr[-1]
        return sparse.csr_matrix(
            (data[:stored], indices[:stored], indptr), (dense.shape[0], self.dimension)
        )


def probabilities(count: int = 12) -> Float:
    """At which quantiles ``count`` knots stand: from the least value to the greatest.

    Take for a quantile a value of the column, as Spark's approxQuantile and numpy's
    ``method="inverted_cdf"`` do: a column of few values then has those, and none between, as
    knots.

    Raises
    ------
    ConfigError
        ``count`` is not a whole number of at least 2.
    """
    check_whole("count", count, 2)
    return np.linspace(0.0, 1.0, int(count))


@compiled()
def _fill(
    X: Float,
    knots: Float,
    starts: Int,
    data: Float,
    indices: NDArray[np.int32],
    indptr: Int,
) -> None:
    stored = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            first, last = starts[j], starts[j + 1] - 1
            x = X[i, j]
            # Each column before this one has added its feature of missing values.
            if np.isnan(x):
                indices[stored], data[stored] = last + 1 + j, 1.0
                stored += 1
            elif last < first:
                continue
            elif x <= knots[first] or x >= knots[last]:
                indices[stored] = (first if x <= knots[first] else last) + j
                data[stored] = 1.0
                stored += 1
            else:
                low, high = first, last
                while high - low > 1:
                    middle = (low + high) // 2
                    if knots[middle] <= x:
                        low = middle
                    else:
                        high = middle
                share = (x - knots[low]) / (knots[high] - knots[low])
                if share < 1.0:
                    indices[stored], data[stored] = low + j, 1.0 - share
                    stored += 1
                if share > 0.0:
                    indices[stored], data[stored] = high + j, share
                    stored += 1
        indptr[i + 1] = stored
