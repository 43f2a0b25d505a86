"""The base class of the comparators: scores, and validation of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from spark_auc.core.state.schema import Fields, reals
from spark_auc.core.types import Bool, Float, Index, Rows
from spark_auc.errors import ConvergenceError
from spark_auc.learners.learner import Stored, entries, unweighted
from spark_auc.learners.linear import scores


@dataclass(eq=False)
class Linear(Stored):
    """A learner with scores ``X w``, starting from ``w = 0``.

    Parameters
    ----------
    dimension
        Number of features ``d``.

    Attributes
    ----------
    w : (d,)
        Weights after the learned rows.
    """

    FIELDS: ClassVar[Fields] = {"w": reals("d")}

    w: Float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.w = np.zeros(self.dimension)

    def learn(self, X: Rows, y: Bool, weight: Float | None = None) -> None:
        """Learn rows in sequence; see `spark_auc.learners.learner.Learner.learn`.

        Raises
        ------
        DataError
            The rows have another dimension.
        ConfigError
            There are row weights.
        ConvergenceError
            The steps are too long and ``w`` is not finite any more; discard the learner.
        """
        name = type(self).__name__
        unweighted(weight, name)
        self._take(*entries(X, self.dimension), np.asarray(y, np.bool_))
        if not np.isfinite(self.w).all():
            raise ConvergenceError(
                f"found weights of {name} that are not finite, expected finite weights; scale the "
                "features or reduce the step size"
            )

    def score(self, X: Rows) -> Float:
        """Scores ``(n,)`` of rows ``(n, d)``; `DataError` if they have another dimension."""
        return scores(X, self.w)

    def _take(self, values: Float, indices: Index, starts: Index, y: Bool) -> None:
        raise NotImplementedError
