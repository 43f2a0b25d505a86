"""Random pairs of rows, for kernels with pairwise steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import LINE, compiled, prefetch
from spark_auc.core.noise import uniform
from spark_auc.core.types import Float, Index, Places

# Pairs drawn and prefetched before their steps: the rows lie at random addresses, and cache misses
# would take longer than the steps.
AHEAD = 4


@compiled()
def draw_pairs(
    values: Float,
    indices: Index,
    starts: Index | Places,
    firsts: NDArray[np.int64],
    seconds: NDArray[np.int64],
    seed: int,
    stream: int,
    first: int,
    rows: NDArray[np.int64],
    begins: Places,
    ends: Places,
) -> None:
    """Draw pairs, with replacement of the pairs, and prefetch the entries of their rows.

    Parameters
    ----------
    values, indices, starts
        The rows as `spark_auc.learners.learner.entries` returns them; ``indices`` is empty if the
        rows are dense.
    firsts, seconds
        Numbers of the rows of which the first and the second are drawn: those of each class. To
        draw any two different rows, all numbers, and no seconds.
    seed, stream, first
        Seed and stream of `uniform`, and number of the first pair; each pair takes two draws.
    rows, begins, ends : (pairs, 2)
        Output: number of each pair's first and second row, and the first and last position of its
        entries.
    """
    for k in range(begins.shape[0]):
        pair = 2 * (first + k)
        i = firsts[int(uniform(seed, stream, pair) * firsts.size)]
        if seconds.size:
            j = seconds[int(uniform(seed, stream, pair + 1) * seconds.size)]
        else:
            j = int(uniform(seed, stream, pair + 1) * (firsts.size - 1))
            j += j >= i
        rows[k, 0], rows[k, 1] = i, j
        begins[k, 0], begins[k, 1] = starts[i], starts[j]
        ends[k, 0], ends[k, 1] = starts[i + 1], starts[j + 1]
    for k in range(begins.shape[0]):
        for side in range(2):
            begin, end = np.int64(begins[k, side]), np.int64(ends[k, side])
            for p in range(begin, end, LINE // 8):
                prefetch(values, p)
            if indices.size:
                for p in range(begin, end, LINE // 4):
                    prefetch(indices, p)


@compiled(fastmath={"reassoc", "contract"})
def row_product(values: Float, indices: Index, begin: int, end: int, vector: Float) -> float:
    """The product of one row with a vector."""
    total = 0.0
    if indices.size:
        for p in range(begin, end):
            total += values[p] * vector[indices[p]]
    else:
        row = values[begin:end]
        for p in range(row.size):
            total += row[p] * vector[p]
    return total


@compiled()
def add_row(factor: float, values: Float, indices: Index, begin: int, end: int, out: Float) -> None:
    """Add a multiple of one row to a vector."""
    if indices.size:
        for p in range(begin, end):
            out[indices[p]] += factor * values[p]
    else:
        row = values[begin:end]
        for p in range(row.size):
            out[p] += factor * row[p]
