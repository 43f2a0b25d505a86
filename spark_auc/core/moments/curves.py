"""Coordinates of weights in which a penalty of the roughness of curves is a ridge."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy import linalg

from spark_auc.core.moments.objective import Matrix, Quadratic
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.types import Float, Int
from spark_auc.errors import ConfigError, ResourceError

_log = logging.getLogger(__name__)

# Factors of the squared second differences of 24 heights, and of the squared heights.
_ROUGHNESS, _KNOTS, _RIDGE = 10 / 3, 24, 0.1
# The smoothness without a matrix, where each takes passes of its own; and most heights of curves,
# whose own matrix is formed all the same.
PLAIN, MOST_HEIGHTS = 1.0, 2048


@dataclass(frozen=True)
class Curves:
    """Blocks of weights that are the heights of curves at their knots.

    The penalty of a block ``v`` of ``m`` heights is

        ``lambda/2 v' P v`` with ``P = s 10/3 (m/24)^3 D'D + 0.1 I``,

    where ``D`` takes second differences and ``s`` is the smoothness; that of all other weights is
    ``lambda/2 |v|^2``. Of even knots, the power of ``m`` makes it a multiple of the integral of the
    squared second derivative, whatever their number [1]_. In the coordinates ``u`` with
    ``v = R^-1 u`` and ``P = R'R`` it is ``lambda/2 |u|^2``, so that solvers and certificates are
    those of a ridge. With divisors of the columns, the heights are those of divided columns.

    Parameters
    ----------
    spans
        First feature and number of features of each block, ascending and disjoint. Those of less
        than three features have no curvature, and are left out.

    Raises
    ------
    ConfigError
        The blocks overlap, or are not ascending.

    References
    ----------
    .. [1] P. H. C. Eilers, B. D. Marx. Flexible Smoothing with B-splines and Penalties. Statistical
       Science 11 (1996), 89-121.
    """

    spans: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        curved = tuple((first, size) for first, size in self.spans if size > 2)
        object.__setattr__(self, "spans", curved)
        ends = [0, *(first + size for first, size in curved)]
        if any(first < end for (first, _), end in zip(curved, ends, strict=False)):
            raise ConfigError(
                f"found the blocks {list(curved)} (first feature and number), expected ascending "
                "ones without common features; change the blocks"
            )

    @property
    def end(self) -> int:
        """Number of features up to the last block."""
        return sum(self.spans[-1]) if self.spans else 0

    @property
    def features(self) -> Int:
        """Numbers ``(d,)`` of the features of all blocks, ascending."""
        numbers = [np.arange(first, first + size) for first, size in self.spans]
        return np.concatenate([np.zeros(0, dtype=np.int64), *numbers])

    def without_matrix(self, factors: tuple[float, ...]) -> tuple[float, ...]:
        """The factors of the smoothness to try where no matrix of all features is formed.

        Several take passes of their own, and many heights a matrix.
        """
        if self.features.size > MOST_HEIGHTS:
            _log.info(
                "the roughness of curves has no penalty: found %d heights, expected at most %d "
                "without a matrix of all features",
                *(self.features.size, MOST_HEIGHTS),
            )
            return ()
        if len(factors) < 2:
            return factors
        _log.info("without a matrix each smoothness takes passes of its own: taking %g", PLAIN)
        return (PLAIN,)

    def of_columns(self, columns: Int) -> Curves:
        """The blocks whose features are all among ``columns`` ``(d,)``, ascending, by their places.

        Parts of a block are no curve.
        """
        places = ((int(np.searchsorted(columns, first)), first, size) for first, size in self.spans)
        return Curves(
            tuple(
                (place, size)
                for place, first, size in places
                if np.array_equal(columns[place : place + size], np.arange(first, first + size))
            )
        )

    def weights(self, u: Float, smoothness: float | None) -> Float:
        """Weights ``(d, ...)`` by their coordinates; the same without a smoothness."""
        return self._by_block(u, smoothness, lambda inverse: inverse)

    def coordinates(self, w: Float, smoothness: float | None) -> Float:
        """Coordinates ``(d,)`` of weights ``(d,)``; the same without a smoothness."""
        out = w.copy()
        for run, shape, inverse in self._inverses(smoothness):
            out[run] = linalg.solve_triangular(inverse, w[run].reshape(shape).T).T.ravel()
        return out

    def gradient(self, of_weights: Float, smoothness: float | None) -> Float:
        """The gradient ``(d,)`` by coordinates of a function of weights; see `weights`."""
        return self._by_block(of_weights, smoothness, np.transpose)

    def sizes(self, of_weights: Float, smoothness: float | None) -> Float:
        """A bound ``(d,)`` on the sizes of `gradient`, from those of a gradient by weights."""
        return self._by_block(of_weights, smoothness, lambda inverse: np.abs(inverse).T)

    def hessian(self, of_weights: Float, smoothness: float | None) -> Float:
        """The Hessian ``(d, d)`` by coordinates of a function of weights; see `weights`."""
        out = of_weights.copy()
        columns = self._both_ways(out[:, : self.end], smoothness)
        out[:, : self.end], out[: self.end] = columns, columns.T
        return out

    def quadratic(self, loss: Quadratic, smoothness: float | None) -> Quadratic:
        """A quadratic of weights as one of their coordinates; the same without a smoothness.

        Raises
        ------
        ResourceError
            There is no matrix, and the curves have more than 2,048 heights.
        """
        if smoothness is None or not self.spans:
            return loss
        # Rounding errors of an element of the matrix are at most the product of two of these.
        root = np.sqrt(np.maximum(loss.diagonal, 0.0))
        unit = self.sizes(root, smoothness)
        Sigma: Matrix
        if isinstance(loss.Sigma, SymmetricTiles):
            Sigma = self._of_coordinates(loss.Sigma, smoothness)
        elif self.features.size > MOST_HEIGHTS:
            raise ResourceError(
                f"found {self.features.size} heights of curves among {loss.dimension} features, "
                f"expected at most {MOST_HEIGHTS} without a matrix of all features; lower "
                "numKnots, or set smoothness to null"
            )
        else:
            Sigma = _Coordinates(loss.Sigma, self, smoothness)
        diagonal = Sigma.diagonal()
        varies = diagonal > 0
        blur = None
        if loss.blur is not None:
            error = self.sizes(np.sqrt(loss.blur) * root, smoothness)
            blur = np.divide(error**2, diagonal, out=np.zeros_like(error), where=varies)
        longest = (unit[varies] / np.sqrt(diagonal[varies])).max(initial=1.0)
        return replace(
            loss,
            Sigma=Sigma,
            mu=self.gradient(loss.mu, smoothness),
            blur=blur,
            mu_rounding=loss.mu_rounding * float(longest),
            product_rounding=loss.product_rounding * float(longest),
        )

    def _of_coordinates(self, Sigma: SymmetricTiles, smoothness: float) -> SymmetricTiles:
        """A matrix of weights as one of their coordinates."""
        columns = Sigma.columns(np.arange(self.end))
        return Sigma.with_first(self._both_ways(columns, smoothness))

    def _both_ways(self, columns: Float, smoothness: float | None) -> Float:
        """The first columns ``(d, end)`` of a symmetric matrix of weights as of coordinates."""
        out = columns.copy()
        for run, shape, inverse in self._inverses(smoothness):
            own = out[:, run]
            out[:, run] = (own.reshape(-1, *shape) @ inverse).reshape(own.shape)
        return self.gradient(out, smoothness)

    def _by_block(
        self, values: Float, smoothness: float | None, of: Callable[[Float], Float]
    ) -> Float:
        """Values ``(d, ...)``, those of each block times a matrix that is made of ``R^-1``."""
        out = values.copy()
        for run, shape, inverse in self._inverses(smoothness):
            own = values[run]
            out[run] = (of(inverse) @ own.reshape(*shape, -1)).reshape(own.shape)
        return out

    def _inverses(self, smoothness: float | None) -> Iterator[tuple[slice, tuple[int, int], Float]]:
        """Each run of blocks, their number and size, and ``R^-1`` of such a block."""
        if smoothness is None:
            return
        for first, count, size in self._runs:
            run = slice(first, first + count * size)
            yield run, (count, size), _inverse(size, smoothness)

    @cached_property
    def _runs(self) -> list[tuple[int, int, int]]:
        """First feature, number and size of blocks of one size that follow one another."""
        runs = list[tuple[int, int, int]]()
        for first, size in self.spans:
            begun, count, before = runs[-1] if runs else (0, 0, 0)
            if (first, size) == (begun + count * before, before):
                runs[-1] = begun, count + 1, size
            else:
                runs.append((first, 1, size))
        return runs


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """A matrix of weights that is not formed, as one of their coordinates; see `Matrix`."""

    Sigma: Matrix
    curves: Curves
    smoothness: float

    @property
    def dimension(self) -> int:
        return self.Sigma.dimension

    def matvec(self, vector: Float) -> Float:
        product = self.Sigma.matvec(self.curves.weights(vector, self.smoothness))
        return self.curves.gradient(product, self.smoothness)

    def matmat(self, vectors: Float) -> Float:
        products = self.Sigma.matmat(self.curves.weights(vectors, self.smoothness))
        return self.curves.gradient(products, self.smoothness)

    def diagonal(self) -> Float:
        return self._diagonal

    @cached_property
    def _diagonal(self) -> Float:
        diagonal, features = self.Sigma.diagonal().copy(), self.curves.features
        diagonal[features] = self.restricted(features).diagonal()
        return diagonal

    def restricted(self, features: Int) -> SymmetricTiles:
        spans = [np.arange(first, first + size) for first, size in self.curves.spans]
        whole = [span for span in spans if np.isin(span, features).any()]
        every = np.unique(np.concatenate([features, *whole]))
        curves = self.curves.of_columns(every)
        matrix = curves._of_coordinates(self.Sigma.restricted(every), self.smoothness)
        return matrix.restricted(np.searchsorted(every, features))


def penalty(size: int, smoothness: float) -> Float:
    """The matrix ``P`` ``(m, m)`` of a block of ``m`` heights; see `Curves`."""
    differences = np.diff(np.eye(size), 2, axis=0)
    factor = smoothness * _ROUGHNESS * (size / _KNOTS) ** 3
    matrix: Float = factor * differences.T @ differences + _RIDGE * np.eye(size)
    return matrix


@lru_cache
def _inverse(size: int, smoothness: float) -> Float:
    root = linalg.cholesky(penalty(size, smoothness))
    inverse: Float = linalg.solve_triangular(root, np.eye(size))
    return inverse
