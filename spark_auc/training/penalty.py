"""The problem and the penalty that cross-validation chooses for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.moments.operator import column_moments, operator_quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows, Folding, RowSource
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float
from spark_auc.errors import ResourceError
from spark_auc.solvers.candidates import Candidate, Selection, default_grid
from spark_auc.training.cross_validation import CrossValidation
from spark_auc.training.problem import Problem, problem
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling

_log = logging.getLogger(__name__)

_LARGEST_HISTOGRAM, _SMALLEST_HISTOGRAM = 1 << 14, 1 << 8


@dataclass(frozen=True, eq=False)
class FoldedProblem:
    """A problem, and its rows in folds.

    Parameters
    ----------
    problem
        The problem of all folds.
    rows
        All rows as they were given.
    settings
        Which penalties to choose from, and how.
    folds
        The rows' folds.
    own
        The moments of each fold's own rows; none where there are too many features for them.
    """

    problem: Problem
    rows: RowSource
    settings: TrainingSettings
    folds: Folds
    own: list[PairMoments]

    @classmethod
    def of(cls, rows: RowSource, sampling: Sampling, settings: TrainingSettings) -> FoldedProblem:
        """The problem of some pairs of these rows; see `spark_auc.training.problem.problem`."""
        cross, own = _cross_validation(settings, rows, 1), list[PairMoments]()

        def moments_of(chosen: Folding) -> tuple[PairMoments, LabelCounts]:
            nonlocal cross, own
            what = f"moments of {rows.dimension} features in {settings.folds.count} folds"
            rows.memory.check_folds(PairMoments.nbytes(rows.dimension), settings.folds.count, what)
            cross, own, labels = cross.by_moments(chosen)
            return reduce(PairMoments.merge, own), labels

        made = problem(rows, sampling, moments_of)
        return cls(made, rows, settings, cross.held_out, own)

    def selection(self) -> Selection:
        """How each penalty ranks the rows of each fold.

        Raises
        ------
        ConvergenceError
            No penalty was solved in all folds.
        DataError
            A fold has rows of one class only.
        ResourceError
            Neither the features nor the rows fit in memory.
        """
        candidates = self._candidates()
        cross = replace(
            _cross_validation(self.settings, self.rows, len(candidates)), held_out=self.folds
        )
        chosen, scored = self.problem.rows, self.rows
        validation: Folding = scored
        if self.own:
            training = self._of_moments(PairMoments.complements(self.own))
        elif isinstance(chosen, ArrayRows):
            cross, parts = cross.by_rows(chosen)
            training = self._of_rows(parts)
            validation = chosen if self.problem.survey.arrivals is None else scored
        else:
            raise ResourceError(
                f"found {self.rows.dimension} features and more rows than fit in memory, expected "
                "one or the other to fit for choosing the penalty; set regParam, or draw rows with "
                "estimator='complete' and numPairs"
            )
        found = cross.of(candidates, training, validation)
        _log.info(
            "chosen of %d penalties in %d folds: %s, AUC %.4f",
            len(candidates),
            cross.folds,
            found.candidate,
            found.mean[found.chosen],
        )
        return found

    def _candidates(self) -> list[Candidate]:
        quadratic = None
        found = []
        for mix in self.settings.elastic_net_params:
            values = self.settings.reg_params
            if values is None:
                quadratic = quadratic or self.problem.quadratic(self._scale(self.problem.columns))
                values = tuple(default_grid(quadratic, mix))
            found += [Candidate(float(value), mix) for value in values]
        return found

    def _scale(self, columns: ColumnMoments) -> Float | None:
        return columns.standard_deviation() if self.settings.standardize else None

    def _of_moments(self, parts: Sequence[PairMoments]) -> Iterator[tuple[Quadratic, Float | None]]:
        for part in parts:
            scale = self._scale_of_fold(part.columns)
            yield part.quadratic(scale), scale

    def _of_rows(self, parts: Sequence[ArrayRows]) -> Iterator[tuple[Quadratic, Float | None]]:
        for part in parts:
            scale = self._scale_of_fold(partial(column_moments, part))
            yield operator_quadratic(part, scale), scale

    def _scale_of_fold(self, columns: Callable[[], ColumnMoments]) -> Float | None:
        # Draws are half positive, whatever all rows are: a penalty would change its unit.
        return self._scale(self.problem.columns if self.problem.survey.arrivals else columns())


def _cross_validation(settings: TrainingSettings, rows: RowSource, models: int) -> CrossValidation:
    """How to choose, in the memory that there is."""
    limit, count = rows.memory.gather_limit, settings.folds.count
    bins = limit // (56 * count * models)
    return CrossValidation(
        settings.folds,
        settings.tol,
        settings.max_iter,
        settings.on_failure,
        settings.one_standard_error,
        max(_SMALLEST_HISTOGRAM, min(_LARGEST_HISTOGRAM, 1 << max(bins.bit_length() - 1, 0))),
        max(1, min(count, limit // PairMoments.nbytes(rows.dimension))),
    )
