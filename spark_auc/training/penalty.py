"""Choosing the penalty by cross-validation."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from spark_auc.core.lockstep import Lockstep
from spark_auc.core.memory import give_back
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.moments.operator import fold_quadratics
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.pair_products import Vectors
from spark_auc.core.row_source import ArrayRows, Folding, RowSource
from spark_auc.core.spill import IN_MEMORY
from spark_auc.core.types import Float, Int
from spark_auc.errors import ConvergenceError
from spark_auc.solvers.candidates import Candidate, Selection
from spark_auc.solvers.ridge_path import spaces_at_once
from spark_auc.training.cross_validation import CrossValidation
from spark_auc.training.fold_rows import occurring, to_columns
from spark_auc.training.held_out import held_out_auc
from spark_auc.training.penalty_sample import PenaltySample
from spark_auc.training.problem import Problem, TrainingRows, select_rows
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling
from spark_auc.training.timer import PhaseTimer

_log = logging.getLogger(__name__)

# Least relative tolerance of candidates without a matrix.
CANDIDATE_TOL = 1e-3
_LARGEST_HISTOGRAM, _SMALLEST_HISTOGRAM = 1 << 14, 1 << 8


class PenaltyChoice(NamedTuple):
    """The result of choosing a penalty.

    Parameters
    ----------
    problem
        The problem of the rows that the penalty was chosen on.
    selection
        The candidates, their AUC on each fold, and the chosen one.
    seconds
        Wall time of the phases "moments" and "select".
    features : (k,), optional
        The features of the problem, where those that do not occur are left out. Default: all.
    """

    problem: Problem
    selection: Selection
    seconds: dict[str, float]
    features: Int | None = None


def choose_penalty(
    rows: RowSource, sampling: Sampling, settings: TrainingSettings
) -> PenaltyChoice:
    """Choose the penalty with the best AUC on held-out folds.

    One pass computes the pair moments of each fold; the problem of all folds is their merge.
    Without a matrix, the solvers of all folds advance in lockstep, and each pass over the rows
    serves all of them; ridges of many rows are compared on a `PenaltySample`. The candidates are
    then solved to a relative KKT residual of 1e-3, or of ``settings.tol`` if there is no matrix
    only because rows in memory take less time. In this case, if the penalties weaker than the best
    one are left out unsolved, the choice is made again with a matrix.

    Parameters
    ----------
    rows, sampling
        See `build_problem`.
    settings
        The candidates, the folds, and the rule of choice.

    Raises
    ------
    ConvergenceError
        No penalty was solved in all folds.
    DataError
        A value is unusable, or a fold has rows of one class only.
    ResourceError
        The validation scores do not fit in memory.
    """
    timer = PhaseTimer()
    rows, features = gathered_occurring(rows, sampling, settings)
    selected = select_rows(rows, sampling, settings.work())
    if settings.smoothness and not (selected.has_matrix or selected.steps):
        settings = replace(settings, smoothness=settings.curves.without_matrix(settings.smoothness))
    sample = PenaltySample.of(selected, settings)
    if sample is None:
        problem, selection = _chosen(rows, selected, sampling, settings, timer)
    else:
        drawn, within = sample.rows, sample.settings(settings)
        of_drawn = select_rows(drawn, sampling, within.work())
        _, of_sample = _chosen(drawn, of_drawn, sampling, within, timer)
        problem, selection = selected.problem(), sample.selection(of_sample, settings)
    _log.info(
        "chose %s by the %s: mean AUC %.4f, standard error %.4f",
        selection.candidate,
        "one-standard-error rule" if settings.one_standard_error else "best mean AUC",
        selection.mean[selection.chosen],
        selection.standard_error[selection.chosen],
    )
    warn_of_weaker(selection)
    return PenaltyChoice(problem, selection, timer.seconds, features)


def _chosen(
    rows: RowSource,
    selected: TrainingRows,
    sampling: Sampling,
    settings: TrainingSettings,
    timer: PhaseTimer,
) -> tuple[Problem, Selection]:
    """`_choice`, again with a matrix where steps on the rows left weak penalties out."""
    try:
        problem, selection = _choice(rows, selected, settings, timer)
        if selected.steps is None or not selection.weaker_left_out(_best(selection)):
            return problem, selection
    except ConvergenceError:
        if selected.steps is None:
            raise
    _log.info("making the matrix, to solve the penalties that steps on the rows did not")
    return _choice(rows, select_rows(rows, sampling, None), settings, timer)


def _choice(
    rows: RowSource, selected: TrainingRows, settings: TrainingSettings, timer: PhaseTimer
) -> tuple[Problem, Selection]:
    """The problem of the selected rows, and the choice of its penalty."""
    cross_validation = cross_validation_of(rows, settings)
    fold_moments: list[PairMoments] = []
    if selected.has_matrix:
        parts = settings.folds.parts
        what = f"moments of {rows.dimension} features in {parts} folds"
        rows.memory.check_folds(PairMoments.nbytes(rows.dimension), parts, what)
        cross_validation, fold_moments, labels = cross_validation.by_moments(selected.rows)
        problem = selected.problem(PairMoments.total(fold_moments), labels)
    else:
        problem = selected.problem()
    timer.end("moments")
    give_back()

    candidates = settings.candidates(lambda: problem.quadratic(settings.scale(problem.columns)))
    validation: Folding = rows
    in_order = None
    if fold_moments:
        complements = PairMoments.complements(fold_moments)[: cross_validation.folds]
        # Half as large, and free after the last fold.
        training = iter([*_from_moments(problem, complements, settings)])
    else:
        cross_validation, columns = cross_validation.by_columns(problem.rows)
        if selected.steps is None:
            # A lower tolerance takes passes, and does not change the AUC by more than about 1e-4
            # but for penalties so weak that they overfit. Steps on rows that cost less than a
            # matrix reach the tolerance that it would.
            cross_validation = replace(cross_validation, tol=max(settings.tol, CANDIDATE_TOL))
        else:
            # A matrix follows if one that is left out can be the best.
            cross_validation = replace(cross_validation, level_of_left_out=logging.INFO)
        passes, training = _from_rows(problem, cross_validation, columns, settings)
        at_once = max(cross_validation.folds, spaces_at_once(problem.rows.dimension))
        in_order = partial(passes.map, at_once=at_once)
        if problem.survey.arrivals is None:
            validation = problem.rows
    _log.info(
        "choosing the penalty among %d candidates by %d-fold cross-validation",
        len(candidates),
        cross_validation.folds,
    )
    bins = histogram_bins(rows, settings.folds.count, len(candidates))
    held_out = partial(
        held_out_auc, rows=validation, held_out=cross_validation.held_out, max_bins=bins
    )
    selection = cross_validation.select(candidates, training, held_out, in_order)
    timer.end("select")
    return problem, selection


def _best(selection: Selection) -> Candidate:
    """The candidate of the best mean AUC, which a rule may pass over for a stronger one."""
    return selection.candidates[int(np.nanargmax(selection.mean))]


def warn_of_weaker(selection: Selection) -> None:
    """Warn where the weakest of the penalties that were solved is chosen."""
    if weaker := selection.weaker_left_out(selection.candidate):
        _log.warning(
            "the penalty chosen is the weakest of those solved, and %d weaker ones were left out: "
            "a weaker one could rank better; set regParam to a few weaker values",
            weaker,
        )


def in_memory(
    rows: RowSource, sampling: Sampling, parts: int, most: float = np.inf, kept: float = np.inf
) -> RowSource:
    """The rows in memory if they take less than ``most`` and than the moments of all tasks.

    Features of more than ``kept`` bytes are in a temporary file.
    """
    if sampling.estimator != "exact":
        return rows
    memory = rows.memory
    moments = memory.slots * parts * PairMoments.nbytes(rows.dimension)
    return rows.gathered_within(min(memory.rows_limit, moments, most), kept) or rows


def gathered_occurring(
    rows: RowSource, sampling: Sampling, settings: TrainingSettings
) -> tuple[RowSource, Int | None]:
    """The rows with the features that occur, and these features, where this saves memory.

    Rows that fit are gathered, most of their features in a temporary file.
    """
    # Their passes take longer than reading a file.
    stored = in_memory(rows, sampling, settings.folds.parts, kept=IN_MEMORY)
    found = _occurring(stored, settings)
    give_back()
    return found


def _occurring(rows: RowSource, settings: TrainingSettings) -> tuple[RowSource, Int | None]:
    """Rows in memory with the features that occur, if this saves memory; and these features."""
    if not isinstance(rows, ArrayRows) or settings.prior or settings.keep_moments:
        return rows, None
    # A knot at which no row is has a height all the same.
    found = np.union1d(np.arange(settings.curves.end), occurring(rows))
    saved = PairMoments.nbytes(rows.dimension) - PairMoments.nbytes(found.size)
    # The rows of fewer features are a copy.
    if not found.size or saved * settings.folds.parts <= sum(
        batch.nbytes for batch in rows.batches
    ):
        return rows, None
    _log.info("%d of %d features occur", found.size, rows.dimension)
    return replace(rows.changed(*to_columns(found)), labels=rows.labels), found


def _from_moments(
    problem: Problem, parts: list[PairMoments], settings: TrainingSettings
) -> Iterator[tuple[Quadratic, Float | None]]:
    """The quadratic of each fold's training rows, and the divisors of its columns.

    The list is emptied.
    """
    while parts:
        part = parts.pop(0)
        # Half of the draws are positive: their own deviations would change the penalty's unit.
        columns = problem.columns if problem.survey.arrivals else part.columns()
        scale = settings.scale(columns)
        yield part.quadratic(scale), scale
        del part
        give_back()


def _from_rows(
    problem: Problem,
    folds: CrossValidation,
    parts: Sequence[ColumnMoments],
    settings: TrainingSettings,
) -> tuple[Lockstep[Vectors, Float], Iterator[tuple[Quadratic, Float | None]]]:
    """The passes that the folds share; the quadratic and divisors of each fold's training rows."""
    scales = [settings.scale(problem.columns if problem.survey.arrivals else c) for c in parts]
    given = list(zip(parts, scales, strict=True))
    passes, quadratics = fold_quadratics(problem.rows, folds.held_out.of, given)
    return passes, zip(quadratics, scales, strict=True)


def cross_validation_of(rows: RowSource, settings: TrainingSettings) -> CrossValidation:
    """The cross-validation settings, with as many folds in a pass as fit in memory."""
    passes, folds_per_pass = 1, settings.folds.parts
    if isinstance(rows, ArrayRows):
        # Passes of one fold hold the fewest moments under construction.
        passes, folds_per_pass = rows.memory.slots, 1
    folds_in_memory = rows.memory.gather_limit // PairMoments.nbytes(rows.dimension)
    return CrossValidation(
        settings.folds,
        settings.tol,
        settings.max_iter,
        settings.one_standard_error,
        max(1, min(folds_per_pass, folds_in_memory)),
        passes,
        settings.prior,
        settings.curves,
    )


def histogram_bins(rows: RowSource, folds: int, models: int) -> int:
    """Bins of each score histogram, so that those of all folds and models fit in memory."""
    bins = rows.memory.gather_limit // (56 * folds * models)
    return max(_SMALLEST_HISTOGRAM, min(_LARGEST_HISTOGRAM, 1 << max(bins.bit_length() - 1, 0)))
