"""Random pairs of a positive and a negative row, for kernels that step along them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import LINE, compiled, prefetch
from spark_auc.core.types import Float, Index, Places
from spark_auc.learners.noise import uniform

# Pairs that are drawn, and their rows fetched, before the steps along them: rows lie at random
# places, and waiting for memory would take longer than the steps.
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
    """Draw pairs, with replacement, and begin to fetch the entries of their rows.

    Parameters
    ----------
    values, indices, starts
        The rows as `spark_auc.learners.learner.entries` has them; ``indices`` is empty where every
        row stores all its columns in order.
    positives, negatives
        Numbers of the rows of each class.
    seed, stream, first
        Say which draws of `uniform` to take: two a pair, from pair ``first`` on.
    begins, ends : (pairs, 2)
        Receive where the entries of the positive and of the negative row of each pair lie.
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
