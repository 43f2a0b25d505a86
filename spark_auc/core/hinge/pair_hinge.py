"""The all-pairs squared hinge loss, its gradient and its Hessian, without forming a pair.

Minimised is ``F(w) = l2/2 |w|^2 + 1/2 E[max(0, 1 - w'(x_+ - x_-))^2]``, ``E`` the weighted mean
over all pairs of a positive and a negative row (Khalid et al., Eq. 3 and 5, by PRSVM+ of Chapelle
and Keerthi). It is ``l2`` times the papers' objective at ``C = 1 / (2 l2 W_+ W_-)``, with ``W_k``
a class's total weight: 1 / (2 l2) over the number of pairs, if rows weigh 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.hinge.margins import Margins, forces, responses
from spark_auc.core.hinge.row_scores import RowScores, signed
from spark_auc.core.kernels import compiled, sparse_entries
from spark_auc.core.moments.accumulator import Accumulator
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.objective import lost
from spark_auc.core.moments.operator import VectorSum, origin
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.row_source import Folding, State
from spark_auc.core.types import Float, Index
from spark_auc.errors import ConfigError, DataError

# Bins of scores in a rounded Hessian.
_BINS = 256


@dataclass(frozen=True, eq=False)
class PairHinge:
    """``l2/2 |w|^2 + 1/2 E[max(0, 1 - w'(x_+ - x_-))^2]`` of rows that are read in passes.

    Parameters
    ----------
    rows
        The rows.
    columns
        Their column moments.
    l2
        Factor of the penalty, >= 0, in squared feature units.
    scale : (d,), optional
        Columns are divided by it.

    Raises
    ------
    ConfigError
        ``l2`` is negative.
    DataError
        One of the classes has no rows.
    """

    rows: Folding
    columns: ColumnMoments
    l2: float
    scale: Float | None = None

    def __post_init__(self) -> None:
        if not self.l2 >= 0:
            raise ConfigError(f"found the factor {self.l2} of the penalty, expected >= 0")
        positive, negative = map(int, self.columns.rows)
        if not (positive and negative):
            raise DataError(
                f"found {positive} positive and {negative} negative rows, expected both classes; "
                "check the label column and the positive label"
            )

    @property
    def mu(self) -> Float:
        """Mean difference ``(d,)`` of all pairs: less the gradient at ``w = 0``."""
        return self._scaled(self.columns.delta)

    def diagonal(self) -> Float:
        """Diagonal ``(d,)`` of the Hessian at ``w = 0``, where all pairs violate."""
        squares = self.columns.variance.sum(axis=0) + self.columns.delta**2
        diagonal: Float = self._scaled(self._scaled(squares)) + self.l2
        return diagonal

    @cached_property
    def units(self) -> Float:
        """The unit of each coordinate of the gradient ``(d,)``; see `Quadratic.units`."""
        diagonal = self.diagonal()
        return np.sqrt(np.where(diagonal > 0, diagonal, 1.0))

    @cached_property
    def lost(self) -> float:
        """What the rounding of means takes from the gradient, in its units; see `lost`."""
        return lost(self._scaled(self.columns.mean), self.diagonal() - self.l2)

    def scores(self, *vectors: Float) -> RowScores:
        """Scores of all rows, seen from `origin`, by vectors ``(d,)``; one pass."""
        raw = np.stack([self._scaled(v) for v in vectors])
        middle = np.array([[float(v @ self._origin)] for v in raw])

        def score(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            parts = [RowScores.of(batch, raw) for batch in batches]
            found = RowScores.union([RowScores.zero(len(raw)), *parts])
            found.positive[1:] += middle
            found.negative[1:] -= middle
            yield "scores", found

        count = int(self.columns.rows.sum())
        found = self.rows.fold(
            score,
            (RowScores,),
            state_bytes=8 * (len(raw) + 1) * count + 1024,
            what=f"{len(raw)} scores of {count} rows",
        )
        return cast(RowScores, found["scores"])

    def value(self, w: Float, margins: Margins) -> float:
        """``F(w)``, given the margins by ``w``."""
        return self.l2 / 2 * float(w @ w) + margins.loss() / self._pairs

    def slope(self, w: Float, direction: Float, margins: Margins, vector: int) -> float:
        """Derivative of ``F`` at ``w`` along a direction, by which ``vector`` are the scores."""
        return self.l2 * float(w @ direction) + margins.slope(vector) / self._pairs

    def gradient(self, w: Float, margins: Margins) -> Float:
        """Gradient ``(d,)`` at ``w``, given the margins by ``w``; one pass."""
        score, share = self._signed(w), _shares(margins)
        return self.l2 * w + self._summed(lambda batch: share(batch, score(batch) + batch.y))

    def product(self, w: Float, z: Float, margins: Margins, vector: int = 1) -> Float:
        """Hessian at ``w`` times ``z``, ``(d,)``; one pass.

        Parameters
        ----------
        w, z : (d,)
            Where, and times what.
        margins
            Those by ``w``, the first vector of their scores.
        vector
            Which vector of the scores is ``z``.
        """
        by_w, by_z = self._signed(w), self._signed(z)
        middle = float((self.columns.centre - self._origin) @ self._scaled(z))
        positive, negative = margins.changed(vector, middle)

        # A row's scores here are bit for bit those of the tables, as `signed` promises: both
        # rows of a pair then count it or leave it out, which keeps the Hessian symmetric and
        # positive semidefinite. The loss and the gradient would not notice a last bit.
        def coefficients(batch: Batch) -> Float:
            v, u, y = by_w(batch) + batch.y, batch.weights, batch.y
            r = by_z(batch) + np.where(y, middle, -middle)
            out = np.empty_like(v)
            for mine, sign, opposite in ((y, -1.0, negative), (~y, 1.0, positive)):
                out[mine] = sign * responses(v[mine], r[mine], u[mine], opposite)
            return out

        return self.l2 * z + self._summed(coefficients)

    def derivatives(self, w: Float, margins: Margins) -> tuple[Float, SymmetricTiles]:
        """Gradient ``(d,)`` at ``w`` and the loss's Hessian at rounded margins; one pass.

        Whether a pair violates is told by the bins of its rows, in some 256 bins of scores, so
        that the pairs of all rows come down to a sum over rows and a sum over bins: with ``m_i``
        the weight that row ``i`` violates with, ``P_b`` and ``N_b`` the sums of the rows in bin
        ``b``, ``sum_i u_i m_i x_i x_i'`` less ``sum_(b < c) (P_b N_c' + N_c P_b')``. It is
        positive semidefinite: the Hessian of other margins. The penalty is not in it. The
        gradient is exact, and the penalty's is in it.
        """
        score, share, dimension = self._signed(w), _shares(margins), self.rows.dimension
        bins = margins.bins(_BINS)
        (of_positive, of_negative), count = bins.masses(), bins.positive.size

        def add(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            of_rows, sums = Accumulator(dimension), np.zeros((2 * count, dimension))
            gradient = np.zeros(dimension + 1)
            for batch in batches:
                v, u, y = score(batch) + batch.y, batch.weights, batch.y
                place = bins.places(v, y)
                weight = u * np.where(y, of_positive[place], of_negative[place])
                some = np.flatnonzero(weight > 0)
                of_rows.add(batch.X, some, weight[some])
                at = place + np.where(y, 0, count), np.arange(y.size)
                chosen = sparse.csr_matrix((u, at), shape=(2 * count, y.size)) @ batch.X
                sums += chosen if isinstance(chosen, np.ndarray) else chosen.toarray()
                _add_rows(batch, share(batch, v), gradient)
            yield "rows", ClassMoments(dimension, tuple(of_rows.tiles()))
            yield "sums", VectorSum(sums)
            yield "gradient", VectorSum(gradient)

        found = self.rows.fold(
            add,
            (ClassMoments, VectorSum),
            state_bytes=8 * (dimension + 2 * count + 1) * dimension,
            what=f"a Hessian of {dimension} features",
        )
        moments = cast(ClassMoments, found["rows"])
        positive, negative = cast(VectorSum, found["sums"]).total.reshape(2, count, -1)
        # From their mean, columns far from 0 do not cancel.
        centre = self.columns.centre
        positive = positive - np.outer(bins.positive, centre)
        negative = negative - np.outer(bins.negative, centre)
        cross = negative.T @ (np.cumsum(positive, axis=0) - positive / 2)
        apart = moments.mean - centre
        matrix = moments.scatter() + moments.weight * np.outer(apart, apart) - cross - cross.T
        unit = np.ones(dimension) if self.scale is None else self.scale
        hessian = SymmetricTiles.of(matrix / np.outer(unit, unit) / self._pairs)
        return self.l2 * w + self._mean(cast(VectorSum, found["gradient"])), hessian

    @cached_property
    def _origin(self) -> Float:
        return origin(self.columns)

    def _signed(self, vector: Float) -> Callable[[Batch], Float]:
        """Of a batch: its signed scores ``(n,)`` as `scores` has them, to the last bit."""
        raw = self._scaled(vector)
        middle = float(raw @ self._origin)
        return lambda batch: signed(batch, raw) + np.where(batch.y, middle, -middle)

    @property
    def _pairs(self) -> float:
        return float(self.columns.weight.prod())

    def _scaled(self, vector: Float) -> Float:
        return vector if self.scale is None else vector / self.scale

    def _summed(self, coefficients: Callable[[Batch], Float]) -> Float:
        """Mean over all pairs of rows times their coefficients ``(n,)``, ``(d,)``."""
        dimension = self.rows.dimension

        def add(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            out = np.zeros(dimension + 1)
            for batch in batches:
                _add_rows(batch, coefficients(batch), out)
            yield "sum", VectorSum(out)

        found = self.rows.fold(
            add, (VectorSum,), state_bytes=8 * (dimension + 1), what=f"{dimension} sums"
        )
        return self._mean(cast(VectorSum, found["sum"]))

    def _mean(self, total: VectorSum) -> Float:
        rows, coefficients = total.total[:-1], total.total[-1]
        return self._scaled(rows - coefficients * self._origin) / self._pairs


def _shares(margins: Margins) -> Callable[[Batch, Float], Float]:
    """Of a batch and its signed scores ``(n,)``: each row's share of the gradient, ``(n,)``."""
    positive, negative = margins.excess()

    def share(batch: Batch, v: Float) -> Float:
        u, out = batch.weights, np.empty_like(v)
        for mine, sign, opposite in ((batch.y, -1.0, negative), (~batch.y, 1.0, positive)):
            out[mine] = sign * forces(v[mine], u[mine], opposite)
        return out

    return share


def _add_rows(batch: Batch, coefficient: Float, out: Float) -> None:
    """Add the rows times their coefficients ``(n,)`` to ``(d + 1,)``, and last the sum of these."""
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
