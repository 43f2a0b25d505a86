"""Accumulation of the moments of a class: one Gram product per batch of dense or sparse rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import gather
from spark_auc.core.moments.column_sums import CHAIN, dense_sums, rounded
from spark_auc.core.moments.constant_columns import dense_means
from spark_auc.core.moments.moments_tile import (
    MomentsTile,
    Vectors,
    common_origin,
    other_dimension,
    part_names,
)
from spark_auc.core.moments.sparse_gram import (
    FREQUENT,
    SHARES,
    WeightedRows,
    add_sparse_gram,
    longest_chain,
    survey_columns,
)
from spark_auc.core.moments.tiles import Tiling
from spark_auc.core.types import Float, Index, Rows

# Number of rank-two corrections that are collected and applied as one BLAS-3 product.
_PENDING = 32
# Sparse rows are collected up to a number of stored entries and then added together, because each
# visit of a column loads its row of the matrix from memory. The number is a share of the matrix's
# entries, within bounds: a small matrix stays in the cache, and the rows collected must not take
# more memory than the matrix.
_LEAST, _MOST, _SHARE = 1 << 18, 1 << 22, 1 / 4
# Overhead of a part of the collected rows, in entries.
_PART = 128
# Rounded operations besides the additions of products, for each set of rows that is included.
_OPERATIONS = 16
# Sums of products of simple multiples are exact up to here.
_LARGEST_EXACT = 2.0**53 / SHARES**2


@dataclass
class Accumulator:
    """Moments of one class under construction, updated in place.

    This is the only place that adds rows. Inside, the columns that are most frequent in the first
    sparse rows come first, so that most updates are to a few tiles that stay in the cache.

    Sparse columns are divided by their unit, the first value of the column, as long as all values
    are simple multiples of it: sums of products of multiples are exact, whereas equal products,
    added one by one, are all rounded in one direction.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    rows
        Number of rows added.
    collected
        Sparse rows that are collected and not added yet.
    collected_entries
        Stored entries of these rows, with the overhead of each part.
    pending
        Rank-two corrections ``p t' + t p'`` that are not applied yet.
    included
        Number of sets of rows added.
    units : (d,)
        Unit of each column, by place; 0 before its first value.
    simple
        Whether all values are simple multiples of their units; otherwise the units are 1.
    additions, chain
        Number of rounded additions to each row of the matrix ``(d,)``, and the largest number of
        products that were added one by one before them.
    """

    dimension: int
    rows: int = 0
    collected: list[WeightedRows] = field(default_factory=list)
    collected_entries: int = 0
    pending: list[tuple[Float, Float]] = field(default_factory=list)
    included: int = 0

    def __post_init__(self) -> None:
        tiling = self.tiling = Tiling(self.dimension)
        self.gram = np.zeros(tiling.count * tiling.tile**2)
        self.strips, self.starts = tiling.strips(self.gram), tiling.row_starts()
        self.entries_per_update = min(max(_LEAST, int(_SHARE * self.gram.size)), _MOST)
        self.vectors = Vectors(0.0, np.zeros(self.dimension), np.zeros(self.dimension))
        self.order: NDArray[np.int64] | None = None
        self.rank: Index = np.arange(self.dimension, dtype=np.uint32)
        self.units, self.simple = np.zeros(self.dimension), True
        self.additions, self.chain = np.zeros(self.dimension, np.int64), 0

    def add(self, X: Rows, rows: NDArray[np.int64], weight: Float | None) -> None:
        """Add rows of ``X`` ``(n, d)``.

        Parameters
        ----------
        X : (n, d), dense or CSR
            Features.
        rows : (m,)
            Numbers of the rows to add.
        weight : (m,), optional
            Weights of these rows. Default: 1.
        """
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
        pieces = min(rows.size, -(-size // self.entries_per_update))
        numbers, weights = np.array_split(rows, pieces), np.array_split(u, pieces)
        for part_numbers, part_weight in zip(numbers, weights, strict=True):
            part = X[part_numbers].astype(float, copy=False)
            part.sum_duplicates()
            self.collected.append((part, part_weight))
            self.collected_entries += part_numbers.size + part.nnz + _PART
            if self.collected_entries >= self.entries_per_update:
                self._add_collected()

    def finish(self) -> None:
        """Add the collected rows and apply the pending corrections."""
        self._add_collected()
        self._apply_pending()

    def _add_collected(self) -> None:
        if self.collected:
            rows = sum(u.size for _, u in self.collected)
            self._include(rows, self._add_sparse(self.collected))
            self.collected.clear()
            self.collected_entries = 0

    @property
    def unit(self) -> Float:
        """The number ``(d,)`` by which each column is divided, by place."""
        return np.where(self.units == 0.0, 1.0, self.units)

    def _end_units(self) -> None:
        """Give all columns the unit 1, in what was added too."""
        unit, self.simple = self.unit, False
        self.units = np.ones(self.dimension)
        if not self.rows or (unit == 1.0).all():
            return
        self._apply_pending()
        n, origin, total = self.vectors.weight, self.vectors.origin, self.vectors.total
        self.vectors = Vectors(n, origin * unit, total * unit)
        for i, j in self.tiling.places():
            tile = self._tile(i, j)
            tile *= unit[self.tiling.span(i)][:, None]
            tile *= unit[self.tiling.span(j)]

    def _include(self, rows: int, batch: Vectors) -> None:
        self.rows += rows
        self.included += 1
        if not self.vectors.weight:
            self.vectors = batch
            return
        origin = common_origin(self.vectors, batch)
        moved = []
        for vectors in (self.vectors, batch):
            moved_vectors, p, t = vectors.moved(origin)
            moved.append(moved_vectors)
            if t.any():
                self.pending.append((p, t))
        self.vectors = moved[0].plus(moved[1])
        if len(self.pending) >= _PENDING:
            self._apply_pending()

    def _add_dense(self, X: Float, u: Float, weighted: bool) -> Vectors:
        self._end_units()
        weight = float(u.sum())
        origin = dense_means(X, dense_sums(X * u[:, None] if weighted else X) / weight)
        X -= origin
        total = dense_sums(X * u[:, None] if weighted else X)
        if weighted:
            X *= np.sqrt(u)[:, None]
        for start in range(0, len(X), CHAIN):
            rows = X[start : start + CHAIN]
            for i, j in self.tiling.places():
                a, b = self.tiling.span(i), self.tiling.span(j)
                self._tile(i, j)[...] += rows[:, a].T @ rows[:, b]
            self.additions += 1
            self.chain = max(self.chain, len(rows))
        return Vectors(weight, origin, total)

    def _add_sparse(self, parts: Sequence[WeightedRows]) -> Vectors:
        if not self.rows and self.tiling.count > 1:
            columns = np.concatenate([X.indices for X, _ in parts])
            frequency = np.bincount(columns, minlength=self.dimension)
            # Both parts are in ascending order: rows then need no sorting, and the final
            # permutation of the tiles is fast. The order of rare columns matters little.
            frequent = np.sort(np.argsort(-frequency, kind="stable")[:FREQUENT])
            rare = np.setdiff1d(np.arange(self.dimension), frequent)
            self.order = np.concatenate([frequent, rare])
            self.rank = np.argsort(self.order, kind="stable").astype(np.uint32)
        survey = survey_columns(parts, self.rank, self.units, self.simple)
        if not survey.simple:
            self._end_units()
        origin, total, additions = add_sparse_gram(
            parts, survey, self.rank, self.unit, self.starts, self.gram
        )
        self.additions += additions
        if additions.any():
            longest = min(sum(u.size for _, u in parts), longest_chain(self.dimension))
            self.chain = max(self.chain, longest)
        return Vectors(sum(float(u.sum()) for _, u in parts), origin, total)

    def _diagonal(self) -> Float:
        places = self.starts + np.arange(self.dimension, dtype=np.uint64)
        diagonal: Float = self.gram[places]
        return diagonal

    def _rounded_operations(self) -> float:
        """Bound on the number of rounded operations that make an element of the Gram matrix."""
        chain = int(self.additions.max(initial=0))
        if chain:
            chain += self.chain
        elif self._diagonal().max(initial=0.0) >= _LARGEST_EXACT:
            chain = self.rows
        return float(chain + _OPERATIONS * self.included)

    def _tile(self, i: int, j: int) -> Float:
        """View of the Gram matrix between two ranges of columns."""
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
        """The tiles of all rows added, computed one by one; no rows may be added afterwards."""
        self.finish()
        tiling = self.tiling
        size = tiling.blocks * tiling.tile
        unit = self.unit
        vectors = np.zeros((2, size))
        found = np.stack([self.vectors.origin, self.vectors.total]) * unit
        vectors[:, : self.dimension] = found[:, self.rank]
        origin, total = vectors.reshape(2, tiling.blocks, tiling.tile)
        operations = self._rounded_operations()
        for i, j in tiling.places():
            gram = np.zeros((tiling.tile, tiling.tile))
            # The accumulated matrix is a lower triangle; `gather` also fills the upper triangle of
            # diagonal tiles.
            rows, columns = self.rank[tiling.span(i)], self.rank[tiling.span(j)]
            gather(self.gram, self.starts, rows, columns, np.argsort(columns), unit, gram)
            gram.flags.writeable = False
            ends, rounding = [i, j], np.zeros(tiling.tile)
            if i == j:
                rounding = rounded(operations, gram.diagonal())
            n = self.vectors.weight
            yield MomentsTile(self.rows, n, origin[ends], total[ends], gram, rounding)


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
        """Add rows.

        Parameters
        ----------
        X : (n, d), dense or CSR
            Features.
        y : (n,)
            True for positive rows.
        weight : (n,), optional
            Row weights. Default: 1.

        Raises
        ------
        DataError
            The rows have another number of features.
        """
        if X.shape[1] != self.positive.dimension:
            raise other_dimension(self.positive.dimension, X.shape[1])
        for accumulator, in_class in ((self.positive, y), (self.negative, ~y)):
            rows = np.flatnonzero(in_class)
            accumulator.add(X, rows, None if weight is None else weight[rows])

    def parts(self) -> Iterator[tuple[str, MomentsTile]]:
        """The tiles under the names of `part_names`, computed one by one."""
        names = part_names(self.positive.dimension)
        return zip(names, chain(self.positive.tiles(), self.negative.tiles()), strict=True)
