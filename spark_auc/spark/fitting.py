"""One training run: which pairs, which penalty, the weights, and how good they are."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.column_moments import ColumnMoments
from spark_auc.core.folds import Folds
from spark_auc.core.moments import PairMoments
from spark_auc.core.objective import Quadratic
from spark_auc.core.operator import column_moments, operator_quadratic
from spark_auc.core.rows import Folding, LocalRows
from spark_auc.errors import ConvergenceError, ResourceError
from spark_auc.solvers.candidates import Candidate, Selection, default_grid
from spark_auc.solvers.path import solve
from spark_auc.solvers.selection import CrossValidation
from spark_auc.solvers.solution import OnFailure
from spark_auc.spark.fitted import Fitted
from spark_auc.spark.resources import Gathering, check_memory
from spark_auc.spark.rows import DistributedRows
from spark_auc.spark.survey import Sampling
from spark_auc.spark.training import Problem, problem, suboptimality

Float = NDArray[np.float64]

_log = logging.getLogger(__name__)

# Draws to begin with and to end at where their number is to be found.
_FEWEST_PAIRS, _MOST_PAIRS = 1 << 12, 1 << 20
_LARGEST_HISTOGRAM, _SMALLEST_HISTOGRAM = 1 << 14, 1 << 8


@dataclass(frozen=True)
class Fitting:
    """Settings of a training run.

    Parameters
    ----------
    sampling
        Which pairs to train on; 0 pairs of "paired" and "complete" are to be found.
    pair_tolerance
        What sampling may cost the objective where the number of pairs is to be found.
    batch_size
        Draws are a multiple of it.
    reg_params, elastic_net_params
        The penalties to choose from: every combination. Without reg_params, a grid that suits
        the data; see `default_grid`.
    folds, one_standard_error
        How to choose; see `CrossValidation`.
    standardize
        Whether penalties apply to columns of unit variance.
    tol, max_iter, on_failure
        See `path` and `Solution.checked`.
    """

    sampling: Sampling
    pair_tolerance: float
    batch_size: int
    reg_params: tuple[float, ...] | None
    elastic_net_params: tuple[float, ...]
    folds: Folds
    one_standard_error: bool
    standardize: bool
    tol: float
    max_iter: int
    on_failure: OnFailure

    @property
    def candidate(self) -> Candidate | None:
        """The penalty, where there is nothing to choose from."""
        regs, mixes = self.reg_params or (), self.elastic_net_params
        return Candidate(regs[0], mixes[0]) if len(regs) == len(mixes) == 1 else None

    def fit(self, rows: DistributedRows) -> Fitted:
        """Train.

        Raises
        ------
        DataError
            A value is not usable, or there are not two classes.
        ResourceError
            Memory does not suffice, or the rows are too many for choosing a penalty in this way.
        ConvergenceError
            The solver or the search for the number of pairs did not get where it should.
        """
        sampling = self.sampling
        if sampling.estimator == "exact":
            return self._attempt(rows, sampling)
        wanted = sampling.pairs or _FEWEST_PAIRS
        while True:
            pairs = -(-wanted // self.batch_size) * self.batch_size
            sampling = replace(sampling, pairs=pairs)
            found = self._attempt(rows, sampling)
            scale = np.ones_like(found.w) if found.scale is None else found.scale
            cost = suboptimality(
                found.problem,
                sampling,
                found.w,
                found.quadratic,
                scale,
                found.candidate.penalty.l2,
            )
            _log.info(
                "%d pairs: sampling costs the objective about %.3g; Theorem 2 asks for %s",
                pairs,
                cost,
                "no number" if found.sufficient_pairs is None else f"{found.sufficient_pairs:.3g}",
            )
            if self.sampling.pairs or cost <= self.pair_tolerance:
                return replace(found, suboptimality=cost)
            if pairs >= _MOST_PAIRS:
                message = (
                    f"found that {pairs} pairs cost the objective about {cost:.3g}, expected at "
                    f"most {self.pair_tolerance:.3g}; raise pairTol or use estimator='exact'"
                )
                if self.on_failure == "raise":
                    raise ConvergenceError(message)
                _log.warning(message)
                return replace(found, suboptimality=cost)
            # What sampling costs falls as the inverse of the number of pairs.
            needed = 1.2 * pairs * cost / self.pair_tolerance
            wanted = int(min(max(needed, 2 * pairs), 16 * pairs, _MOST_PAIRS))

    def _attempt(self, rows: DistributedRows, sampling: Sampling) -> Fitted:
        start = time.perf_counter()
        seconds: dict[str, float] = {}

        def done(phase: str) -> None:
            nonlocal start
            now = time.perf_counter()
            seconds[phase] = seconds.get(phase, 0.0) + now - start
            start = now

        selection = None
        candidate = self.candidate
        if candidate:
            given = problem(rows, sampling)
            done("moments")
        else:
            # A pair of rows can be of two folds, so paired draws choose by all pairs of theirs.
            within = replace(sampling, estimator="complete")
            chooses = within if sampling.estimator == "paired" else sampling
            given, own, held_out = self._with_folds(rows, chooses)
            done("moments")
            selection = self._selection(given, own, held_out, rows)
            candidate = selection.candidate
            done("select")
            if chooses != sampling:
                given = problem(rows, sampling)
                done("moments")
        scale = self._scale(given.columns)
        quadratic = given.quadratic(scale)
        solution = solve(quadratic, candidate.penalty, tol=self.tol, max_iter=self.max_iter)
        while selection and self.on_failure == "raise" and not solution.converged:
            reason = f"all rows: {solution.certificate.problem()}"
            others = selection.without(reason, one_standard_error=self.one_standard_error)
            if others is None:
                break
            _log.warning("%s is left out: %s", candidate, reason)
            selection, candidate = others, others.candidate
            solution = solve(quadratic, candidate.penalty, tol=self.tol, max_iter=self.max_iter)
        solution.checked(self.on_failure)
        w = solution.w if scale is None else solution.w / scale
        scores, squared_norm = given.scores(w, scale)
        done("solve")
        return Fitted(
            given,
            sampling,
            candidate,
            selection,
            quadratic,
            scale,
            solution,
            w,
            scores,
            seconds,
            sufficient_pairs=given.sufficient_pairs(
                self.pair_tolerance, scale, candidate.penalty.l2, squared_norm
            ),
        )

    def _validation(self, rows: DistributedRows, models: int) -> CrossValidation:
        """How to choose, in the memory that there is."""
        limit = Gathering.of(rows.frame.sparkSession).limit
        bins = limit // (56 * self.folds.count * models)
        return CrossValidation(
            self.folds,
            self.tol,
            self.max_iter,
            self.on_failure,
            self.one_standard_error,
            max(_SMALLEST_HISTOGRAM, min(_LARGEST_HISTOGRAM, 1 << max(bins.bit_length() - 1, 0))),
            max(1, min(self.folds.count, limit // PairMoments.nbytes(rows.dimension))),
        )

    def _with_folds(
        self, rows: DistributedRows, sampling: Sampling
    ) -> tuple[Problem, list[PairMoments], Folds]:
        """The problem, the moments of each fold's own rows where they are formed, and the folds."""
        validation, own = self._validation(rows, 1), list[PairMoments]()

        def moments_of(chosen: Folding) -> PairMoments:
            nonlocal validation, own
            # No task runs while the complements are made; the pass before checks its own states.
            what = f"moments of {rows.dimension} features in {self.folds.count} folds"
            size = PairMoments.nbytes(rows.dimension)
            check_memory(rows.frame.sparkSession, size, 0, what, self.folds.count)
            validation, own = validation.by_moments(chosen)
            return reduce(PairMoments.merge, own)

        given = problem(rows, sampling, moments_of)
        return given, own, validation.held_out

    def _selection(
        self, given: Problem, own: list[PairMoments], held_out: Folds, rows: DistributedRows
    ) -> Selection:
        candidates = self._candidates(given)
        validation = replace(self._validation(rows, len(candidates)), held_out=held_out)
        scored: Folding = rows
        if own:
            training = self._of_moments(given, PairMoments.complements(own))
        elif isinstance(given.rows, LocalRows):
            validation, parts = validation.by_rows(given.rows)
            training = self._of_rows(given, parts)
            scored = given.rows if given.arrivals is None else rows
        else:
            raise ResourceError(
                f"found {rows.dimension} features and more rows than fit in memory, expected one "
                "or the other to fit for choosing the penalty; set regParam, or draw rows with "
                "estimator='complete' and numPairs"
            )
        found = validation.of(candidates, training, scored)
        _log.info(
            "chosen of %d penalties in %d folds: %s, AUC %.4f",
            len(candidates),
            validation.folds,
            found.candidate,
            found.mean[found.chosen],
        )
        return found

    def _candidates(self, given: Problem) -> list[Candidate]:
        quadratic = None
        found = []
        for mix in self.elastic_net_params:
            values = self.reg_params
            if values is None:
                quadratic = quadratic or given.quadratic(self._scale(given.columns))
                values = tuple(default_grid(quadratic, mix))
            found += [Candidate(float(value), mix) for value in values]
        return found

    def _scale(self, columns: ColumnMoments) -> Float | None:
        return columns.standard_deviation() if self.standardize else None

    def _of_moments(
        self, given: Problem, parts: Sequence[PairMoments]
    ) -> Iterator[tuple[Quadratic, Float | None]]:
        for part in parts:
            scale = self._scale_of_fold(given, part.columns)
            yield part.quadratic(scale), scale

    def _of_rows(
        self, given: Problem, parts: Sequence[LocalRows]
    ) -> Iterator[tuple[Quadratic, Float | None]]:
        for part in parts:
            scale = self._scale_of_fold(given, partial(column_moments, part))
            yield operator_quadratic(part, scale), scale

    def _scale_of_fold(self, given: Problem, columns: Callable[[], ColumnMoments]) -> Float | None:
        # Draws are half positive, whatever all rows are: a penalty would change its unit.
        return self._scale(given.columns if given.arrivals else columns())
