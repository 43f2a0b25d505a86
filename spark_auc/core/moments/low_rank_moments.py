"""Moments of many features by random sketches of the covariances: the statistics of OPAUCr.

Each row draws ``r ~ N(0, I) / sqrt(rank)``, a function of the seed and the row's key. With row
weights ``u``, the sums ``Z = sum sqrt(u) x r'`` and ``s = sum sqrt(u) r`` of a class, and its mean
``c`` and weight ``W``, the covariance is replaced by ``A A' / W``, ``A = Z - c s'`` [1]_ (Eq.
8-11). Its expectation is the covariance if no two rows share a key, and it is positive
semidefinite; the printed ``Z Z'/n`` minus the square of the sketched mean is neither. Rows that
share a key share ``r``, and their sum enters squared.

References
----------
.. [1] W. Gao, R. Jin, S. Zhu, Z.-H. Zhou. One-Pass AUC Optimization. ICML 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.kernels import compiled, sparse_entries
from spark_auc.core.moments.column_moments import ColumnAccumulator, ColumnMoments
from spark_auc.core.moments.moments_tile import check_both_classes
from spark_auc.core.moments.objective import Quadratic, difference_rounding
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.noise import fill_normal
from spark_auc.core.state.schema import WHOLE, Part, Schema, Size, Values, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Bool, Float, Index, Keys
from spark_auc.errors import DataError


def _consistent(values: Values) -> str | None:
    d, columns = values["sketch"].shape[1], values["columns"].mean.shape[1]
    return None if d == columns else f"its sketch is of {d} columns, and its means of {columns}"


@dataclass(frozen=True, eq=False)
class LowRankMoments(SchemaState):
    """Sketches of both classes; index 0 of their first axis is the positive class.

    Parameters
    ----------
    seed
        Seed of the draws.
    rank
        Number of columns of a sketch.
    sums : (2, rank)
        ``s``.
    sketch : (2, d, rank)
        ``Z``.
    columns
        Column moments.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "LowRankMoments",
        1,
        {
            "seed": WHOLE,
            "rank": Size("rank", 1),
            "sums": reals(2, "rank"),
            "sketch": reals(2, "d", "rank"),
            "columns": Part(ColumnMoments),
        },
        _consistent,
    )

    seed: int
    rank: int
    sums: Float
    sketch: Float
    columns: ColumnMoments

    def merge(self, other: LowRankMoments) -> LowRankMoments:
        """The moments of both sets of rows; `DataError` for another seed, rank or dimension."""
        if (self.seed, self.rank) != (other.seed, other.rank):
            raise DataError(
                f"found a sketch of rank {other.rank} and seed {other.seed}, expected rank "
                f"{self.rank} and seed {self.seed}; make both alike"
            )
        sums, sketch = self.sums + other.sums, self.sketch + other.sketch
        return LowRankMoments(self.seed, self.rank, sums, sketch, self.columns.merge(other.columns))

    def scale(self, factor: float) -> LowRankMoments:
        """The moments with every weight multiplied by ``factor`` > 0 (forgetting)."""
        root = np.sqrt(factor)
        return LowRankMoments(
            self.seed, self.rank, root * self.sums, root * self.sketch, self.columns.scale(factor)
        )

    @staticmethod
    def nbytes(dimension: int, rank: int) -> int:
        """Size in bytes of a state."""
        return 2 * 8 * (dimension + 1) * rank + 6 * 8 * dimension

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""
        return int(self.columns.mean.shape[1])

    def along(self, w: Float) -> ColumnMoments:
        """Moments of one column, the scores ``X w`` for weights ``w`` ``(d,)``.

        The means are exact, and the variances those of the sketches.
        """
        means, zeros = (self.columns.mean @ w)[:, None], np.zeros((2, 1))
        scatter = (((w @ self.sketch) - means * self.sums) ** 2).sum(axis=1, keepdims=True)
        rows = self.columns.rows
        return ColumnMoments(rows, rows[:, None], self.columns.weight, means, scatter, zeros)

    def divisors(self) -> Float:
        """Divisors ``(d,)`` of columns to unit variance."""
        return self.columns.standard_deviation()

    def quadratic(self, scale: Float | None = None) -> Quadratic:
        """The quadratic of all pairs by the sketches; see `PairMoments.quadratic`."""
        columns, inverse = self.columns, self.columns.inverse(scale)
        check_both_classes(*columns.rows)
        roots = np.sqrt(columns.weight)[:, None, None]
        centred = (self.sketch - columns.mean[:, :, None] * self.sums[:, None]) / roots
        mu = columns.delta * inverse
        factor = np.concatenate([*(centred * inverse[:, None]), mu[:, None]], axis=1)
        Sigma = FactoredMatrix(np.ascontiguousarray(factor))
        return Quadratic(Sigma, mu, difference_rounding(columns.mean * inverse, Sigma.diagonal()))

    def facts(self, scale: Float | None) -> dict[str, float]:
        """Rank, and the share of the trace that is exact; that of columns of any ``scale``."""
        return {"covarianceRank": self.rank, "exactTraceShare": 0.0}


