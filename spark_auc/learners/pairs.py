"""Random pairs of a positive and a negative row, for kernels with pairwise steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import LINE, compiled, prefetch
from spark_auc.core.types import Float, Index, Places
from spark_auc.learners.noise import uniform

# Pairs drawn and prefetched before their steps: the rows lie at random addresses, and cache misses
# would take longer than the steps.
AHEAD = 4


@compiled()
def draw_pairs(
    values: Float,
    indices: Index,
    starts: Index | Places,
    positives: NDArray[np.int64],
    negatives: NDArray[np.int64],
    seed: int,
    stream: int,
    first: int,
    begins: Places,
    ends: Places,
) -> None:
    """Draw pairs with replacement, and prefetch the entries of their rows.

    Parameters
    ----------
    values, indices, starts
        The rows as `spark_auc.learners.learner.entries` returns them; ``indices`` is empty if the
        rows are dense.
    positives, negatives
        Numbers of the rows of each class.
    seed, stream, first
        Seed and stream of `uniform`, and number of the first pair; each pair takes two draws.
    begins, ends : (pairs, 2)
        Output: first and last position of the entries of each pair's positive and negative row.
    """
    for k in range(begins.shape[0]):
        pair = 2 * (first + k)
        i = positives[int(uniform(seed, stream, pair) * positives.size)]
        j = negatives[int(uniform(seed, stream, pair + 1) * negatives.size)]
        begins[k] = starts[i], starts[j]
        ends[k] = starts[i + 1], starts[j + 1]
    for k in range(begins.shape[0]):
        for side in range(2):
            begin, end = np.int64(begins[k, side]), np.int64(ends[k, side])
            for p in range(begin, end, LINE // 8):
                prefetch(values, p)
            if indices.size:
                for p in range(begin, end, LINE // 4):
                    prefetch(indices, p)
