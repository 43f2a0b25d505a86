"""Counter-based random numbers: a function of seed, stream and number, without stored state."""

from __future__ import annotations

import numpy as np

from spark_auc.core.batch import mix
from spark_auc.core.kernels import compiled
from spark_auc.core.types import Float

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@compiled()
def uniform(seed: int, stream: int, number: int) -> float:
    """The ``number``-th uniform draw in the open interval (0, 1) of a seed's stream."""
    start = mix(mix(np.uint64(seed) + _GOLDEN) + np.uint64(stream) * _GOLDEN)
    hashed = mix(start + (np.uint64(number) + np.uint64(1)) * _GOLDEN)
    # 52 bits leave room for the added half, so that no draw rounds to 1.
    return (np.float64(hashed >> np.uint64(12)) + 0.5) * 2.0**-52


@compiled()
def fill_normal(seed: int, stream: int, out: Float) -> None:
    """Fill ``out`` with the first standard normal draws of a stream (Box-Muller)."""
    for i in range(0, out.size, 2):
        radius = np.sqrt(-2.0 * np.log(uniform(seed, stream, i)))
        angle = 2.0 * np.pi * uniform(seed, stream, i + 1)
        out[i] = radius * np.cos(angle)
        if i + 1 < out.size:
            out[i + 1] = radius * np.sin(angle)
