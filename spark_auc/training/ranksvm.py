"""A training run by the squared hinge loss over all pairs (RankSVM)."""

from __future__ import annotations

import logging

from spark_auc.core.memory import MemoryBudget
from spark_auc.core.moments.operator import (
    labelled_column_moments,
    labelled_pair_moments,
    score_moments,
)
from spark_auc.core.row_source import RowSource
from spark_auc.errors import ResourceError
from spark_auc.solvers.candidates import Candidate
from spark_auc.solvers.ridge import LARGEST_FACTORISED
from spark_auc.solvers.truncated_newton import truncated_newton
from spark_auc.training.hinge_problem import hinge_problem
from spark_auc.training.penalty import choose_penalty, gathered_occurring
from spark_auc.training.problem import fits_in_matrix
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import HingeSettings, TrainingSettings
from spark_auc.training.survey import Sampling
from spark_auc.training.timer import PhaseTimer

_log = logging.getLogger(__name__)

# Largest number of features for which each Newton step forms and factorises the Hessian.
_MATRIX = LARGEST_FACTORISED
# Bytes per row: scores gathered in this process, and the tables sent back to the tasks.
_SCORE_BYTES = 32 + 24
# Greatest number of rows whose scores are gathered, and the ranges of scores of more rows.
_GATHERED, _RANGES = 1 << 23, 1 << 16


def train_hinge(rows: RowSource, settings: HingeSettings) -> TrainingResult:
    """Train a linear ranker by the squared hinge over all pairs, by truncated Newton steps.

    Minimises ``reg_param/2 |w|^2 + 1/2 E[max(0, 1 - w'(x+ - x-))^2]`` (PRSVM+, Khalid et al.,
    2018). The rows are gathered in this process if they fit, and otherwise kept by their engine,
    since every step reads them; see `truncated_newton`. So are their scores, which are otherwise
    summarised in ranges, with an error that is in the certificate. Where folds choose
    ``reg_param``, they do so by the squared loss, whose penalty has the same unit; see
    `choose_penalty`.

    Parameters
    ----------
    rows
        Rows of both classes.
    settings
        Ridge factor or folds to choose it by, standardization and solver.

    Raises
    ------
    DataError
        A value is unusable, or one class has no rows, in a fold too where folds choose.
    ResourceError
        The ranges of scores do not fit in memory, or neither the pair moments nor the rows fit
        where folds choose.
    ConvergenceError
        The solver did not reach its tolerance.
    """
    with rows.kept() as kept:
        timer = PhaseTimer()
        reg_param, selection = settings.reg_param, None
        if reg_param is None:
            squared = TrainingSettings(
                folds=settings.folds,
                one_standard_error=settings.one_standard_error,
                standardize=settings.standardize,
            )
            chosen = choose_penalty(kept, Sampling(), squared)
            selection = chosen.selection
            reg_param = selection.candidate.regParam
            timer.end("select")
        curves, smoothness, moments = settings.curves, settings.smoothness, None
        # Rows that stay with their engine are decoded in every pass.
        gathering = TrainingSettings(folds=settings.folds, curves=curves)
        cached, features = gathered_occurring(kept, Sampling(), gathering)
        if cached.dimension <= _MATRIX and fits_in_matrix(cached):
            moments, labels = labelled_pair_moments(cached)
            columns = moments.columns()
        else:
            columns, labels = labelled_column_moments(cached)
        count = int(columns.rows.sum())
        scale = columns.standard_deviation() if settings.standardize else None
        ranges = _ranges(cached.memory, count)
        hinge = hinge_problem(cached, columns, reg_param, scale, curves, smoothness, ranges)
        timer.end("survey")
        solution = truncated_newton(
            hinge,
            curves.quadratic(moments.quadratic(scale), smoothness) if moments else None,
            tol=settings.tol,
            max_iter=settings.max_iter,
        ).checked(settings.on_failure)
        timer.end("solve")
        w = curves.weights(solution.w, smoothness)
        w = w if scale is None else w / scale
        scores = moments.along(w) if moments else score_moments(cached, w)
    result = TrainingResult(
        w,
        scores,
        columns,
        labels,
        "RankSVM",
        timer.seconds,
        solution.certificate,
        penalty=Candidate(reg_param, 0.0, smoothness=smoothness),
        selection=selection,
    )
    if features is not None:
        result = result.widened(features, rows.dimension)
    _log.info(result.sentence())
    return result


def _ranges(memory: MemoryBudget, count: int) -> int | None:
    """The number of ranges of scores; None if the scores of all rows are gathered."""
    if count <= _GATHERED:
        try:
            memory.check_gathered(_SCORE_BYTES * count, f"scores of {count} rows")
        except ResourceError as error:
            _log.info("the scores of rows are summarised in ranges: %s", error)
            return _RANGES
        return None
    _log.info("the scores of %d rows are summarised in ranges", count)
    return _RANGES
