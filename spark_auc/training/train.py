"""One training run on pair moments: which pairs, which penalty, the weights, how good they are."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows, RowSource
from spark_auc.errors import ConfigError, ConvergenceError
from spark_auc.solvers.candidates import Candidate, Selection
from spark_auc.solvers.path import solve
from spark_auc.training.penalty import FoldedProblem
from spark_auc.training.problem import Problem, fits_in_matrix, problem, suboptimality
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling, Survey

_log = logging.getLogger(__name__)

# Draws to begin with and to end at where their number is to be found.
_FEWEST_PAIRS, _MOST_PAIRS = 1 << 12, 1 << 20


def train(rows: RowSource, settings: TrainingSettings) -> TrainingResult:
    """Train a linear ranker by the squared loss over pairs.

    Raises
    ------
    ConfigError
        Moments are to be kept, of more features than there is memory for.
    DataError
        A value is not usable, or there are not two classes.
    ResourceError
        Memory does not suffice, or the rows are too many for choosing a penalty in this way.
    ConvergenceError
        The solver or the search for the number of pairs did not get where it should.
    """
    if settings.keep_moments and not fits_in_matrix(rows):
        raise ConfigError(
            f"found keepMoments for {rows.dimension} features, expected as many as moments can be "
            "formed of; set keepMoments to False"
        )
    sampling = settings.sampling
    if sampling.estimator == "exact":
        return _logged(_attempt(rows, sampling, settings))
    wanted = sampling.pairs or _FEWEST_PAIRS
    while True:
        pairs = -(-wanted // settings.batch_size) * settings.batch_size
        result = _attempt(rows, replace(sampling, pairs=pairs), settings)
        cost, sufficient = result.suboptimality or 0.0, result.sufficient_pairs
        _log.info(
            "%d pairs: sampling costs the objective about %.3g; Theorem 2 asks for %s",
            pairs,
            cost,
            "no number" if sufficient is None else f"{sufficient:.3g}",
        )
        if sampling.pairs or cost <= settings.pair_tolerance:
            return _logged(result)
        if pairs >= _MOST_PAIRS:
            message = (
                f"found that {pairs} pairs cost the objective about {cost:.3g}, expected at "
                f"most {settings.pair_tolerance:.3g}; raise pairTol or use estimator='exact'"
            )
            if settings.on_failure == "raise":
                raise ConvergenceError(message)
            _log.warning(message)
            return _logged(result)
        # What sampling costs falls as the inverse of the number of pairs.
        needed = 1.2 * pairs * cost / settings.pair_tolerance
        wanted = int(min(max(needed, 2 * pairs), 16 * pairs, _MOST_PAIRS))


def train_on_moments(
    moments: PairMoments, labels: LabelCounts, settings: TrainingSettings
) -> TrainingResult:
    """Train on pair moments alone, with the one penalty that the settings have.

    Parameters
    ----------
    moments, labels
        Of rows of both classes.
    settings
        Penalty, standardization and tolerance.

    Raises
    ------
    ConvergenceError
        The solver did not reach its tolerance.
    """
    assert settings.candidate is not None, "one penalty"
    none = ArrayRows((), moments.dimension)
    made = Problem(Survey(moments.columns(), labels, none), none, moments)
    return _solved(made, settings.candidate, None, settings, Sampling(), _Clock())


class _Clock:
    """Wall time by phase."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def done(self, phase: str) -> None:
        """Count the time since the last phase as this one's."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self.start
        self.start = now


def _attempt(rows: RowSource, sampling: Sampling, settings: TrainingSettings) -> TrainingResult:
    """Train on pairs whose number is settled."""
    clock = _Clock()
    candidate, selection = settings.candidate, None
    if candidate:
        made = problem(rows, sampling)
        clock.done("moments")
    else:
        # A pair of rows can be of two folds, so paired draws choose by all pairs of theirs.
        within = replace(sampling, estimator="complete")
        chooses = within if sampling.estimator == "paired" else sampling
        folded = FoldedProblem.of(rows, chooses, settings)
        made = folded.problem
        clock.done("moments")
        selection = folded.selection()
        candidate = selection.candidate
        clock.done("select")
        if chooses != sampling:
            made = problem(rows, sampling)
            clock.done("moments")
    return _solved(made, candidate, selection, settings, sampling, clock)


def _solved(
    made: Problem,
    candidate: Candidate,
    selection: Selection | None,
    settings: TrainingSettings,
    sampling: Sampling,
    clock: _Clock,
) -> TrainingResult:
    """The problem's solution with the penalty, or with the next best that can be solved."""
    tol, max_iter = settings.tol, settings.max_iter
    scale = made.columns.standard_deviation() if settings.standardize else None
    quadratic = made.quadratic(scale)
    solution = solve(quadratic, candidate.penalty, tol=tol, max_iter=max_iter)
    while selection and settings.on_failure == "raise" and not solution.converged:
        reason = f"all rows: {solution.certificate.problem()}"
        others = selection.without(reason, one_standard_error=settings.one_standard_error)
        if others is None:
            break
        _log.warning("%s is left out: %s", candidate, reason)
        selection, candidate = others, others.candidate
        solution = solve(quadratic, candidate.penalty, tol=tol, max_iter=max_iter)
    solution.checked(settings.on_failure)
    w = solution.w if scale is None else solution.w / scale
    scores, squared_norm = made.scores(w, scale)
    clock.done("solve")
    l2, drawn = candidate.penalty.l2, made.survey.arrivals is not None
    return TrainingResult(
        w,
        scores,
        made.columns,
        made.survey.labels,
        sampling.estimator,
        clock.seconds,
        solution.certificate,
        made.form,
        candidate,
        selection,
        pairs=sampling.pairs if drawn else None,
        suboptimality=(
            suboptimality(made.survey, sampling, w, quadratic, scale, l2) if drawn else None
        ),
        sufficient_pairs=made.sufficient_pairs(settings.pair_tolerance, scale, l2, squared_norm),
        moments=made.moments if settings.keep_moments else None,
    )


def _logged(result: TrainingResult) -> TrainingResult:
    _log.info(
        "trained %d features on %s rows in %s: %s",
        result.w.size,
        result.labels.rows,
        ", ".join(f"{s:.1f} s ({phase})" for phase, s in result.seconds.items()),
        result.certificate,
    )
    return result
