"""Adding rows to a class's moments, in place: one Gram product per batch, dense or sparse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.kernels import add_sparse_gram, sparse_column_sums
from spark_auc.core.moments_tile import MomentsTile, Vectors, common_origin
from spark_auc.core.tiles import Tiling

Float = NDArray[np.float64]
Rows: TypeAlias = Float | sparse.csr_matrix | sparse.csr_array

# Rank-two corrections that wait to be applied together as one BLAS-3 product.
_PENDING = 32


@dataclass
class Accumulator:
    """Moments of one class under construction: the only place that adds rows, in place."""

    dimension: int
    rows: int = 0
    pending: list[tuple[Float, Float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        tiling = self.tiling = Tiling(self.dimension)
        self.gram = np.zeros((tiling.count, tiling.tile, tiling.tile))
        self.vectors = Vectors(0.0, np.zeros(self.dimension), np.zeros(self.dimension))

    def add(self, X: Rows, rows: NDArray[np.int64], weight: Float | None) -> None:
        """Add some rows of ``X``."""
        if not rows.size:
            return
        u = np.ones(rows.size) if weight is None else weight
        if sparse.issparse(X):
            batch = self._add_sparse(X, rows, u)
        else:
            batch = self._add_dense(np.asarray(X, float)[rows], u, weight is not None)
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
        data = np.asarray(X.data, float)
        indices, indptr = np.asarray(X.indices, np.int32), np.asarray(X.indptr, np.int64)
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

    def finish(self) -> tuple[MomentsTile, ...]:
        """The tiles of all rows added; the accumulator must not be used again."""
        self._apply_pending()
        tiling = self.tiling
        # Sparse rows and rounding fill the diagonal tiles unevenly: the lower triangle decides.
        for i in range(tiling.blocks):
            diagonal = self.gram[i * (i + 3) // 2]
            upper = np.triu_indices(tiling.tile, 1)
            diagonal[upper] = diagonal.T[upper]
        size = tiling.blocks * tiling.tile
        origin, total = np.zeros((2, size))
        origin[: self.dimension], total[: self.dimension] = self.vectors.origin, self.vectors.total
        origin, total = (v.reshape(tiling.blocks, tiling.tile) for v in (origin, total))
        self.gram.flags.writeable = False
        return tuple(
            MomentsTile(self.rows, self.vectors.weight, origin[[i, j]], total[[i, j]], self.gram[k])
            for k, (i, j) in enumerate(tiling.places())
        )
