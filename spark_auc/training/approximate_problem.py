"""The problem of approximate covariances, and the choice of its penalty by held-out scores."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.row_source import RowSource, complements
from spark_auc.core.types import Float
from spark_auc.solvers.candidates import Selection
from spark_auc.training.approximation import ApproximateMoments, moments_of_parts
from spark_auc.training.held_out import held_out_auc
from spark_auc.training.penalty import CANDIDATE_TOL, cross_validation_of, histogram_bins
from spark_auc.training.problem import Problem
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling, survey
from spark_auc.training.timer import PhaseTimer

_log = logging.getLogger(__name__)


def approximate_problem(
    rows: RowSource, settings: TrainingSettings
) -> tuple[Problem, Selection | None, dict[str, float]]:
    """The problem, the choice of its penalty unless it is fixed, and the wall time of the phases.

    A pass surveys the columns, and a second one makes the moments, those of each fold where a
    penalty is chosen. Penalties are compared by the scores of held-out rows, which take one more
    pass: the moments lack covariances, so that an AUC estimated from them would choose too weak a
    penalty.

    Raises
    ------
    DataError
        A value is unusable, or a fold has rows of one class only.
    ResourceError
        The moments do not fit in memory.
    ConvergenceError
        No penalty was solved in all folds.
    """
    timer, approximation = PhaseTimer(), settings.approximation
    size, parts = approximation.state_bytes(rows.dimension), 1
    rows.memory.check(size, approximation.what(rows.dimension))
    surveyed = survey(rows, Sampling())
    columns = surveyed.columns
    if settings.candidate:
        (moments,) = moments_of_parts(
            rows, approximation, columns, lambda batch: np.zeros(batch.y.size, np.int64), parts
        )
        timer.end("moments")
        return Problem(surveyed, rows, None, approximate=moments), None, timer.seconds
    folds, _ = cross_validation_of(rows, settings).by_columns(rows)
    # The weakest penalties, which a Krylov space of few steps leaves unsolved, overfit.
    tol, level = max(settings.tol, CANDIDATE_TOL), logging.INFO
    folds, parts = replace(folds, tol=tol, level_of_left_out=level), folds.held_out.parts
    states: list[Any] = moments_of_parts(rows, approximation, columns, folds.held_out.of, parts)
    problem = Problem(surveyed, rows, None, approximate=reduce(lambda a, b: a.merge(b), states))
    timer.end("moments")
    candidates = settings.candidates(lambda: problem.quadratic(problem.scale(settings.standardize)))
    _log.info(
        "choosing the penalty among %d candidates by the scores of %d held-out folds",
        *(len(candidates), folds.folds),
    )

    def trained(others: ApproximateMoments) -> tuple[Quadratic, Float | None]:
        scale = others.divisors() if settings.standardize else None
        return others.quadratic(scale), scale

    training = map(trained, complements(states)[: folds.folds])
    bins = histogram_bins(rows, folds.folds, len(candidates))
    measured = partial(held_out_auc, rows=rows, held_out=folds.held_out, max_bins=bins)
    selection = folds.select(candidates, training, measured)
    timer.end("select")
    return problem, selection, timer.seconds
