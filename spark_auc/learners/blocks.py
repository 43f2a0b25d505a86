"""Batches of any size as blocks of one size, for learners that depend on the blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.validation import check_whole


def blocks(batches: Iterable[Batch], size: int) -> Iterator[Batch]:
    """Cut the rows into blocks of ``size`` rows, in order; the last block may be smaller.

    Raises
    ------
    ConfigError
        The size is not a whole number of at least 1.
    """
    check_whole("the size of a block", size, 1)
    buffer: list[Batch] = []
    missing = size
    for batch in batches:
        start = 0
        while start < batch.y.size:
            end = min(start + missing, batch.y.size)
            buffer.append(batch.take(np.arange(start, end)))
            missing -= end - start
            start = end
            if not missing:
                yield stacked(buffer)
                buffer, missing = [], size
    if buffer:
        yield stacked(buffer)
