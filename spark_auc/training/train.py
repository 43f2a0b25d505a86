"""A training run on pair moments: sample pairs, choose the penalty, solve, certify."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import replace

from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.operator import score_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows, RowSource
from spark_auc.errors import ConfigError, ConvergenceError
from spark_auc.solvers.candidates import Candidate, Selection
from spark_auc.solvers.path import solve
from spark_auc.solvers.solution import Solution
from spark_auc.training.approximate_problem import approximate_problem
from spark_auc.training.approximation import ApproximateMoments, Approximation
from spark_auc.training.penalty import choose_penalty, gathered_occurring, in_memory
from spark_auc.training.problem import Problem, build_problem, fits_in_matrix
from spark_auc.training.result import TrainingResult
from spark_auc.training.second_step import reweighted
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.suboptimality import suboptimality
from spark_auc.training.survey import Sampling, Survey
from spark_auc.training.timer import PhaseTimer

_log = logging.getLogger(__name__)

# Bytes of rows that are gathered to see whether they are all.
_FEW = 1 << 26
# First and largest number of draws when the number is chosen automatically.
_FEWEST_PAIRS, _MOST_PAIRS = 1 << 12, 1 << 20
# The numbers of draws of `Problem.theorem2`, in words.
_NUMBERS = {
    "corrected": "(corrected constants)",
    "printed": "as printed",
    "estimated": "(estimate, with the norm of the solution)",
}


def train(rows: RowSource, settings: TrainingSettings) -> TrainingResult:
    """Train a linear ranker by the squared loss over pairs (MBA, Eq. 8-14).

    With an automatic number of draws, training is repeated with more draws until the estimated
    cost of sampling is at most ``settings.pair_tolerance``.

    Parameters
    ----------
    rows
        Rows of both classes.
    settings
        Sampling, penalty, folds and solver.

    Raises
    ------
    ConfigError
        ``keep_moments`` is set, but the moments of all features do not fit in memory.
    DataError
        A value is unusable, or one class has no rows.
    ResourceError
        The moments, the rows or the validation scores do not fit in memory.
    ConvergenceError
        The solver did not reach its tolerance, or the largest number of draws did not reach
        ``pair_tolerance``.
    """
    if settings.keep_moments and not fits_in_matrix(rows):
        raise ConfigError(
            f"found keepMoments with {rows.dimension} features, expected few enough features for "
            "their moments to fit in memory; set keepMoments to False"
        )
    sampling = settings.sampling
    if sampling.estimator == "exact":
        result = _train_once(rows, sampling, settings)
        if settings.max_fpr is not None:
            result = _second_step(rows, result, settings.max_fpr, settings)
    elif sampling.pairs:
        result = _train_on_draws(rows, sampling.pairs, settings)
    else:
        result = _train_on_enough_draws(rows, settings)
    _log.info(result.sentence())
    return result


def train_on_moments(
    moments: PairMoments | ApproximateMoments, labels: LabelCounts, settings: TrainingSettings
) -> TrainingResult:
    """Train on pair moments without their rows, with a fixed penalty.

    Parameters
    ----------
    moments, labels
        Moments and label counts of rows of both classes. Of approximate ones, scores have no AUC
        that is estimated from moments.
    settings
        One penalty, standardization and solver.

    Raises
    ------
    ConvergenceError
        The solver did not reach its tolerance.
    """
    candidate = settings.candidate
    assert candidate is not None, "one penalty"
    no_rows = ArrayRows((), moments.dimension)
    if isinstance(moments, PairMoments):
        problem = Problem(Survey(moments.columns(), labels, no_rows), no_rows, moments)
    else:
        settings = replace(settings, approximation=Approximation.of(moments))
        survey = Survey(moments.columns, labels, no_rows)
        problem = Problem(survey, no_rows, None, approximate=moments)
    return _solve(problem, candidate, None, settings, Sampling(), PhaseTimer())


def _train_on_enough_draws(rows: RowSource, settings: TrainingSettings) -> TrainingResult:
    """Train with more and more draws until the estimated cost of sampling is small enough."""
    pairs = _FEWEST_PAIRS
    while True:
        result = _train_on_draws(rows, pairs, settings)
        pairs, cost = result.pairs or 0, result.suboptimality or 0.0
        if cost <= settings.pair_tolerance:
            return result
        if pairs >= _MOST_PAIRS:
            message = (
                f"found the objective about {cost:.3g} above its minimum with {pairs} pairs, "
                f"expected at most {settings.pair_tolerance:.3g}; raise pairTol or use "
                "estimator='exact'"
            )
            if settings.on_failure == "raise":
                raise ConvergenceError(message)
            _log.warning(message)
            return result
        # The cost of sampling is inversely proportional to the number of pairs.
        needed = 1.2 * pairs * cost / settings.pair_tolerance
        pairs = int(min(max(needed, 2 * pairs), 16 * pairs, _MOST_PAIRS))


def _train_on_draws(rows: RowSource, pairs: int, settings: TrainingSettings) -> TrainingResult:
    """Train on ``pairs`` draws of each class, rounded up to whole batches."""
    pairs = -(-pairs // settings.batch_size) * settings.batch_size
    result = _train_once(rows, replace(settings.sampling, pairs=pairs), settings)
    theorem, none = result.theorem2 or {}, "no finite number"
    required = [(theorem.get(key), words) for key, words in _NUMBERS.items()]
    _log.info(
        "%d draws of each class: the objective is about %.3g above its minimum (pairTol %.3g); "
        "draws that Theorem 2 of MBA requires: %s",
        pairs,
        result.suboptimality or 0.0,
        settings.pair_tolerance,
        ", ".join(f"{f'{n:.3g}' if n else none} {words}" for n, words in required),
    )
    return result


def _train_once(rows: RowSource, sampling: Sampling, settings: TrainingSettings) -> TrainingResult:
    """Train with a fixed number of draws: problem, penalty, solution.

    Without a matrix every step reads all rows, which are cached meanwhile.
    """
    many = sampling.estimator == "exact" and (
        settings.approximation.kind != "full" or not fits_in_matrix(rows)
    )
    with rows.kept() if many else nullcontext(rows) as kept:
        return _trained(kept, sampling, settings)


def _trained(rows: RowSource, sampling: Sampling, settings: TrainingSettings) -> TrainingResult:
    if settings.approximation.kind != "full":
        problem, chosen, seconds = approximate_problem(rows, settings)
        candidate = chosen.candidate if chosen else settings.candidate
        assert candidate is not None, "a penalty"
        return _solve(problem, candidate, chosen, settings, sampling, PhaseTimer(seconds))
    if settings.candidate:
        timer, features, dimension = PhaseTimer(), None, rows.dimension
        if settings.chosen or settings.smoothness:
            rows, features = gathered_occurring(rows, sampling, settings)
        else:
            # More rows than these are read once, for their moments.
            rows = in_memory(rows, sampling, 1, _FEW)
        problem = build_problem(rows, sampling, settings.work(settings.candidate))
        timer.end("moments")
        result = _solve(problem, settings.candidate, None, settings, sampling, timer)
        return result if features is None else result.widened(features, dimension)
    # The rows of a drawn pair can be in two folds: "paired" selects on all pairs of its draws.
    within_folds = sampling
    if sampling.estimator == "paired":
        within_folds = replace(sampling, estimator="complete")
    problem, selection, seconds, features = choose_penalty(rows, within_folds, settings)
    timer = PhaseTimer(seconds)
    if within_folds != sampling:
        problem = build_problem(rows, sampling)
        timer.end("moments")
    result = _solve(problem, selection.candidate, selection, settings, sampling, timer)
    return result if features is None else result.widened(features, rows.dimension)


def _second_step(
    rows: RowSource, first: TrainingResult, max_fpr: float, settings: TrainingSettings
) -> TrainingResult:
    """Train again on rows of which the negatives of high scores count more often."""
    assert first.penalty is not None, "a penalty"
    timer, sampling = PhaseTimer(first.seconds), Sampling()
    once = replace(settings, keep_moments=False)
    again = reweighted(rows, first.w, max_fpr)
    if first.penalty.smoothness is None:
        problem = build_problem(again, sampling, once.work(first.penalty))
        second = _solve(problem, first.penalty, None, once, sampling, PhaseTimer())
    else:
        second = _train_once(again, sampling, once.of(first.penalty))
    scores = score_moments(rows, second.w)
    timer.end("second step")
    # The summary, the threshold and the moments are those of the rows as they are.
    return replace(
        second,
        scores=scores,
        columns=first.columns,
        labels=first.labels,
        seconds=timer.seconds,
        selection=first.selection,
        moments=first.moments,
        max_fpr=max_fpr,
    )


def _solve(
    problem: Problem,
    candidate: Candidate,
    selection: Selection | None,
    settings: TrainingSettings,
    sampling: Sampling,
    timer: PhaseTimer,
) -> TrainingResult:
    """Solve the problem with the penalty, or with the next best candidate that converges."""
    tol, max_iter = settings.tol, settings.max_iter
    scale = problem.scale(settings.standardize)
    quadratic, prior = problem.quadratic(scale), settings.prior
    centre = None if prior is None else prior.centred(quadratic, scale)

    def solved(candidate: Candidate) -> Solution:
        loss = centre.quadratic if centre and candidate.prior else quadratic
        loss = settings.curves.quadratic(loss, candidate.smoothness)
        return solve(loss, candidate.penalty, tol=tol, max_iter=min(max_iter, steps or max_iter))

    steps = problem.steps
    solution = solved(candidate)
    if steps is not None and not solution.converged:
        _log.info("%d steps on the rows did not suffice; making the matrix", steps)
        problem, steps = problem.with_matrix(), None
        quadratic = problem.quadratic(scale)
        centre = None if prior is None else prior.centred(quadratic, scale)
        solution = solved(candidate)
    while selection and settings.on_failure == "raise" and not solution.converged:
        reason = f"all rows: {solution.certificate.problem()}"
        remaining = selection.without(reason, one_standard_error=settings.one_standard_error)
        if remaining is None:
            break
        _log.warning("the penalty %s is left out: %s", candidate, reason)
        selection, candidate = remaining, remaining.candidate
        solution = solved(candidate)
    if centre and candidate.prior and not centre.scale:
        _log.warning(
            "the prior ranks these rows backwards, or gives all of them one score: the penalty has "
            "its centre at 0"
        )
    solution.checked(settings.on_failure)
    w = settings.curves.weights(solution.w, candidate.smoothness)
    w = w if scale is None else w / scale
    scores, squared_norm = problem.scores(w, scale)
    timer.end("solve")
    l2, has_draws = candidate.penalty.l2, problem.survey.arrivals is not None
    return TrainingResult(
        w,
        scores,
        problem.columns,
        problem.survey.labels,
        sampling.estimator,
        timer.seconds,
        solution.certificate,
        problem.form,
        candidate,
        selection,
        pairs=sampling.pairs if has_draws else None,
        suboptimality=(
            suboptimality(problem.survey, sampling, w, quadratic, scale, l2) if has_draws else None
        ),
        theorem2=problem.theorem2(settings.pair_tolerance, quadratic, solution.w, l2, squared_norm),
        moments=problem.moments if settings.keep_moments else None,
        prior=(
            prior.report(centre.scale if candidate.prior else None) if prior and centre else None
        ),
        covariance=(
            {"covariance": settings.approximation.kind, **problem.approximate.facts(scale)}
            if problem.approximate
            else None
        ),
        head=Approximation.of(problem.approximate).head if problem.approximate else None,
        estimated=problem.approximate is None or problem.has_rows,
    )
