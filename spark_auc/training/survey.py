"""The settings of pair sampling, and the survey pass: column moments, labels and draws."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.operator import labelled_column_moments
from spark_auc.core.moments.pair_products import VectorSum
from spark_auc.core.row_source import RowSource, State
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.repeats import Repeats, distinct_keys

Estimation = Literal["exact", "paired", "complete"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sampling:
    """Which pairs of a positive and a negative row the objective averages over.

    Parameters
    ----------
    estimator
        "exact": all pairs. "paired": the k-th drawn positive with the k-th drawn negative row, for
        each k. "complete": all pairs of the drawn rows.
    pairs
        Number ``S`` of draws of each class.
    seed
        Seed of the draws. A row's draws depend on the seed and the row's key.
    """

    estimator: Estimation = "exact"
    pairs: int = 0
    seed: int = 0


class Survey(NamedTuple):
    """The result of one pass over all rows.

    Parameters
    ----------
    columns
        Column moments of all rows.
    labels
        Number of rows of each label.
    rows
        All rows. With draws, each row has a key of its own.
    arrivals
        The first draws of each class; None for "exact".
    """

    columns: ColumnMoments
    labels: LabelCounts
    rows: RowSource
    arrivals: FirstArrivals | None = None


def survey(rows: RowSource, sampling: Sampling) -> Survey:
    """Compute the column moments, label counts and draws of all rows in one pass.

    Raises
    ------
    DataError
        A value is unusable or one class has no rows.
    ResourceError
        The column moments and draws do not fit in memory.
    """
    if sampling.estimator == "exact":
        return Survey(*labelled_column_moments(rows), rows)
    dimension, seed = rows.dimension, sampling.seed
    # One draw more, to see whether the last draw ties with the first one that is not used.
    limit = sampling.pairs + 1

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        repeats = Repeats()
        arrivals = [FirstArrivals.zero(limit)] * 2
        repeated = 0

        def with_draws() -> Iterator[Batch]:
            nonlocal repeated
            for batch in batches:
                *keys, copies = repeats.identities(batch)
                repeated += int(np.count_nonzero(copies))
                for i, key in enumerate(keys):
                    arrivals[i] = arrivals[i].update(batch._replace(key=key), seed)
                yield batch

        yield "columns", ColumnMoments.fold(with_draws(), dimension)
        yield "by content", arrivals[0]
        yield "by place", arrivals[1]
        yield "repeated", VectorSum(np.array([float(repeated)]))

    result = rows.fold(
        fold,
        (ColumnMoments, FirstArrivals, VectorSum),
        state_bytes=6 * 8 * dimension + 2 * 16 * limit + 1024,
        what=f"means of {dimension} features and {sampling.pairs} draws",
    )
    columns = cast(ColumnMoments, result["columns"])
    arrivals = cast(FirstArrivals, result["by content"])
    by_place = arrivals.tied()
    if by_place:
        arrivals = cast(FirstArrivals, result["by place"])
        repeated = float(cast(VectorSum, result["repeated"]).total[0])
        _log.warning(
            "found equal rows: %.3g %% of all rows repeat another row of their partition or row "
            "group. Each copy is drawn independently, and the sample depends on how the rows are "
            "partitioned; set keyCol to a column that identifies each row",
            100 * repeated / columns.rows.sum(),
        )
    return Survey(columns, result.labels, rows.changed(distinct_keys(by_place)), arrivals)
