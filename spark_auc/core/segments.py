"""Scores of rows by the ranker of their segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.products import settled_scores
from spark_auc.core.types import Float, Rows


@dataclass(frozen=True, eq=False)
class SegmentWeights:
    """A weight vector and an intercept for each segment, and for the rows of no segment.

    Parameters
    ----------
    values
        The ``S`` segments.
    W : (S + 1, d)
        Weights for raw feature values; the last are those of rows of no segment.
    intercept : (S + 1,)
        Intercepts, in the same order.
    """

    values: tuple[str, ...]
    W: Float
    intercept: Float

    def scores(self, X: Rows, number: NDArray[np.int64]) -> Float:
        """Scores ``W[s]'x + intercept[s]`` ``(n,)``, a function of the row and its segment alone.

        Parameters
        ----------
        X : (n, d), dense or CSR
            Features.
        number : (n,)
            Number ``s`` of each row's segment; ``S`` for none.
        """
        out = np.empty(number.size)
        for segment in np.unique(number):
            rows = np.flatnonzero(number == segment)
            out[rows] = settled_scores(X[rows], self.W[segment]) + self.intercept[segment]
        return out
