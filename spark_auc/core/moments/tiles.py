"""A symmetric matrix stored as the square tiles of its lower triangle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import tiles_times_vector
from spark_auc.core.parallel import mapped
from spark_auc.core.types import Float, Places

LARGEST_TILE = 512
# A fixed number, so that the order of summation does not depend on the number of cores.
_PRODUCT_CHUNKS = 8


@dataclass(frozen=True)
class Tiling:
    """The division of a matrix of dimension ``d`` into tiles.

    Tiles are equal squares, padded with zeros at the end, in row-major order of the lower triangle.
    Up to `LARGEST_TILE` features the matrix is one tile without padding.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    """

    dimension: int

    @property
    def blocks(self) -> int:
        """Number of tile rows."""
        return max(1, -(-self.dimension // LARGEST_TILE))

    @property
    def tile(self) -> int:
        """Side of a tile."""
        return -(-self.dimension // self.blocks)

    @property
    def count(self) -> int:
        """Number of tiles."""
        return self.blocks * (self.blocks + 1) // 2

    @property
    def nbytes(self) -> int:
        """Bytes of all tiles in float64."""
        return self.count * self.tile**2 * 8

    def places(self) -> Iterator[tuple[int, int]]:
        """Tile row and tile column of each tile, in storage order."""
        return ((i, j) for i in range(self.blocks) for j in range(i + 1))

    def span(self, block: int) -> slice:
        """The range of features of a tile row."""
        return slice(block * self.tile, min((block + 1) * self.tile, self.dimension))

    def strips(self, values: Float) -> list[Float]:
        """Views ``(tile, (i + 1) tile)`` of the tile rows ``i`` of a flat array."""
        parts = np.split(values, self.tile**2 * np.cumsum(np.arange(1, self.blocks)))
        return [part.reshape(self.tile, (i + 1) * self.tile) for i, part in enumerate(parts)]

    def row_starts(self) -> Places:
        """Position ``(d,)`` in the flat array of `strips` at which each matrix row begins."""
        block, inside = np.divmod(np.arange(self.dimension, dtype=np.uint64), self.tile)
        width = (block + 1) * self.tile
        starts: Places = block * width // 2 * self.tile + inside * width
        return starts


@dataclass(frozen=True, eq=False)
class SymmetricTiles:
    """A symmetric ``(d, d)`` matrix.

    Parameters
    ----------
    dimension
        ``d``.
    tiles : (count, tile, tile)
        Tiles in the order of `Tiling.places`. Diagonal tiles hold both triangles; padding is 0.
    """

    dimension: int
    tiles: Float

    @classmethod
    def of(cls, matrix: Float) -> SymmetricTiles:
        """The tiled form of a full symmetric matrix ``(d, d)``."""
        tiling = Tiling(len(matrix))
        tiles = np.zeros((tiling.count, tiling.tile, tiling.tile))
        for k, (i, j) in enumerate(tiling.places()):
            part = matrix[tiling.span(i), tiling.span(j)]
            tiles[k, : part.shape[0], : part.shape[1]] = part
        return cls(len(matrix), tiles)

    @property
    def tiling(self) -> Tiling:
        """The division of this matrix into tiles."""
        return Tiling(self.dimension)

    def block(self, k: int, i: int, j: int) -> Float:
        """Tile ``k`` at place ``(i, j)`` without its padding, as a view."""
        rows, columns = self.tiling.span(i), self.tiling.span(j)
        return self.tiles[k, : rows.stop - rows.start, : columns.stop - columns.start]

    def matvec(self, vector: Float) -> Float:
        """Product with a vector ``(d,)``, on all cores, in a fixed order of summation."""
        tiling = self.tiling
        padded = np.zeros(tiling.blocks * tiling.tile)
        padded[: self.dimension] = vector
        bounds = np.linspace(0, tiling.count, min(_PRODUCT_CHUNKS, tiling.count) + 1).astype(int)
        parts = np.zeros((len(bounds) - 1, padded.size))

        def product(c: int) -> None:
            tiles_times_vector(self.tiles, bounds[c], bounds[c + 1], padded, tiling.tile, parts[c])

        if len(parts) == 1:
            product(0)
        else:
            mapped(product, range(len(parts)))
        total: Float = parts.sum(axis=0)[: self.dimension]
        return total

    def matmat(self, vectors: Float) -> Float:
        """Products ``(d, k)`` with the columns of ``vectors`` ``(d, k)``, by BLAS."""
        tiling = self.tiling
        out = np.zeros(vectors.shape)
        for k, (i, j) in enumerate(tiling.places()):
            block, rows, columns = self.block(k, i, j), tiling.span(i), tiling.span(j)
            out[rows] += block @ vectors[columns]
            if i != j:
                out[columns] += block.T @ vectors[rows]
        return out

    def diagonal(self) -> Float:
        """The diagonal ``(d,)``."""
        return np.concatenate(
            [self.block(i * (i + 3) // 2, i, i).diagonal() for i in range(self.tiling.blocks)]
        )

    def columns(self, features: NDArray[np.int64]) -> Float:
        """The columns of ``k`` features, ``(d, k)``, in Fortran order."""
        tiling = self.tiling
        out = np.empty((self.dimension, len(features)), order="F")
        tile_columns = features // tiling.tile
        for j in np.unique(tile_columns):
            chosen = np.flatnonzero(tile_columns == j)
            offset = features[chosen] - j * tiling.tile
            for i in range(tiling.blocks):
                if i >= j:
                    part = self.block(i * (i + 1) // 2 + j, i, j)[:, offset]
                else:
                    part = self.block(j * (j + 1) // 2 + i, j, i)[offset].T
                out[tiling.span(i), chosen] = part
        return out

    def with_first(self, columns: Float) -> SymmetricTiles:
        """The matrix with other first ``k`` rows and columns, those of ``columns`` ``(d, k)``."""
        tiling, tiles, k = self.tiling, self.tiles.copy(), columns.shape[1]
        for number, (i, j) in enumerate(tiling.places()):
            rows, inside = tiling.span(i), tiling.span(j)
            width = max(0, min(k, inside.stop) - inside.start)
            block = tiles[number, : rows.stop - rows.start, : inside.stop - inside.start]
            block[:, :width] = columns[rows, inside.start : inside.start + width]
            if i == j:
                block[:width] = block[:, :width].T
        return SymmetricTiles(self.dimension, tiles)

    def restricted(self, features: NDArray[np.int64]) -> SymmetricTiles:
        """The matrix ``(k, k)`` between ``k`` features; this one if they are all, in order."""
        if np.array_equal(features, np.arange(self.dimension)):
            return self
        return SymmetricTiles.of(self.columns(features).T.take(features, axis=1))

    def toarray(self) -> Float:
        """The full matrix ``(d, d)``."""
        return self.columns(np.arange(self.dimension))
