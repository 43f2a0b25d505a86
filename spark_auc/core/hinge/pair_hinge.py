"""The all-pairs squared hinge loss, its gradient and its Hessian, without forming pairs.

The objective is ``F(w) = l2/2 |w|^2 + 1/2 E[max(0, 1 - w'(x_+ - x_-))^2]``, with ``E`` the weighted
mean over all pairs of a positive and a negative row (Khalid et al., Eq. 3 and 5, by PRSVM+ of
Chapelle and Keerthi). It is ``l2`` times the papers' objective for ``C = 1 / (2 l2 W_+ W_-)``, with
``W_k`` the total weight of a class; for rows of weight 1, ``W_+ W_-`` is the number of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.hinge.hessian import hessian_of_bins
from spark_auc.core.hinge.lines import AnyMargins, Line, line_of
from spark_auc.core.hinge.range_margins import RangeMargins
from spark_auc.core.hinge.row_scores import RowScores, signed
from spark_auc.core.hinge.row_sums import add_rows, add_sizes
from spark_auc.core.hinge.score_ranges import ScoreRanges
from spark_auc.core.moments.accumulator import Accumulator
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.curves import Curves
from spark_auc.core.moments.moments_tile import check_both_classes
from spark_auc.core.moments.objective import difference_rounding
from spark_auc.core.moments.operator import offsets
from spark_auc.core.moments.pair_products import VectorSum
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.row_source import Folding, State
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError

# Bins of scores of a Hessian at rounded margins.
_BINS = 256


class Gradient(NamedTuple):
    """A gradient ``(d,)``, and bounds ``(d,)`` on its error by ranges of scores."""

    value: Float
    error: Float


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
    curves, smoothness
        Curves among the weights of the divided columns. With a smoothness, ``w`` are coordinates
        in which the penalty of their roughness is a ridge. Rows keep their entries.
    squares : (d,), optional
        The diagonal of the loss's Hessian at ``w = 0``. Needed with a smoothness. Default: that of
        the columns.
    ranges
        Greatest number of ranges of scores, in whose sums the rows are summarised in each pass.
        Default: the scores of all rows are gathered, which is exact.

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
    ranges: int | None = None
    curves: Curves = field(default_factory=Curves)
    smoothness: float | None = None
    squares: Float | None = None

    def __post_init__(self) -> None:
        if not self.l2 >= 0:
            raise ConfigError(
                f"found the penalty factor {self.l2}, expected >= 0; use regParam >= 0"
            )
        check_both_classes(*self.columns.rows)

    @property
    def mu(self) -> Float:
        """Mean difference ``(d,)`` of all pairs: the negative gradient at ``w = 0``."""
        return self._by_coordinates(self.columns.delta)

    def diagonal(self) -> Float:
        """Diagonal ``(d,)`` of the Hessian at ``w = 0``, where every pair violates the margin."""
        squares = self.squares
        if squares is None:
            squares = self.columns.squares / self._unit**2
        diagonal: Float = squares + self.l2
        return diagonal

    @cached_property
    def units(self) -> Float:
        """The unit of each coordinate of the gradient ``(d,)``; see `Quadratic.units`."""
        diagonal = self.diagonal()
        return np.sqrt(np.where(diagonal > 0, diagonal, 1.0))

    @cached_property
    def mu_rounding(self) -> float:
        """Bound on the rounding error of the gradient, in its units; see `difference_rounding`."""
        mean = self.curves.sizes(np.abs(self.columns.mean).T / self._unit[:, None], self.smoothness)
        return difference_rounding(mean.T, self.diagonal() - self.l2)

    def scores(self, *vectors: Float) -> RowScores:
        """Signed scores of all rows minus `offsets`, by vectors ``(d,)``; one pass."""
        raw = np.stack([self._weights(v) for v in vectors])
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

    def line(self, w: Float, direction: Float) -> Line:
        """The margins by ``w + step * direction`` as a function of the step.

        The gathered scores take one pass, for all steps; ranges take one for each step.
        """
        if self.ranges is not None:
            return lambda step: self.in_ranges(w + step * direction, direction)
        return line_of(self.scores(w, direction))

    def in_ranges(self, w: Float, direction: Float) -> RangeMargins:
        """The margins by ``w`` ``(d,)`` in ranges, with the direction as vector 1; one pass."""
        most = cast(int, self.ranges)
        score, change = self._signed(w), self._signed(direction)

        def add(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            rows = ((score(b) + b.y, change(b), b.weights, b.y) for b in batches)
            yield "ranges", ScoreRanges.fold(rows, most)

        result = self.rows.fold(
            add,
            (ScoreRanges,),
            state_bytes=ScoreRanges.nbytes(most),
            what=f"{most} ranges of scores",
        )
        return RangeMargins(cast(ScoreRanges, result["ranges"]))

    def value(self, w: Float, margins: AnyMargins) -> float:
        """``F(w)``, from the margins by ``w`` ``(d,)``."""
        return self.l2 / 2 * float(w @ w) + margins.loss() / self._pairs

    def value_error(self, margins: AnyMargins) -> float:
        """Bound on the error of `value` by ranges of scores."""
        return margins.loss_error() / self._pairs

    def slope(self, w: Float, direction: Float, margins: AnyMargins, vector: int) -> float:
        """Derivative of ``F`` at ``w`` along a direction, the vector number ``vector``."""
        return self.l2 * float(w @ direction) + margins.slope(vector) / self._pairs

    def gradient(self, w: Float, margins: AnyMargins) -> Gradient:
        """The gradient at ``w``, from the margins by ``w``; one pass."""
        score, add_gradient = self._signed(w), self._gradient_sums(margins)

        def add(batch: Batch, out: Float) -> None:
            add_gradient(batch, score(batch) + batch.y, out)

        return self._gradient(w, self._summed(add))

    def product(self, w: Float, z: Float, margins: AnyMargins, vector: int = 1) -> Float:
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
        centre = float((self.columns.centre - self._origin) @ self._weights(z))
        factors = margins.product_factors(vector, centre)

        # The scores equal those of the tables in every bit; see `signed`. Both rows of a pair then
        # agree whether it violates the margin, which keeps the Hessian symmetric and positive
        # semidefinite. Loss and gradient are continuous there and insensitive to the last bit.
        def add(batch: Batch, out: Float) -> None:
            v = score_by_w(batch) + batch.y
            add_rows(batch, factors(v, score_by_z(batch), batch.weights, batch.y), out[0])

        return self.l2 * z + self._mean(self._summed(add)[0])

    def derivatives(self, w: Float, margins: AnyMargins) -> tuple[Gradient, SymmetricTiles]:
        """The gradient at ``w`` and the loss's Hessian at rounded margins; one pass.

        The Hessian does not include the penalty; see `hessian_of_bins`. The gradient is that of
        `gradient` and includes it.
        """
        score, add_gradient = self._signed(w), self._gradient_sums(margins)
        dimension, bins = self.rows.dimension, margins.bins(_BINS)
        (of_positive, of_negative), count = bins.masses(), bins.positive.size

        def add(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            accumulator, sums = Accumulator(dimension), np.zeros((2 * count, dimension))
            gradient = np.zeros((2, dimension + 1))
            for batch in batches:
                v, u, y = score(batch) + batch.y, batch.weights, batch.y
                number = bins.places(v, y)
                weight = u * np.where(y, of_positive[number], of_negative[number])
                violating = np.flatnonzero(weight > 0)
                accumulator.add(batch.X, violating, weight[violating])
                entries = number + np.where(y, 0, count), np.arange(y.size)
                bin_sums = sparse.csr_matrix((u, entries), shape=(2 * count, y.size)) @ batch.X
                sums += bin_sums if isinstance(bin_sums, np.ndarray) else bin_sums.toarray()
                add_gradient(batch, v, gradient)
            yield "rows", ClassMoments(dimension, tuple(accumulator.tiles()))
            yield "sums", VectorSum(sums)
            yield "gradient", VectorSum(gradient)

        result = self.rows.fold(
            add,
            (ClassMoments, VectorSum),
            state_bytes=8 * (dimension + 2 * count + 2) * dimension,
            what=f"a Hessian of {dimension} features",
        )
        moments, sums = cast(ClassMoments, result["rows"]), cast(VectorSum, result["sums"]).total
        matrix = hessian_of_bins(moments, sums, bins, self.columns.centre)
        matrix /= np.outer(self._unit, self._unit) * self._pairs
        hessian = SymmetricTiles.of(self.curves.hessian(matrix, self.smoothness))
        return self._gradient(w, cast(VectorSum, result["gradient"]).total), hessian

    @cached_property
    def _origin(self) -> Float:
        return offsets(self.columns)

    def _signed(self, vector: Float) -> Callable[[Batch], Float]:
        """Function from a batch to its signed scores ``(n,)``, equal in every bit to `scores`."""
        raw = self._weights(vector)
        offset = float(raw @ self._origin)
        return lambda batch: signed(batch, raw) + np.where(batch.y, offset, -offset)

    @property
    def _pairs(self) -> float:
        return float(self.columns.weight.prod())

    @cached_property
    def _unit(self) -> Float:
        return np.ones(self.rows.dimension) if self.scale is None else self.scale

    def _weights(self, vector: Float) -> Float:
        """The weights ``(d,)`` of the rows' columns by a vector of coordinates."""
        return self.curves.weights(vector, self.smoothness) / self._unit

    def _by_coordinates(self, gradient: Float) -> Float:
        """A gradient ``(d,)`` by the weights of the rows' columns as one by coordinates."""
        return self.curves.gradient(gradient / self._unit, self.smoothness)

    def _summed(self, add_batch: Callable[[Batch, Float], None]) -> Float:
        """Sums ``(2, d + 1)`` to which a function adds each batch; one pass."""
        dimension = self.rows.dimension

        def add(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            out = np.zeros((2, dimension + 1))
            for batch in batches:
                add_batch(batch, out)
            yield "sum", VectorSum(out)

        result = self.rows.fold(
            add, (VectorSum,), state_bytes=16 * (dimension + 1), what=f"{dimension} sums"
        )
        return cast(VectorSum, result["sum"]).total

    def _gradient_sums(self, margins: AnyMargins) -> Callable[[Batch, Float, Float], None]:
        """Function that adds a batch with signed scores ``(n,)`` to sums ``(2, d + 1)``.

        The first is that of the rows times their factors in the gradient, the second bounds its
        error.
        """
        factors, origin = margins.gradient_factors(), self._origin

        def add(batch: Batch, v: Float, out: Float) -> None:
            factor, error = factors(v, batch.weights, batch.y)
            add_rows(batch, factor, out[0])
            if error is not None:
                add_sizes(batch, error, origin, out[1, :-1])

        return add

    def _gradient(self, w: Float, sums: Float) -> Gradient:
        error = self.curves.sizes(sums[1, :-1] / self._unit, self.smoothness) / self._pairs
        return Gradient(self.l2 * w + self._mean(sums[0]), error)

    def _mean(self, total: Float) -> Float:
        rows, factors = total[:-1], total[-1]
        return self._by_coordinates(rows - factors * self._origin) / self._pairs
