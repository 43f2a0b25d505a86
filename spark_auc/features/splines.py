"""Linear B-splines of each column, which make a linear model additive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import FINITE, not_csr
from spark_auc.core.state.schema import Fields, Values, array, reals
from spark_auc.core.types import Float, Int, Integer, Rows
from spark_auc.errors import ConfigError
from spark_auc.features.embedding import Stored, check_columns


def not_increasing(values: Values) -> str | None:
    """The fault of ``knots`` and ``starts`` of columns; None if the knots of each increase."""
    knots, starts = values["knots"], values["starts"]
    if fault := not_csr(np.zeros(knots.size, np.int64), starts, starts.size - 1, 1):
        return fault
    is_step = knots[1:] > knots[:-1]
    # The last knot of a column and the first of the next are not a step.
    is_step[starts[(starts > 0) & (starts < knots.size)] - 1] = True
    return None if is_step.all() else "the knots of a column do not increase"


@dataclass(frozen=True, eq=False)
class Splines(Stored):
    """Linear B-splines ("hats") of raw numeric columns, and indicators of missing values [1]_.

    The hat of a knot is 1 at the knot, falls linearly to 0 at the neighbouring knots, and is 0
    beyond them. At most two hats are nonzero at a value, and they sum to 1. A linear model of the
    hats is a continuous piecewise linear function of each column, whatever the column's unit.

    Column ``j`` with ``k_j`` knots becomes ``k_j + 1`` features: its hats, and an indicator that
    is 1 for a missing value (NaN), where all hats are 0. Every column has an indicator, so that
    ``F`` does not depend on missing values among the rows that defined the knots.

    Values beyond the outer knots, infinite values included, are clipped to the outer knot. A
    linear extrapolation would be unbounded, and a few rows of a heavy-tailed column would dominate.

    A column with one knot has one hat, which is 1 everywhere. A column without knots (all its
    values were missing) has only the indicator.

    Use knots that are values of the column: those of a column with few values are then its values.
    The constructor is `of_knots`.

    Parameters
    ----------
    knots : (K,)
        The knots of all columns, one column after another, in units of the columns.
    starts : (d + 1,)
        The knots of column ``j`` are ``knots[starts[j]:starts[j + 1]]``.

    References
    ----------
    .. [1] C. de Boor. A Practical Guide to Splines. Springer, 1978. Chapter IX.
    """

    FIELDS: ClassVar[Fields] = {
        "knots": reals("K", rule=FINITE),
        "starts": array("<i8", "d+1"),
    }
    RELATIONS = (not_increasing,)

    knots: Float
    starts: Int

    @classmethod
    def of_knots(cls, columns: Sequence[ArrayLike]) -> Self:
        """The splines of ``d`` columns from their increasing knots.

        Raises
        ------
        ConfigError
            The knots of a column do not increase or are not finite.
        """
        arrays = [np.asarray(column, float).ravel() for column in columns]
        for j, knots in enumerate(arrays):
            if not (np.isfinite(knots).all() and (knots[1:] > knots[:-1]).all()):
                raise ConfigError(
                    f"found knots {knots.tolist()} in column {j}, expected finite, increasing "
                    "knots; sort them and remove duplicates"
                )
        starts = np.cumsum([0, *(a.size for a in arrays)], dtype=np.int64)
        return cls(np.concatenate([np.empty(0), *arrays]), starts)

    @property
    def input_dimension(self) -> int:
        """Number of columns ``d``."""
        return self.starts.size - 1

    @property
    def dimension(self) -> int:
        """Number of features ``F``: the number of knots plus one per column."""
        return self.knots.size + self.input_dimension

    @property
    def takes_missing(self) -> bool:
        """See `Embedding.takes_missing`."""
        return True

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Names ``column~knot`` of the hats, and ``column missing`` of the indicators."""
        names: list[str] = []
        for j, name in enumerate(columns):
            knots = self.knots[self.starts[j] : self.starts[j + 1]]
            names += [*(f"{name}~{knot:g}" for knot in knots), f"{name} missing"]
        return tuple(names)

    def transform(self, X: Rows) -> sparse.csr_matrix:
        """Map rows to CSR ``(n, F)``, ``2 d`` entries a row at most; see `Embedding.transform`."""
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


@compiled()
def hat(x: float, knots: Float, first: Integer, last: Integer) -> tuple[Integer, float]:
    """The hats of a value among the knots ``first`` to ``last``, of which there is at least one.

    Returns
    -------
    int
        The knot ``k`` at or below the value, or the outer knot of a value beyond it.
    float
        The hat of knot ``k + 1``. The hat of knot ``k`` is 1 minus this.
    """
    if x <= knots[first]:
        return first, 0.0
    if x >= knots[last]:
        return last, 0.0
    low, high = first, last
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= x:
            low = middle
        else:
            high = middle
    step = knots[high] - knots[low]
    if np.isinf(step):
        return low, (x / 2 - knots[low] / 2) / (knots[high] / 2 - knots[low] / 2)
    return low, (x - knots[low]) / step


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
            # Each preceding column has added its indicator.
            if np.isnan(x):
                indices[stored], data[stored] = last + 1 + j, 1.0
                stored += 1
            elif first <= last:
                low, share = hat(x, knots, first, last)
                if share < 1.0:
                    indices[stored], data[stored] = low + j, 1.0 - share
                    stored += 1
                if share > 0.0:
                    indices[stored], data[stored] = low + 1 + j, share
                    stored += 1
        indptr[i + 1] = stored
