"""The cost of sampling: how far the sampled objective's solution is from the optimum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.row_source import State, batchwise
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.sample_size import GroupSums, estimated_suboptimality
from spark_auc.core.types import Float
from spark_auc.solvers.ridge import inverse
from spark_auc.training.survey import Sampling, Survey

# Groups of draws whose spread estimates the cost of sampling.
_GROUPS = 32


def suboptimality(
    surveyed: Survey,
    sampling: Sampling,
    w: Float,
    quadratic: Quadratic,
    scale: Float | None,
    l2: float,
) -> float:
    """Estimate how far sampling keeps the objective above its minimum over all pairs.

    One pass over the draws, in groups of about equal size; see `estimated_suboptimality`.

    Parameters
    ----------
    surveyed
        Survey of all rows, with draws.
    sampling
        The draws that were trained on.
    w : (d,)
        Solution, as weights of raw columns.
    quadratic
        The quadratic of the sampled pairs.
    scale : (d,), optional
        Divisors of the columns of the quadratic.
    l2
        Ridge factor.
    """
    arrivals = cast(FirstArrivals, surveyed.arrivals)
    draws, groups = arrivals.draws(sampling.seed, sampling.pairs), min(_GROUPS, sampling.pairs)
    cuts = arrivals.cuts(sampling.pairs, groups)
    if sampling.estimator == "paired":
        rows = surveyed.rows.paired(draws, cuts)
    else:

        def grouped(batch: Batch) -> Batch:
            drawn, times = draws.arrivals(batch)
            group = np.where(batch.y[drawn], *(np.searchsorted(c, times, "right") for c in cuts))
            return batch.take(drawn, np.ones(drawn.size))._replace(key=group.astype(np.uint64))

        rows = surveyed.rows.changed(batchwise(grouped))

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        yield "groups", GroupSums.fold(batches, groups, w)

    size = groups * 4 * 8 * (w.size + 1)
    states = rows.fold(fold, (GroupSums,), state_bytes=size, what=f"gradients of {groups} groups")
    gradients = cast(GroupSums, states["groups"]).gradients()
    if scale is not None:
        gradients = gradients / scale
    active = np.flatnonzero(w)
    Sigma = quadratic.Sigma if active.size == w.size else quadratic.Sigma.restricted(active)

    solve = inverse(Sigma, l2, tol=1e-4, max_iter=1000)
    return estimated_suboptimality(gradients[:, active], solve)
