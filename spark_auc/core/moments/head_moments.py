"""Moments of many features: exact ones of a head of columns, and the diagonal of all others.

``Sigma = blockdiag(C_HH, diag(C_TT)) + delta delta'`` is positive semidefinite, merges and takes
one pass. Where the largest columns hold most of the trace, its solution ranks nearly as well as
that of all pairs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch
from spark_auc.core.moments.accumulator import PairAccumulator
from spark_auc.core.moments.column_moments import ColumnAccumulator, ColumnMoments
from spark_auc.core.moments.column_sums import UNIT
from spark_auc.core.moments.objective import Matrix, Quadratic, difference_rounding
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.state.rules import INCREASING
from spark_auc.core.state.schema import Part, Schema, Values, array
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float

_log = logging.getLogger(__name__)

# Rounded operations that make the variance of a column of the tail.
_OPERATIONS = 8


def _consistent(values: Values) -> str | None:
    head, moments, columns = values["head"], values["moments"], values["columns"]
    d = columns.mean.shape[1]
    if moments.dimension != head.size or (head.size and not 0 <= head[0] <= head[-1] < d):
        return f"its head of {moments.dimension} features is not of its {d} columns"
    return None


@dataclass(frozen=True, eq=False)
class HeadMoments(SchemaState):
    """Pair moments of the head, and column moments of all columns.

    Parameters
    ----------
    head : (h,)
        Numbers of the columns of the head, ascending.
    moments
        Pair moments of these columns.
    columns
        Column moments of all ``d`` columns.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "HeadMoments",
        1,
        {
            "head": array("<i8", "h", rule=INCREASING),
            "moments": Part(PairMoments),
            "columns": Part(ColumnMoments),
        },
        _consistent,
    )

    head: NDArray[np.int64]
    moments: PairMoments
    columns: ColumnMoments

    def merge(self, other: HeadMoments) -> HeadMoments:
        """The moments of both sets of rows; of different heads, the columns of both are kept.

        Raises
        ------
        DataError
            The numbers of columns differ.
        """
        mine, theirs = self, other
        if not np.array_equal(self.head, other.head):
            common = np.intersect1d(self.head, other.head)
            _log.info(
                "merging heads of %d and %d columns: the state keeps the %d columns of both",
                *(self.head.size, other.head.size, common.size),
            )
            mine, theirs = self.of_head(common), other.of_head(common)
        return HeadMoments(
            mine.head, mine.moments.merge(theirs.moments), mine.columns.merge(theirs.columns)
        )

    def of_head(self, head: NDArray[np.int64]) -> HeadMoments:
        """The moments with a part of the head ``(k,)``."""
        moments = self.moments.of_columns(np.searchsorted(self.head, head))
        return replace(self, head=head, moments=moments)

    def scale(self, factor: float) -> HeadMoments:
        """The moments with every weight multiplied by ``factor`` > 0 (forgetting)."""
        return HeadMoments(self.head, self.moments.scale(factor), self.columns.scale(factor))

    @staticmethod
    def nbytes(dimension: int, size: int) -> int:
        """Size in bytes of a state of ``dimension`` columns with a head of ``size``."""
        return PairMoments.nbytes(min(size, dimension)) + 6 * 8 * dimension

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""
        return int(self.columns.mean.shape[1])

    def along(self, w: Float) -> ColumnMoments:
        """Moments of one column, the scores ``X w`` for weights ``w`` ``(d,)``.

        The means are exact. The variances lack the covariances outside the head.
        """
        exact, tail = self.moments.along(w[self.head]), w**2
        tail[self.head] = 0.0
        scatter = exact.scatter + (self.columns.scatter @ tail)[:, None]
        return replace(exact, mean=(self.columns.mean @ w)[:, None], scatter=scatter)

    def divisors(self) -> Float:
        """Divisors ``(d,)`` of columns: the deviation, and at least the median one of the head.

        With unit variances for all columns the head would hold next to nothing of the trace.
        """
        deviation = self.columns.standard_deviation()
        return np.maximum(deviation, np.median(deviation[self.head]) if self.head.size else 0.0)

    def quadratic(self, scale: Float | None = None) -> Quadratic:
        """The quadratic without covariances outside the head; see `PairMoments.quadratic`."""
        inverse = self.columns.inverse(scale)
        exact = self.moments.quadratic(None if scale is None else scale[self.head])
        mu, variance = self.columns.delta * inverse, self.columns.variance.sum(axis=0) * inverse**2
        mu[self.head], variance[self.head] = exact.mu, 0.0
        Sigma = HeadMatrix(self.head, exact.Sigma, variance, mu)
        diagonal = Sigma.diagonal()
        lost = self.columns.variance_rounding().sum(axis=0) * inverse**2
        blur = np.divide(lost, diagonal, out=np.zeros_like(lost), where=diagonal > 0)
        blur[diagonal > 0] += _OPERATIONS * UNIT
        if exact.blur is not None:
            blur[self.head] = exact.blur
        tail = np.delete(np.arange(mu.size), self.head)
        tail_rounding = difference_rounding(
            self.columns.mean[:, tail] * inverse[tail], diagonal[tail]
        )
        return Quadratic(Sigma, mu, max(exact.mu_rounding, tail_rounding), blur)

    def facts(self, scale: Float | None) -> dict[str, float]:
        """Size of the head, and its share of the trace of columns divided by ``scale`` ``(d,)``."""
        trace = self.columns.squares
        trace *= self.columns.inverse(scale) ** 2
        share = float(trace[self.head].sum() / (trace.sum() or 1.0))
        return {"headSize": self.head.size, "exactTraceShare": share}


