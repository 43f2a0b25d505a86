"""Bins that do not depend on the data: runs of 2^shift consecutive doubles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.types import Float

_SIGN = np.uint64(1 << 63)


def _keys(scores: Float) -> NDArray[np.uint64]:
    """Integers ``(n,)`` in the order of the doubles (IEEE 754: sign and magnitude)."""
    bits = scores.view(np.uint64)
    keys: NDArray[np.uint64] = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    return keys


_LOWEST = _keys(np.array([np.finfo(np.float64).min]))[0]


def bin_starts(scores: Float, shift: int) -> Float:
    """The least finite double ``(n,)`` of each score's bin."""
    width = np.uint64(shift)
    keys = np.maximum(_keys(scores) >> width << width, _LOWEST)
    starts: Float = np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)
    return starts


def least_shift(ordered: Float, max_bins: int) -> int:
    """The least shift for which ascending scores ``(n,)`` are in at most ``max_bins`` bins."""
    keys = _keys(ordered)
    # Neighbours are in one bin if the shift removes the highest bit in which they differ. The
    # shift must remove all but the max_bins - 1 largest differences.
    differences = keys[1:] ^ keys[:-1]
    if differences.size < max_bins:
        return 0
    return int(np.partition(differences, -max_bins)[-max_bins]).bit_length()
