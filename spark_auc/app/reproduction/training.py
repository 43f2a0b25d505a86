"""Training on rows in memory by the parts that the estimators are made of, without Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.draws import Draws, FirstArrivals
from spark_auc.core.folds import Folds
from spark_auc.core.moments import PairMoments
from spark_auc.core.objective import Quadratic
from spark_auc.core.operator import column_moments, pair_moments
from spark_auc.core.products import settled_scores
from spark_auc.core.repeats import told_apart
from spark_auc.core.roc import auc
from spark_auc.core.rows import LocalRows
from spark_auc.core.score_table import ScoreTable
from spark_auc.solvers.candidates import Candidate, default_grid
from spark_auc.solvers.path import solve
from spark_auc.solvers.selection import CrossValidation

Float = NDArray[np.float64]

_FOLDS, _TOL, _MAX_ITER = 5, 1e-6, 1000


@dataclass(frozen=True, eq=False)
class Ranker:
    """Weights ``(d,)`` of raw columns, their penalty on columns of unit variance, and seconds.

    The seconds are those of drawing, moments and solution, without the choice of the penalty.
    """

    w: Float
    regParam: float
    seconds: float

    def auc(self, rows: Batch) -> float:
        """AUC on some rows in percent."""
        return percent(settled_scores(rows.X, self.w), rows.y)


def percent(scores: Float, y: NDArray[np.bool_]) -> float:
    """AUC of scores ``(n,)`` in percent."""
    return 100 * auc(ScoreTable.of(scores, y))


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean of repeats and its standard error, which one repeat does not tell."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return float(np.mean(values)), error


def exact(rows: Batch, seed: int) -> Ranker:
    """Ridge on all pairs, with the penalty of the best mean AUC on held-out folds."""
    scale = _scale(rows)
    return _solved(lambda: rows, scale, _chosen(rows, scale, seed))


def sampled(rows: Batch, pairs: int, seed: int) -> dict[str, Ranker]:
    """Ridge on the draws of as many pairs, "complete" and "paired".

    The penalty is chosen on folds of the draws, so that no other row has a say. As in the
    estimators, "paired" takes that of "complete": a pair of rows can be of two folds.
    """
    rows = stacked(tuple(told_apart()(iter([rows]))))
    scale = _scale(rows)

    def draws() -> Draws:
        return FirstArrivals.zero(pairs).update(rows, seed).draws(seed, pairs)

    chosen = _chosen(draws().drawn(rows), scale, seed)
    return {
        "complete": _solved(lambda: draws().drawn(rows), scale, chosen),
        "paired": _solved(lambda: _paired(rows, draws(), pairs), scale, chosen),
    }


def _paired(rows: Batch, draws: Draws, pairs: int) -> Batch:
    """Differences of the k-th positive and the k-th negative draw, and one negative row of zeros.

    All pairs of these are the pairs drawn.
    """
    chosen, moments = draws.arrivals(rows)
    order = np.argsort(moments)
    positive = rows.y[chosen][order]
    plus, minus = (chosen[order][side][:pairs] for side in (positive, ~positive))
    difference, zeros = rows.X[plus] - rows.X[minus], np.zeros((1, rows.X.shape[1]))
    if isinstance(difference, np.ndarray):
        return Batch(np.vstack([difference, zeros]), np.arange(pairs + 1) < pairs)
    return Batch(sparse.vstack([difference, zeros], "csr"), np.arange(pairs + 1) < pairs)


def _local(rows: Batch) -> LocalRows:
    return LocalRows((rows,), rows.X.shape[1])


def _scale(rows: Batch) -> Float:
    return column_moments(_local(rows)).standard_deviation()


def _chosen(rows: Batch, scale: Float, seed: int) -> Candidate:
    """The penalty whose rankers of the other folds rank each fold's rows best."""
    validation = CrossValidation(
        Folds(_FOLDS, seed),
        tol=_TOL,
        max_iter=_MAX_ITER,
        on_failure="raise",
        one_standard_error=False,
        max_bins=1 << 16,
        at_once=_FOLDS,
    )
    with _quiet(CrossValidation.__module__):
        validation, own = validation.by_moments(_local(rows))
    moments = reduce(PairMoments.merge, own)

    def training() -> Iterator[tuple[Quadratic, Float]]:
        for others in PairMoments.complements(own):
            yield others.quadratic(scale), scale

    grid = default_grid(moments.quadratic(scale), 0.0)
    candidates = [Candidate(float(value), 0.0) for value in grid]
    with _quiet(CrossValidation.__module__):
        return validation.of(candidates, training(), _local(rows)).candidate


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Hundreds of trainings would fill the log with what is worth saying of one."""
    log = logging.getLogger(name)
    before = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)


def _solved(make: Callable[[], Batch], scale: Float, candidate: Candidate) -> Ranker:
    start = time.perf_counter()
    quadratic = pair_moments(_local(make())).quadratic(scale)
    solution = solve(quadratic, candidate.penalty, tol=_TOL, max_iter=_MAX_ITER)
    w = solution.checked("raise").w / scale
    return Ranker(w, candidate.regParam, time.perf_counter() - start)