class LowRankAccumulator:
    """Adds up the sketches of batches with ``dimension`` columns; rows are drawn by their keys."""

    def __init__(self, dimension: int, rank: int, seed: int) -> None:
        self.seed, self.rank = seed, rank
        self.sums, self.sketch = np.zeros((2, rank)), np.zeros((2, dimension, rank))
        self.columns = ColumnAccumulator(dimension)

    def add(self, batch: Batch) -> None:
        """Add a batch; raises `DataError` unless it has ``dimension`` columns."""
        self.columns.add(batch)
        rows = sparse_entries(sparse.csr_matrix(batch.X))
        weights = np.asarray(batch.weights, float)
        _add(*rows, batch.y, weights, batch.keys(), self.seed, self.sums, self.sketch)

    def finish(self) -> LowRankMoments:
        """The moments of all batches."""
        columns = self.columns.finish()
        return LowRankMoments(self.seed, self.rank, self.sums, self.sketch, columns)


@compiled()
def _add(
    values: Float,
    indices: Index,
    starts: Index,
    positive: Bool,
    weights: Float,
    keys: Keys,
    seed: int,
    sums: Float,
    sketch: Float,
) -> None:
    rank = sums.shape[1]
    draw = np.empty(rank)
    for row in range(positive.size):
        fill_normal(seed, keys[row], draw)
        own, factor = 0 if positive[row] else 1, np.sqrt(weights[row] / rank)
        for c in range(rank):
            draw[c] *= factor
            sums[own, c] += draw[c]
        for e in range(starts[row], starts[row + 1]):
            line, value = sketch[own, indices[e]], values[e]
            for c in range(rank):
                line[c] += value * draw[c]


class FactoredMatrix(NamedTuple):
    """``F F'`` of a matrix ``F`` ``(d, r)``; a `spark_auc.core.moments.objective.Matrix`.

    Parameters
    ----------
    factor : (d, r)
        ``F``.
    """

    factor: Float

    @property
    def dimension(self) -> int:
        """``d``."""
        return len(self.factor)

    def matvec(self, vector: Float) -> Float:
        """Product with a vector ``(d,)``."""
        product: Float = self.factor @ (self.factor.T @ vector)
        return product

    def matmat(self, vectors: Float) -> Float:
        """Products ``(d, k)`` with the columns of ``vectors`` ``(d, k)``."""
        return self.matvec(vectors)

    def diagonal(self) -> Float:
        """The diagonal ``(d,)``."""
        return np.asarray(np.einsum("ij,ij->i", self.factor, self.factor))

    def restricted(self, features: NDArray[np.int64]) -> SymmetricTiles:
        """The matrix ``(k, k)`` between ``k`` features."""
        part = self.factor[features]
        return SymmetricTiles.of(part @ part.T)
