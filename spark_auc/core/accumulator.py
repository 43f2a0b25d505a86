"""Adding rows to a class's moments, in place: one Gram product per batch, dense or sparse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.kernels import add_sparse_gram, gather_tile, sparse_column_sums
from spark_auc.core.moments_tile import (
    MomentsTile,
    Vectors,
    common_origin,
    other_dimension,
    part_names,
)
from spark_auc.core.tiles import Tiling

Float = NDArray[np.float64]
Rows: TypeAlias = Float | sparse.csr_matrix | sparse.csr_array

# Rank-two corrections that wait to be applied together as one BLAS-3 product.
_PENDING = 32


@dataclass
class Accumulator:
    """Moments of one class under construction: the only place that adds rows, in place.

    Inside, the columns of sparse rows stand in order of their frequency in the first batch, so
    that most additions meet a few tiles that stay in the processor's cache.
    """

    dimension: int
    rows: int = 0
    pending: list[tuple[Float, Float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        tiling = self.tiling = Tiling(self.dimension)
        self.gram = np.zeros((tiling.count, tiling.tile, tiling.tile))
        self.vectors = Vectors(0.0, np.zeros(self.dimension), np.zeros(self.dimension))
        self.order: NDArray[np.int64] | None = None
        self.rank = np.arange(self.dimension)

    def add(self, X: Rows, rows: NDArray[np.int64], weight: Float | None) -> None:
        """Add some rows of ``X``."""
        if not rows.size:
            return
        u = np.ones(rows.size) if weight is None else weight
        if sparse.issparse(X):
            batch = self._add_sparse(X, rows, u)
        else:
            chosen = np.asarray(X, float).take(rows, axis=0)
            if self.order is not None:
                chosen = chosen.take(self.order, axis=1)
            batch = self._add_dense(chosen, u, weight is not None)
        self.rows += rows.size
        if not self.vectors.weight:
            self.vectors = batch
            return
        origin = common_origin(self.vectors, batch)
        moved = []
        for vectors in (self.vectors, batch):
            there, p, t = vectors.moved(origin)
            moved.append(there)
            if t.any():
                self.pending.append((p, t))
        self.vectors = moved[0].plus(moved[1])
        if len(self.pending) >= _PENDING:
            self._apply_pending()

    def _add_dense(self, X: Float, u: Float, weighted: bool) -> Vectors:
        weight = float(u.sum())
        origin: Float = u @ X / weight
        X -= origin
        total: Float = u @ X
        if weighted:
            X *= np.sqrt(u)[:, None]
        for k, (i, j) in enumerate(self.tiling.places()):
            a, b = X[:, self.tiling.span(i)], X[:, self.tiling.span(j)]
            self.gram[k, : a.shape[1], : b.shape[1]] += a.T @ b
        return Vectors(weight, origin, total)

    def _add_sparse(
        self, X: sparse.csr_matrix | sparse.csr_array, rows: NDArray[np.int64], u: Float
    ) -> Vectors:
        if not self.rows and self.tiling.count > 1:
            frequency = np.bincount(X.indices, minlength=self.dimension)
            self.order = np.argsort(-frequency, kind="stable")
            self.rank = np.argsort(self.order, kind="stable")
        data = np.asarray(X.data, float)
        indices, indptr = self.rank.astype(np.int32)[X.indices], np.asarray(X.indptr, np.int64)
        entries = data, indices, indptr, rows, u
        weight = float(u.sum())
        stored = np.zeros(self.dimension, np.int64)
        origin, total = np.zeros((2, self.dimension))
        sparse_column_sums(*entries, origin, stored, total)
        full = stored == rows.size
        if full.any():
            origin = np.where(full, total / weight, 0.0)
            total = np.zeros(self.dimension)
            sparse_column_sums(*entries, origin, stored, total)
        longest = int(np.diff(indptr).max(initial=0))
        add_sparse_gram(*entries, origin, self.tiling.tile, longest, self.gram.reshape(-1))
        return Vectors(weight, origin, total)

    def _apply_pending(self) -> None:
        if not self.pending:
            return
        p = np.array([p for p, _ in self.pending]).T
        t = np.array([t for _, t in self.pending]).T
        left, right = np.hstack([p, t]), np.hstack([t, p])
        moved: NDArray[np.bool_] = np.any(t, axis=1)
        for k, (i, j) in enumerate(self.tiling.places()):
            a, b = self.tiling.span(i), self.tiling.span(j)
            if moved[a].any() or moved[b].any():
                update = left[a] @ right[b].T
                self.gram[k, : update.shape[0], : update.shape[1]] += update
        self.pending.clear()

    def tiles(self) -> Iterator[MomentsTile]:
        """The tiles of all rows added, each made when asked for; nothing may be added after."""
        self._apply_pending()
        tiling = self.tiling
        size = tiling.blocks * tiling.tile
        origin, total = np.zeros((2, size))
        origin[: self.dimension] = self.vectors.origin[self.rank]
        total[: self.dimension] = self.vectors.total[self.rank]
        origin, total = (v.reshape(tiling.blocks, tiling.tile) for v in (origin, total))
        for i, j in tiling.places():
            gram = np.zeros((tiling.tile, tiling.tile))
            # Diagonal tiles hold their lower triangle only, which this mirrors.
            rows, columns = self.rank[tiling.span(i)], self.rank[tiling.span(j)]
            gather_tile(self.gram.reshape(-1), rows, columns, tiling.tile, gram)
            gram.flags.writeable = False
            ends = [i, j]
            yield MomentsTile(self.rows, self.vectors.weight, origin[ends], total[ends], gram)


class PairAccumulator:
    """The moments of both classes under construction.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    """

    def __init__(self, dimension: int) -> None:
        self.positive, self.negative = Accumulator(dimension), Accumulator(dimension)

    def add(self, X: Rows, y: NDArray[np.bool_], weight: Float | None) -> None:
        """Add rows ``X`` ``(n, d)``, ``y`` true where positive; `DataError` for another ``d``."""
        if X.shape[1] != self.positive.dimension:
            raise other_dimension(self.positive.dimension, X.shape[1])
        for accumulator, mine in ((self.positive, y), (self.negative, ~y)):
            rows = np.flatnonzero(mine)
            accumulator.add(X, rows, None if weight is None else weight[rows])

    def parts(self) -> Iterator[tuple[str, MomentsTile]]:
        """The tiles by the names of `part_names`, each made when asked for."""
        names = part_names(self.positive.dimension)
        return zip(names, chain(self.positive.tiles(), self.negative.tiles()), strict=True)
