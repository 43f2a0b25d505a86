"""What the comparators share: scores, the checks of rows and of settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.accumulator import Rows
from spark_auc.errors import ConfigError, ConvergenceError
from spark_auc.online.learner import Bool, Float, Stored, entries, unweighted

Int32 = NDArray[np.int32]


@dataclass(eq=False)
class Linear(Stored):
    """A learner of scores ``X w``, from ``w = 0``.

    Parameters
    ----------
    dimension
        Number of features ``d``.

    Attributes
    ----------
    w : (d,)
        Weights after the rows so far.
    """

    w: Float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.w = np.zeros(self.dimension)

    def learn(self, X: Rows, y: Bool, weight: Float | None = None) -> None:
        """Take rows ``(n, d)``, dense or CSR, in their order; ``y`` ``(n,)`` are positive.

        Raises
        ------
        DataError
            The rows are of another dimension.
        ConfigError
            Row weights are given.
        ConvergenceError
            The steps were so long that ``w`` is no longer finite; the learner is of no more use.
        """
        name = type(self).__name__
        unweighted(weight, name)
        self._take(*entries(X, self.dimension), np.asarray(y, np.bool_))
        if not np.isfinite(self.w).all():
            raise ConvergenceError(
                f"found weights of {name} that are not finite, expected finite ones; scale the "
                "features or set a smaller step"
            )

    def score(self, X: Rows) -> Float:
        """Scores ``(n,)`` of rows ``(n, d)``; `DataError` if of another dimension."""
        entries(X[:0], self.dimension)
        return np.asarray(X @ self.w)

    def _take(self, values: Float, indices: Int32, starts: Int32, y: Bool) -> None:
        raise NotImplementedError


def positive(**settings: float) -> None:
    """Refuse settings that are not finite numbers above 0; `ConfigError`."""
    for name, value in settings.items():
        if not 0 < value < math.inf:
            raise ConfigError(f"found {name} = {value!r}, expected it above 0; set {name} so")


def not_negative(**settings: float) -> None:
    """Refuse settings that are not finite numbers from 0; `ConfigError`."""
    for name, value in settings.items():
        if not 0 <= value < math.inf:
            raise ConfigError(f"found {name} = {value!r}, expected 0 or above; set {name} so")


def whole(least: int, **settings: int) -> None:
    """Refuse settings that are not whole numbers of 63 bits from ``least``; `ConfigError`."""
    for name, value in settings.items():
        if value != int(value) or not least <= value < 2**63:
            raise ConfigError(
                f"found {name} = {value!r}, expected a whole number from {least}; set {name} so"
            )
