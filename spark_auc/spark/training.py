"""From rows to a quadratic: which pairs, and in which form, by what memory allows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch
from spark_auc.core.column_moments import ColumnMoments
from spark_auc.core.draws import FirstArrivals
from spark_auc.core.moments import PairMoments
from spark_auc.core.objective import Quadratic
from spark_auc.core.operator import operator_quadratic, pair_moments
from spark_auc.core.products import settled_scores
from spark_auc.core.rows import Folding, State, each
from spark_auc.core.sample_size import (
    GroupSums,
    LargestNorm,
    estimated_suboptimality,
    sufficient_pairs,
)
from spark_auc.errors import ResourceError
from spark_auc.solvers.ridge import inverse
from spark_auc.spark.pairs import paired
from spark_auc.spark.resources import Gathering, available_memory, check_memory, task_slots
from spark_auc.spark.rows import DistributedRows
from spark_auc.spark.survey import Sampling, surveyed

Float = NDArray[np.float64]

_log = logging.getLogger(__name__)

# Bytes of a stored entry of a sparse row in memory, with what reading it needs meanwhile.
_ENTRY_BYTES = 32
# Groups of draws whose spread tells what sampling costs.
_GROUPS = 32
# Probability with which Theorem 2 may fail.
_FAILING = 0.05
# Of the memory that is available, what rows on the driver may take.
_ROWS_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class Problem:
    """The quadratic of some pairs, and what else their rows tell.

    Parameters
    ----------
    columns
        Column moments of all rows.
    rows
        The rows whose pairs are trained on, in memory where they are few.
    moments
        The pair moments of these rows; None where there are too many features for them.
    arrivals
        The first draws, where pairs are drawn.
    all_rows
        All rows; told apart, where pairs are drawn.
    """

    columns: ColumnMoments
    rows: Folding
    moments: PairMoments | None
    arrivals: FirstArrivals | None
    all_rows: DistributedRows

    @property
    def form(self) -> str:
        """In which form the quadratic is: "tiles", "rows" in memory or "passes"."""
        if self.moments is not None:
            return "tiles"
        return "passes" if isinstance(self.rows, DistributedRows) else "rows"

    def quadratic(self, scale: Float | None) -> Quadratic:
        """The quadratic in columns divided by ``scale`` ``(d,)``."""
        if self.moments is not None:
            return self.moments.quadratic(scale)
        return operator_quadratic(self.rows, scale)

    def scores(self, w: Float, scale: Float | None) -> tuple[ColumnMoments, float | None]:
        """Moments of the scores ``X w`` of all rows, as one column.

        Where pairs are drawn, also the largest squared norm of a row in scaled columns.
        """
        if self.moments is not None and self.arrivals is None:
            return self.moments.along(w), None

        def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            largest = LargestNorm()

            def scored() -> Iterator[Batch]:
                nonlocal largest
                for batch in batches:
                    largest = largest.merge(LargestNorm.of(batch.X, scale))
                    yield batch._replace(X=settled_scores(batch.X, w)[:, None])

            yield "scores", ColumnMoments.fold(scored(), 1)
            yield "largest", largest

        found = self.all_rows.fold(
            fold, (ColumnMoments, LargestNorm), state_bytes=1024, what="moments of scores"
        )
        squared = None if self.arrivals is None else cast(LargestNorm, found["largest"]).squared
        return cast(ColumnMoments, found["scores"]), squared

    def sufficient_pairs(
        self, epsilon: float, scale: Float | None, l2: float, squared_norm: float | None
    ) -> int | None:
        """What Theorem 2 asks for, with the trace of ``Sigma`` as its norm; None without bounds."""
        if not squared_norm or not l2:
            return None
        diagonal = self.columns.variance.sum(axis=0) + self.columns.delta**2
        trace = float((diagonal if scale is None else diagonal / scale**2).sum())
        return sufficient_pairs(
            epsilon, _FAILING, diagonal.size, trace, squared_norm, squared_weight_norm=0.25 / l2
        )


def problem(
    rows: DistributedRows,
    sampling: Sampling,
    moments_of: Callable[[Folding], PairMoments] = pair_moments,
) -> Problem:
    """Read the rows and make their problem.

    Parameters
    ----------
    rows
        All rows.
    sampling
        Which of their pairs to train on.
    moments_of
        Makes the moments of the rows chosen.

    Raises
    ------
    DataError
        A value is not usable, there are not two classes, or no rows were drawn.
    """
    tiles = fits_in_tiles(rows)
    if sampling.estimator == "exact" and tiles:
        moments = moments_of(rows)
        return Problem(moments.columns(), rows, moments, None, rows)
    columns, arrivals, rows = surveyed(rows, sampling)
    chosen: DistributedRows = rows
    entries = float(columns.entries.sum())
    if arrivals is not None:
        chosen = drawn(rows, sampling, arrivals)
        entries *= min(1.0, 2.0 * sampling.pairs / float(columns.rows.sum()))
    if tiles:
        return Problem(columns, chosen, moments_of(chosen), arrivals, rows)
    return Problem(columns, _nearest(chosen, entries), None, arrivals, rows)


def drawn(rows: DistributedRows, sampling: Sampling, arrivals: FirstArrivals) -> DistributedRows:
    """The rows drawn, or the pairs of them."""
    draws = arrivals.draws(sampling.seed, sampling.pairs)
    if sampling.estimator == "complete":
        return rows.changed(each(draws.drawn))
    slots = task_slots(rows.frame.sparkSession)
    return paired(rows, draws, arrivals.cuts(sampling.pairs, slots))


def suboptimality(
    given: Problem, sampling: Sampling, w: Float, quadratic: Quadratic, scale: Float, l2: float
) -> float:
    """What sampling costs the objective at its solution ``w``, as its draws estimate it.

    One pass over the draws, in groups of about equal numbers; see `estimated_suboptimality`.
    ``scale`` is what the columns of the quadratic were divided by.
    """
    arrivals = cast(FirstArrivals, given.arrivals)
    draws, groups = arrivals.draws(sampling.seed, sampling.pairs), min(_GROUPS, sampling.pairs)
    cuts = arrivals.cuts(sampling.pairs, groups)
    if sampling.estimator == "paired":
        rows = paired(given.all_rows, draws, cuts)
    else:

        def grouped(batch: Batch) -> Batch:
            chosen, moments = draws.arrivals(batch)
            group = np.where(batch.y[chosen], *(np.searchsorted(c, moments, "right") for c in cuts))
            ones = np.ones(chosen.size)
            return batch.take(chosen, ones)._replace(key=group.astype(np.uint64))

        rows = given.all_rows.changed(each(grouped))

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        yield "groups", GroupSums.fold(batches, groups, w)

    size = groups * 4 * 8 * (w.size + 1)
    found = rows.fold(fold, (GroupSums,), state_bytes=size, what=f"gradients of {groups} groups")
    gradients = cast(GroupSums, found["groups"]).gradients() / scale
    active = np.flatnonzero(w)
    Sigma = quadratic.Sigma if active.size == w.size else quadratic.Sigma.restricted(active)

    solve = inverse(Sigma, l2, tol=1e-4, max_iter=1000)
    return estimated_suboptimality(gradients[:, active], solve)


def fits_in_tiles(rows: DistributedRows) -> bool:
    """Whether a matrix of all features fits; said in the log where it does not."""
    size, what = PairMoments.nbytes(rows.dimension), f"moments of {rows.dimension} features"
    spark = rows.frame.sparkSession
    try:
        Gathering.of(spark).check(size, what)
        check_memory(spark, size, task_slots(spark), what)
    except ResourceError as refusal:
        _log.warning("no matrix is formed: %s", refusal)
        return False
    return True


def _nearest(rows: DistributedRows, entries: float) -> Folding:
    """The rows in memory where they fit there, else where they are."""
    size = _ENTRY_BYTES * entries
    limit = min(float(Gathering.of(rows.frame.sparkSession).limit), _available())
    if size <= limit:
        _log.info("%.0f stored entries are gathered in memory", entries)
        return rows.gathered()
    _log.warning(
        "%.0f stored entries take about %.0f MiB, more than the %.0f MiB for rows in memory: "
        "every step of the solver reads all rows again",
        entries,
        size / 2**20,
        limit / 2**20,
    )
    return rows


def _available() -> float:
    available = available_memory()
    return np.inf if available is None else _ROWS_SHARE * available
