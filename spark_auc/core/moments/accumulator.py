"""Adding rows to a class's moments, in place: one Gram product per batch, dense or sparse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import gather
from spark_auc.core.moments.constant_columns import dense_means
from spark_auc.core.moments.moments_tile import (
    MomentsTile,
    Vectors,
    common_origin,
    other_dimension,
    part_names,
)
from spark_auc.core.moments.sparse_gram import OFTEN, WeightedRows, add_sparse_gram
from spark_auc.core.moments.tiles import Tiling
from spark_auc.core.types import Float, Index, Rows

# Rank-two corrections that wait to be applied together as one BLAS-3 product.
_PENDING = 32
# Sparse rows wait until they have so many stored entries, and are then added together: each time
# a column is met, its row of the matrix comes from memory. That costs little where the matrix is
# small, and rows shall not wait that take more memory than it does.
_LEAST, _MOST, _SHARE = 1 << 18, 1 << 22, 1 / 4
# As how many entries a part counts besides, for what it takes however short it is.
_PART = 128


@dataclass
class Accumulator:
    """Moments of one class under construction: the only place that adds rows, in place.

    Inside, the columns that the first sparse rows have most often come first, so that most
    additions meet a few tiles that stay in the processor's cache.
    """

    dimension: int
    rows: int = 0
    waiting: list[WeightedRows] = field(default_factory=list)
    waiting_entries: int = 0
    pending: list[tuple[Float, Float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        tiling = self.tiling = Tiling(self.dimension)
        self.gram = np.zeros(tiling.count * tiling.tile**2)
        self.strips, self.starts = tiling.strips(self.gram), tiling.row_starts()
        self.together = min(max(_LEAST, int(_SHARE * self.gram.size)), _MOST)
        self.vectors = Vectors(0.0, np.zeros(self.dimension), np.zeros(self.dimension))
        self.order: NDArray[np.int64] | None = None
        self.rank: Index = np.arange(self.dimension, dtype=np.uint32)

    def add(self, X: Rows, rows: NDArray[np.int64], weight: Float | None) -> None:
        """Add some rows of ``X``."""
        if not rows.size:
            return
        u = np.ones(rows.size) if weight is None else weight
        if isinstance(X, np.ndarray):
            chosen = np.asarray(X, float).take(rows, axis=0)
            if self.order is not None:
                chosen = chosen.take(self.order, axis=1)
            self._include(rows.size, self._add_dense(chosen, u, weight is not None))
            return
        size = rows.size + int((X.indptr[rows + 1] - X.indptr[rows]).sum())
        pieces = min(rows.size, -(-size // self.together))
        for some, v in zip(np.array_split(rows, pieces), np.array_split(u, pieces), strict=True):
            part = X[some]
            part.sum_duplicates()
            self.waiting.append((part, v))
            self.waiting_entries += some.size + part.nnz + _PART
            if self.waiting_entries >= self.together:
                self._add_waiting()

    def finish(self) -> None:
        """Add what waits to be added together with more."""
        self._add_waiting()
        self._apply_pending()

    def _add_waiting(self) -> None:
        if self.waiting:
            rows = sum(u.size for _, u in self.waiting)
            self._include(rows, self._add_sparse(self.waiting))
            self.waiting.clear()
            self.waiting_entries = 0

    def _include(self, rows: int, batch: Vectors) -> None:
        self.rows += rows
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
        origin = dense_means(X, u @ X / weight)
        X -= origin
        total: Float = u @ X
        if weighted:
            X *= np.sqrt(u)[:, None]
        for i, j in self.tiling.places():
            a, b = self.tiling.span(i), self.tiling.span(j)
            self._tile(i, j)[...] += X[:, a].T @ X[:, b]
        return Vectors(weight, origin, total)

    def _add_sparse(self, parts: Sequence[WeightedRows]) -> Vectors:
        if not self.rows and self.tiling.count > 1:
            columns = np.concatenate([X.indices for X, _ in parts])
            frequency = np.bincount(columns, minlength=self.dimension)
            # The others are seldom met beside each other, so that their order matters little.
            # Where it ascends, rows need no sorting, and tiles are fast to put back.
            often = np.sort(np.argsort(-frequency, kind="stable")[:OFTEN])
            self.order = np.concatenate([often, np.setdiff1d(np.arange(self.dimension), often)])
            self.rank = np.argsort(self.order, kind="stable").astype(np.uint32)
        origin, total = add_sparse_gram(parts, self.rank, self.starts, self.gram)
        return Vectors(sum(float(u.sum()) for _, u in parts), origin, total)

    def _tile(self, i: int, j: int) -> Float:
        """The products of two ranges of columns under construction, as a view."""
        rows, columns = self.tiling.span(i), self.tiling.span(j)
        return self.strips[i][: rows.stop - rows.start, columns]

    def _apply_pending(self) -> None:
        if not self.pending:
            return
        p = np.array([p for p, _ in self.pending]).T
        t = np.array([t for _, t in self.pending]).T
        left, right = np.hstack([p, t]), np.hstack([t, p])
        moved: NDArray[np.bool_] = np.any(t, axis=1)
        for i, j in self.tiling.places():
            a, b = self.tiling.span(i), self.tiling.span(j)
            if moved[a].any() or moved[b].any():
                self._tile(i, j)[...] += left[a] @ right[b].T
        self.pending.clear()

    def tiles(self) -> Iterator[MomentsTile]:
        """The tiles of all rows added, each made when asked for; nothing may be added after."""
        self.finish()
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
            gather(self.gram, self.starts, rows, columns, gram)
            gram.flags.writeable = False
            ends = [i, j]
            n, nothing = self.vectors.weight, np.zeros(tiling.tile)
            yield MomentsTile(self.rows, n, origin[ends], total[ends], gram, nothing)


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