class HeadAccumulator:
    """Adds up the moments of batches with ``dimension`` columns."""

    def __init__(self, dimension: int, head: NDArray[np.int64]) -> None:
        self.head, self.columns = head, ColumnAccumulator(dimension)
        self.pairs = PairAccumulator(head.size)

    def add(self, batch: Batch) -> None:
        """Add a batch; raises `DataError` unless it has ``dimension`` columns."""
        self.columns.add(batch)
        self.pairs.add(batch.X[:, self.head], batch.y, batch.weight)

    def finish(self) -> HeadMoments:
        """The moments of all batches."""
        moments = PairMoments.of_parts(dict(self.pairs.parts()), self.head.size)
        return HeadMoments(self.head, moments, self.columns.finish())


class HeadMatrix(NamedTuple):
    """``blockdiag(C_HH, diag(v)) + mu mu'``; a `spark_auc.core.moments.objective.Matrix`.

    Parameters
    ----------
    head : (h,)
        Numbers of the columns of the head.
    exact : (h, h)
        ``C_HH + mu_H mu_H'``.
    variance : (d,)
        ``v``; 0 in the head.
    mu : (d,)
        Mean of the differences.
    """

    head: NDArray[np.int64]
    exact: Matrix
    variance: Float
    mu: Float

    @property
    def dimension(self) -> int:
        """``d``."""
        return self.mu.size

    def matvec(self, vector: Float) -> Float:
        """Product with a vector ``(d,)``."""
        product = self.exact.matvec(vector[self.head])
        return self._product(vector[:, None], product[:, None])[:, 0]

    def matmat(self, vectors: Float) -> Float:
        """Products ``(d, k)`` with the columns of ``vectors`` ``(d, k)``."""
        return self._product(vectors, self.exact.matmat(vectors[self.head]))

    def _product(self, vectors: Float, of_head: Float) -> Float:
        along_head = self.mu[self.head] @ vectors[self.head]
        along = self.mu @ vectors
        out = self.variance[:, None] * vectors + np.multiply.outer(self.mu, along)
        out[self.head] = of_head + np.multiply.outer(self.mu[self.head], along - along_head)
        return np.asarray(out)

    def diagonal(self) -> Float:
        """The diagonal ``(d,)``."""
        diagonal = self.variance + self.mu**2
        diagonal[self.head] = self.exact.diagonal()
        return diagonal

    def restricted(self, features: NDArray[np.int64]) -> SymmetricTiles:
        """The matrix ``(k, k)`` between ``k`` features in ascending order."""
        mu, variance = self.mu[features], self.variance[features]
        matrix = np.outer(mu, mu) + np.diag(variance)
        inside = np.flatnonzero(np.isin(features, self.head))
        places = np.searchsorted(self.head, features[inside])
        matrix[np.ix_(inside, inside)] = self.exact.restricted(places).toarray()
        return SymmetricTiles.of(matrix)


def largest_columns(columns: ColumnMoments, size: int) -> NDArray[np.int64]:
    """The columns ``(h,)`` with the largest second moments of both classes, in ascending order.

    Ties go to the lower number. Columns of zeros are left out.
    """
    second = (columns.scatter + columns.weight[:, None] * columns.mean**2).sum(axis=0)
    order = np.argsort(-second, kind="stable")[:size]
    return np.sort(order[second[order] > 0])
