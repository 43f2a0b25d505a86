"""Rows cut anew into blocks of one size, so that a learner of blocks sees no arrival sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.validation import check_whole


def blocks(batches: Iterable[Batch], size: int) -> Iterator[Batch]:
    """The same rows in the same order, ``size`` at a time; the last block holds what is left."""
    check_whole("the size of a block", size, 1)
    waiting: list[Batch] = []
    missing = size
    for batch in batches:
        start = 0
        while start < batch.y.size:
            end = min(start + missing, batch.y.size)
            waiting.append(batch.take(np.arange(start, end)))
            missing -= end - start
            start = end
            if not missing:
                yield stacked(waiting)
                waiting, missing = [], size
    if waiting:
        yield stacked(waiting)
