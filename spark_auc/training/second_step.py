"""The negatives that a first ranker scores highest, for a second step at low false positive rates.

Between a positive row and the negatives below every threshold of use, the order does not matter:
the partial AUC up to a rate ``f`` counts the pairs with the share ``f`` of the negatives of the
highest scores. Counting these and the next ones more often moves the squared loss towards them;
`experiments.partial_auc` has how much it gains.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import cast

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import RowSource, State, batchwise
from spark_auc.core.types import Float

_log = logging.getLogger(__name__)

# Negatives that count more often, relative to the greatest false positive rate, and how often.
TOP, TIMES = 5.0, 4.0
# Greatest number of bins of scores, of 56 bytes each.
_BINS = 1 << 14


def reweighted(rows: RowSource, w: Float, max_fpr: float) -> RowSource:
    """The rows, in which the negatives of the highest scores count `TIMES` as often.

    They are `TOP` ``max_fpr`` of the weight of the negatives, and those of an equal score or in the
    bin of the last. One pass over the scores finds the least of theirs.

    Parameters
    ----------
    rows
        Rows of both classes.
    w : (d,)
        Weights of the first ranker, for raw columns.
    max_fpr
        Greatest false positive rate, in (0, 1 / `TOP`).
    """

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        histogram = ScoreHistogram.zero(_BINS)
        for X, y, weight, *_ in batches:
            part = ScoreHistogram.of(settled_scores(X, w), y, weight, _BINS)
            histogram = histogram.merge(part)
        yield "scores", histogram

    states = rows.fold(
        fold, (ScoreHistogram,), state_bytes=64 * _BINS, what="a histogram of scores"
    )
    table = cast(ScoreHistogram, states["scores"]).table
    # Weight of the negatives from each score on.
    above = np.cumsum(table.sums[0, 1, ::-1])[::-1]
    last = int(np.flatnonzero(above >= TOP * max_fpr * above[0])[-1])
    least = float(table.score[last])
    _log.info(
        "second step: %.3g of the negatives, of scores from %.6g on, count %g times",
        above[last] / above[0],
        least,
        TIMES,
    )

    def counted(batch: Batch) -> Batch:
        high = ~batch.y & (settled_scores(batch.X, w) >= least)
        return batch._replace(weight=np.where(high, TIMES * batch.weights, batch.weights))

    return rows.changed(batchwise(counted))
