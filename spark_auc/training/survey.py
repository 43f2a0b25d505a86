"""Which pairs to train on, and the pass that finds the rows to draw for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.operator import VectorSum, labelled_column_moments
from spark_auc.core.row_source import RowSource, State
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.repeats import Repeats, distinct_keys

Estimation = Literal["exact", "paired", "complete"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sampling:
    """Which pairs to train on.

    Parameters
    ----------
    estimator
        "exact": all pairs. "paired": pairs of the k-th positive with the k-th negative draw.
        "complete": all pairs of the same draws.
    pairs
        Number ``S`` of draws of each class.
    seed
        What the draws are a function of, with what tells a row apart.
    """

    estimator: Estimation = "exact"
    pairs: int = 0
    seed: int = 0


class Survey(NamedTuple):
    """What one pass over all rows tells.

    Parameters
    ----------
    columns
        Column moments of all rows.
    labels
        How many rows have each label.
    rows
        All rows; told apart, where rows are drawn.
    arrivals
        The first draws, where rows are drawn.
    """

    columns: ColumnMoments
    labels: LabelCounts
    rows: RowSource
    arrivals: FirstArrivals | None = None


def survey(rows: RowSource, sampling: Sampling) -> Survey:
    """Column moments and the first draws of all rows, in one pass."""
    if sampling.estimator == "exact":
        return Survey(*labelled_column_moments(rows), rows)
    dimension, seed = rows.dimension, sampling.seed
    # The last draw may tie with the first one that is none.
    limit = sampling.pairs + 1

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        met = Repeats()
        first = [FirstArrivals.zero(limit)] * 2
        repeated = 0

        def noted() -> Iterator[Batch]:
            nonlocal repeated
            for batch in batches:
                *identities, copies = met.identities(batch)
                repeated += int(np.count_nonzero(copies))
                for way, key in enumerate(identities):
                    first[way] = first[way].update(batch._replace(key=key), seed)
                yield batch

        yield "columns", ColumnMoments.fold(noted(), dimension)
        yield "by content", first[0]
        yield "by place", first[1]
        yield "repeated", VectorSum(np.array([float(repeated)]))

    found = rows.fold(
        fold,
        (ColumnMoments, FirstArrivals, VectorSum),
        state_bytes=6 * 8 * dimension + 2 * 16 * limit + 1024,
        what=f"means of {dimension} features and {sampling.pairs} draws",
    )
    columns = cast(ColumnMoments, found["columns"])
    arrivals = cast(FirstArrivals, found["by content"])
    by_place = arrivals.tied()
    if by_place:
        arrivals = cast(FirstArrivals, found["by place"])
        repeated = float(cast(VectorSum, found["repeated"]).total[0])
        _log.warning(
            "found equal rows: %.3g %% of all repeat another one of their partition or row group. "
            "Each is drawn by itself, and the sample depends on how the rows are partitioned; set "
            "keyCol to a column that tells equal rows apart",
            100 * repeated / columns.rows.sum(),
        )
    return Survey(columns, found.labels, rows.changed(distinct_keys(by_place)), arrivals)
