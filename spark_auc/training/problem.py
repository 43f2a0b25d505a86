"""From rows to a quadratic: which pairs, and in which form, by what memory allows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.moments.operator import labelled_pair_moments, operator_quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import ArrayRows, Folding, RowSource, State, batchwise
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.sample_size import (
    GroupSums,
    LargestNorm,
    estimated_suboptimality,
    sufficient_pairs,
)
from spark_auc.core.types import Float
from spark_auc.errors import ResourceError
from spark_auc.solvers.ridge import inverse
from spark_auc.training.survey import Sampling, Survey, survey

_log = logging.getLogger(__name__)

# Bytes of a stored entry of a sparse row in memory, with what reading it needs meanwhile.
_ENTRY_BYTES = 32
# Groups of draws whose spread tells what sampling costs.
_GROUPS = 32
# Probability with which Theorem 2 may fail.
_FAILING = 0.05


@dataclass(frozen=True, eq=False)
class Problem:
    """The quadratic of some pairs, and what else their rows tell.

    Parameters
    ----------
    survey
        What is known of all rows.
    rows
        The rows whose pairs are trained on, in memory where they are few.
    moments
        The pair moments of these rows; None where there are too many features for them.
    """

    survey: Survey
    rows: Folding
    moments: PairMoments | None

    @property
    def columns(self) -> ColumnMoments:
        """Column moments of all rows."""
        return self.survey.columns

    @property
    def form(self) -> str:
        """In which form the quadratic is: "tiles", "rows" in memory or "passes"."""
        if self.moments is not None:
            return "tiles"
        return "rows" if isinstance(self.rows, ArrayRows) else "passes"

    def quadratic(self, scale: Float | None) -> Quadratic:
        """The quadratic in columns divided by ``scale`` ``(d,)``."""
        if self.moments is not None:
            return self.moments.quadratic(scale)
        return operator_quadratic(self.rows, scale)

    def scores(self, w: Float, scale: Float | None) -> tuple[ColumnMoments, float | None]:
        """Moments of the scores ``X w`` of all rows, as one column.

        Where pairs are drawn, also the largest squared norm of a row in scaled columns.
        """
        if self.moments is not None and self.survey.arrivals is None:
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

        found = self.survey.rows.fold(
            fold, (ColumnMoments, LargestNorm), state_bytes=1024, what="moments of scores"
        )
        drawn, largest = self.survey.arrivals is not None, cast(LargestNorm, found["largest"])
        return cast(ColumnMoments, found["scores"]), largest.squared if drawn else None

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
    rows: RowSource,
    sampling: Sampling,
    moments_of: Callable[[Folding], tuple[PairMoments, LabelCounts]] = labelled_pair_moments,
) -> Problem:
    """Read the rows and make their problem.

    Parameters
    ----------
    rows
        All rows.
    sampling
        Which of their pairs to train on.
    moments_of
        Makes the moments of the rows chosen, and counts their labels.

    Raises
    ------
    DataError
        A value is not usable, there are not two classes, or no rows were drawn.
    """
    matrix = fits_in_matrix(rows)
    if sampling.estimator == "exact" and matrix:
        moments, labels = moments_of(rows)
        return Problem(Survey(moments.columns(), labels, rows), rows, moments)
    surveyed = survey(rows, sampling)
    chosen, entries = surveyed.rows, float(surveyed.columns.entries.sum())
    if surveyed.arrivals is not None:
        chosen = _drawn(surveyed, surveyed.arrivals, sampling)
        entries *= min(1.0, 2.0 * sampling.pairs / float(surveyed.columns.rows.sum()))
    if matrix:
        return Problem(surveyed, chosen, moments_of(chosen)[0])
    return Problem(surveyed, _nearest(chosen, entries), None)


def _drawn(surveyed: Survey, arrivals: FirstArrivals, sampling: Sampling) -> RowSource:
    """The rows drawn, or the pairs of them."""
    rows, draws = surveyed.rows, arrivals.draws(sampling.seed, sampling.pairs)
    if sampling.estimator == "complete":
        return rows.changed(batchwise(draws.drawn))
    return rows.paired(draws, arrivals.cuts(sampling.pairs, rows.memory.slots))


def suboptimality(
    surveyed: Survey,
    sampling: Sampling,
    w: Float,
    quadratic: Quadratic,
    scale: Float | None,
    l2: float,
) -> float:
    """What sampling costs the objective at its solution ``w``, as its draws estimate it.

    One pass over the draws, in groups of about equal numbers; see `estimated_suboptimality`.
    ``scale`` is what the columns of the quadratic were divided by.
    """
    arrivals = cast(FirstArrivals, surveyed.arrivals)
    draws, groups = arrivals.draws(sampling.seed, sampling.pairs), min(_GROUPS, sampling.pairs)
    cuts = arrivals.cuts(sampling.pairs, groups)
    if sampling.estimator == "paired":
        rows = surveyed.rows.paired(draws, cuts)
    else:

        def grouped(batch: Batch) -> Batch:
            chosen, moments = draws.arrivals(batch)
            group = np.where(batch.y[chosen], *(np.searchsorted(c, moments, "right") for c in cuts))
            ones = np.ones(chosen.size)
            return batch.take(chosen, ones)._replace(key=group.astype(np.uint64))

        rows = surveyed.rows.changed(batchwise(grouped))

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        yield "groups", GroupSums.fold(batches, groups, w)

    size = groups * 4 * 8 * (w.size + 1)
    found = rows.fold(fold, (GroupSums,), state_bytes=size, what=f"gradients of {groups} groups")
    gradients = cast(GroupSums, found["groups"]).gradients()
    if scale is not None:
        gradients = gradients / scale
    active = np.flatnonzero(w)
    Sigma = quadratic.Sigma if active.size == w.size else quadratic.Sigma.restricted(active)

    solve = inverse(Sigma, l2, tol=1e-4, max_iter=1000)
    return estimated_suboptimality(gradients[:, active], solve)


def fits_in_matrix(rows: RowSource) -> bool:
    """Whether a matrix of all features fits in memory; the log says where it does not."""
    dimension = rows.dimension
    try:
        rows.memory.check(PairMoments.nbytes(dimension), f"moments of {dimension} features")
    except ResourceError as refusal:
        _log.warning("no matrix is formed: %s", refusal)
        return False
    return True


def _nearest(rows: RowSource, entries: float) -> Folding:
    """The rows in memory where they fit there, else where they are."""
    size, limit = _ENTRY_BYTES * entries, rows.memory.rows_limit
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
