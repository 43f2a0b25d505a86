"""The all-pairs squared hinge loss, its gradient and its Hessian, without forming pairs.

The objective is ``F(w) = l2/2 |w|^2 + 1/2 E[max(0, 1 - w'(x_+ - x_-))^2]``, with ``E`` the weighted
mean over all pairs of a positive and a negative row (Khalid et al., Eq. 3 and 5, by PRSVM+ of
Chapelle and Keerthi). It is ``l2`` times the papers' objective for ``C = 1 / (2 l2 W_+ W_-)``, with
``W_k`` the total weight of a class; for rows of weight 1, ``W_+ W_-`` is the number of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.hinge.margins import Margins, loss_gradient, loss_hessian_product
from spark_auc.core.hinge.row_scores import RowScores, signed
from spark_auc.core.kernels import compiled, sparse_entries
from spark_auc.core.moments.accumulator import Accumulator
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.objective import difference_rounding
from spark_auc.core.moments.operator import offsets
from spark_auc.core.moments.pair_products import VectorSum
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.row_source import Folding, State
from spark_auc.core.types import Float, Index
from spark_auc.errors import ConfigError, DataError

# Bins of scores of a Hessian at rounded margins.
_BINS = 256


@dataclass(frozen=True, eq=False)
class PairHinge:
    """The objective ``l2/2 |w|^2 + 1/2 E[max(0, 1 - w'(x_+ - x_-))^2]``, by passes over the rows.

    Parameters
    ----------
    rows
        The rows.
    columns
        Column moments of the rows.
    l2
        Factor of the penalty, >= 0, in squared feature units.
    scale : (d,), optional
        Divisors of the columns. Default: 1.

    Raises
    ------
    ConfigError
        ``l2`` is negative.
    DataError
        A class has no rows.
    """

    rows: Folding
    columns: ColumnMoments
    l2: float
    scale: Float | None = None

    def __post_init__(self) -> None:
        if not self.l2 >= 0:
            raise ConfigError(
                f"found the penalty factor {self.l2}, expected >= 0; use regParam >= 0"
            )
        positive, negative = map(int, self.columns.rows)
        if not (positive and negative):
            raise DataError(
                f"found {positive} positive and {negative} negative rows, expected both classes; "
                "check the label column and the positive label"
            )

    @property
    def mu(self) -> Float:
        """Mean difference ``(d,)`` of all pairs: the negative gradient at ``w = 0``."""
        return self._scaled(self.columns.delta)

    def diagonal(self) -> Float:
        """Diagonal ``(d,)`` of the Hessian at ``w = 0``, where every pair violates the margin."""
        squares = self.columns.variance.sum(axis=0) + self.columns.delta**2
        diagonal: Float = self._scaled(self._scaled(squares)) + self.l2
        return diagonal

    @cached_property
    def units(self) -> Float:
        """The unit of each coordinate of the gradient ``(d,)``; see `Quadratic.units`."""
        diagonal = self.diagonal()
        return np.sqrt(np.where(diagonal > 0, diagonal, 1.0))

    @cached_property
    def mu_rounding(self) -> float:
        """Bound on the rounding error of the gradient, in its units; see `difference_rounding`."""
        return difference_rounding(self._scaled(self.columns.mean), self.diagonal() - self.l2)

    def scores(self, *vectors: Float) -> RowScores:
        """Signed scores of all rows minus `offsets`, by vectors ``(d,)``; one pass."""
        raw = np.stack([self._scaled(v) for v in vectors])
        offset = np.array([[float(v @ self._origin)] for v in raw])

        def score(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            parts = [RowScores.of(batch, raw) for batch in batches]
            scores = RowScores.union([RowScores.zero(len(raw)), *parts])
            scores.positive[1:] += offset
            scores.negative[1:] -= offset
            yield "scores", scores

        count = int(self.columns.rows.sum())
        result = self.rows.fold(
            score,
            (RowScores,),
            state_bytes=8 * (len(raw) + 1) * count + 1024,
            what=f"{len(raw)} scores of {count} rows",
        )
        return cast(RowScores, result["scores"])

    def value(self, w: Float, margins: Margins) -> float:
        """``F(w)``, from the margins by ``w`` ``(d,)``."""
        return self.l2 / 2 * float(w @ w) + margins.loss() / self._pairs

    def slope(self, w: Float, direction: Float, margins: Margins, vector: int) -> float:
        """Derivative of ``F`` at ``w`` along a direction, the vector number ``vector``."""
        return self.l2 * float(w @ direction) + margins.slope(vector) / self._pairs

    def gradient(self, w: Float, margins: Margins) -> Float:
        """Gradient ``(d,)`` at ``w``, from the margins by ``w``; one pass."""
        score, gradient = self._signed(w), _row_gradient(margins)
        return self.l2 * w + self._summed(lambda batch: gradient(batch, score(batch) + batch.y))

    def product(self, w: Float, z: Float, margins: Margins, vector: int = 1) -> Float:
        """Hessian at ``w`` times ``z``, ``(d,)``; one pass.

        Parameters
        ----------
        w, z : (d,)
            Point of the Hessian, and the vector to multiply.
        margins
            Margins by ``w``, the first vector of their scores.
        vector
            Number of the vector ``z`` in the scores.
        """
        score_by_w, score_by_z = self._signed(w), self._signed(z)
        centre = float((self.columns.centre - self._origin) @ self._scaled(z))
        positive, negative = margins.changed(vector, centre)

        # The scores equal those of the tables in every bit; see `signed`. Both rows of a pair then
        # agree whether it violates the margin, which keeps the Hessian symmetric and positive
        # semidefinite. Loss and gradient are continuous there and insensitive to the last bit.
        def coefficients(batch: Batch) -> Float:
            v, u, y = score_by_w(batch) + batch.y, batch.weights, batch.y
            r = score_by_z(batch) + np.where(y, centre, -centre)
            out = np.empty_like(v)
            for side, sign, opposite in ((y, -1.0, negative), (~y, 1.0, positive)):
                out[side] = sign * loss_hessian_product(v[side], r[side], u[side], opposite)
            return out

        return self.l2 * z + self._summed(coefficients)

    def derivatives(self, w: Float, margins: Margins) -> tuple[Float, SymmetricTiles]:
        """Gradient ``(d,)`` at ``w`` and the loss's Hessian at rounded margins; one pass.

        A pair violates the margin according to the bins of its rows, in 256 bins of scores. The sum
        over pairs then becomes a sum over rows and a sum over bins: with ``m_i`` the weight of the
        opposite rows in violating pairs of row ``i``, and ``P_b`` and ``N_b`` the sums of the rows
        in bin ``b``, the Hessian is ``sum_i u_i m_i x_i x_i'`` minus
        ``sum_(b < c) (P_b N_c' + N_c P_b')``. It is the Hessian at other margins, and hence
        positive semidefinite. It does not include the penalty. The gradient is exact and
        includes it.
        """
        score, row_gradient = self._signed(w), _row_gradient(margins)
        dimension, bins = self.rows.dimension, margins.bins(_BINS)
        (of_positive, of_negative), count = bins.masses(), bins.positive.size

        def add(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            accumulator, sums = Accumulator(dimension), np.zeros((2 * count, dimension))
            gradient = np.zeros(dimension + 1)
            for batch in batches:
                v, u, y = score(batch) + batch.y, batch.weights, batch.y
                number = bins.places(v, y)
                weight = u * np.where(y, of_positive[number], of_negative[number])
                violating = np.flatnonzero(weight > 0)
                accumulator.add(batch.X, violating, weight[violating])
                entries = number + np.where(y, 0, count), np.arange(y.size)
                bin_sums = sparse.csr_matrix((u, entries), shape=(2 * count, y.size)) @ batch.X
                sums += bin_sums if isinstance(bin_sums, np.ndarray) else bin_sums.toarray()
                _add_rows(batch, row_gradient(batch, v), gradient)
            yield "rows", ClassMoments(dimension, tuple(accumulator.tiles()))
            yield "sums", VectorSum(sums)
            yield "gradient", VectorSum(gradient)

        result = self.rows.fold(
            add,
            (ClassMoments, VectorSum),
            state_bytes=8 * (dimension + 2 * count + 1) * dimension,
            what=f"a Hessian of {dimension} features",
        )
        moments = cast(ClassMoments, result["rows"])
        positive, negative = cast(VectorSum, result["sums"]).total.reshape(2, count, -1)
        # Centring avoids cancellation in columns far from 0.
        centre = self.columns.centre
        positive = positive - np.outer(bins.positive, centre)
        negative = negative - np.outer(bins.negative, centre)
        cross = negative.T @ (np.cumsum(positive, axis=0) - positive / 2)
        shift = moments.mean - centre
        matrix = moments.scatter() + moments.weight * np.outer(shift, shift) - cross - cross.T
        unit = np.ones(dimension) if self.scale is None else self.scale
        hessian = SymmetricTiles.of(matrix / np.outer(unit, unit) / self._pairs)
        return self.l2 * w + self._mean(cast(VectorSum, result["gradient"])), hessian

    @cached_property
    def _origin(self) -> Float:
        return offsets(self.columns)

    def _signed(self, vector: Float) -> Callable[[Batch], Float]:
        """Function from a batch to its signed scores ``(n,)``, equal in every bit to `scores`."""
        raw = self._scaled(vector)
        offset = float(raw @ self._origin)
        return lambda batch: signed(batch, raw) + np.where(batch.y, offset, -offset)

    @property
    def _pairs(self) -> float:
        return float(self.columns.weight.prod())

    def _scaled(self, vector: Float) -> Float:
        return vector if self.scale is None else vector / self.scale

    def _summed(self, coefficients: Callable[[Batch], Float]) -> Float:
        """Sum of rows times coefficients ``(n,)``, divided by the number of pairs: ``(d,)``."""
        dimension = self.rows.dimension

        def add(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            out = np.zeros(dimension + 1)
            for batch in batches:
                _add_rows(batch, coefficients(batch), out)
            yield "sum", VectorSum(out)

        result = self.rows.fold(
            add, (VectorSum,), state_bytes=8 * (dimension + 1), what=f"{dimension} sums"
        )
        return self._mean(cast(VectorSum, result["sum"]))

    def _mean(self, total: VectorSum) -> Float:
        rows, coefficients = total.total[:-1], total.total[-1]
        return self._scaled(rows - coefficients * self._origin) / self._pairs


def _row_gradient(margins: Margins) -> Callable[[Batch, Float], Float]:
    """Function from a batch and its signed scores ``(n,)`` to the coefficients of its rows.

    The gradient is the sum of the rows times these coefficients ``(n,)``.
    """
    positive, negative = margins.excess()

    def coefficients(batch: Batch, v: Float) -> Float:
        u, out = batch.weights, np.empty_like(v)
        for side, sign, opposite in ((batch.y, -1.0, negative), (~batch.y, 1.0, positive)):
            out[side] = sign * loss_gradient(v[side], u[side], opposite)
        return out

    return coefficients


def _add_rows(batch: Batch, coefficient: Float, out: Float) -> None:
    """Add the rows times ``coefficient`` ``(n,)``, and its sum, to ``out`` ``(d + 1,)``."""
    X = batch.X
    out[-1] += coefficient.sum()
    if isinstance(X, np.ndarray):
        out[:-1] += coefficient @ X
    else:
        _add_sparse_rows(*sparse_entries(X), coefficient, out)


@compiled()
def _add_sparse_rows(
    data: Float,
    indices: Index,
    indptr: Index,
    coefficient: Float,
    out: Float,
) -> None:
    for i in range(coefficient.size):
        for p in range(indptr[i], indptr[i + 1]):
            out[indices[p]] += data[p] * coefficient[i]
