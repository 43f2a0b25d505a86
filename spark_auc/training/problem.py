"""The quadratic of the pairs trained on, in the form that costs less and fits in memory."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from spark_auc.core.batch import Batch
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.moments.operator import (
    labelled_pair_moments,
    operator_quadratic,
    pair_moments,
)
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.spectral_norm import spectral_norm
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import ArrayRows, Folding, RowSource, State, batchwise
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.sample_size import LargestNorm, sufficient_pairs
from spark_auc.core.types import Float
from spark_auc.errors import ResourceError
from spark_auc.training.approximation import ApproximateMoments
from spark_auc.training.costs import Work, steps_on_rows
from spark_auc.training.survey import Sampling, Survey, survey

_log = logging.getLogger(__name__)

# Bytes in memory of a stored entry of a sparse row, buffers for reading included.
_ENTRY_BYTES = 32
# Probability with which the bound of Theorem 2 may fail.
_FAILURE_PROBABILITY = 0.05


@dataclass(frozen=True, eq=False)
class Problem:
    """The pairwise squared loss of the pairs trained on (MBA, Eq. 8), and the survey of all rows.

    Parameters
    ----------
    survey
        Survey of all rows.
    rows
        The rows whose pairs are trained on, gathered in memory if they fit.
    moments
        The pair moments of these rows; None without a matrix of all features.
    steps
        Number of steps of a solver on the rows that take as long as a matrix would; None if there
        is a matrix, or if it does not fit in memory.
    approximate
        Moments that define the quadratic approximately; None if it is exact.
    """

    survey: Survey
    rows: Folding
    moments: PairMoments | None
    steps: int | None = None
    approximate: ApproximateMoments | None = None

    def with_matrix(self) -> Problem:
        """The same problem with a matrix."""
        return replace(self, moments=pair_moments(self.rows), steps=None)

    @property
    def columns(self) -> ColumnMoments:
        """Column moments of all rows."""
        return self.survey.columns

    @property
    def form(self) -> str:
        """Storage of the quadratic: "tiles" (a matrix), "rows" (in memory) or "passes".

        "approximation" for approximate covariances.
        """
        if self.approximate is not None:
            return "approximation"
        if self.moments is not None:
            return "tiles"
        return "rows" if isinstance(self.rows, ArrayRows) else "passes"

    @property
    def has_rows(self) -> bool:
        """Whether the rows can be read again."""
        return not (isinstance(self.rows, ArrayRows) and not self.rows.batches)

    def scale(self, standardize: bool) -> Float | None:
        """Divisors ``(d,)`` of the columns to train on; None for 1."""
        if not standardize:
            return None
        if self.approximate is not None:
            return self.approximate.divisors()
        return self.columns.standard_deviation()

    def quadratic(self, scale: Float | None) -> Quadratic:
        """The quadratic in columns divided by ``scale`` ``(d,)``."""
        if self.approximate is not None:
            return self.approximate.quadratic(scale)
        if self.moments is not None:
            return self.moments.quadratic(scale)
        return operator_quadratic(self.rows, scale)

    def scores(self, w: Float, scale: Float | None) -> tuple[ColumnMoments, float | None]:
        """Moments of the scores ``X w`` of all rows, and the largest squared norm of a row.

        Parameters
        ----------
        w : (d,)
            Weights of raw columns.
        scale : (d,), optional
            Divisors of the columns in the norm.

        Returns
        -------
        scores
            Moments of the scores, as one column.
        squared_norm
            ``max |x|^2`` in scaled columns; None without draws.
        """
        if self.moments is not None and self.survey.arrivals is None:
            return self.moments.along(w), None
        if self.approximate is not None and not self.has_rows:
            return self.approximate.along(w), None

        def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            largest = LargestNorm()

            def with_scores() -> Iterator[Batch]:
                nonlocal largest
                for batch in batches:
                    largest = largest.merge(LargestNorm.of(batch.X, scale))
                    yield batch._replace(X=settled_scores(batch.X, w)[:, None])

            yield "scores", ColumnMoments.fold(with_scores(), 1)
            yield "largest", largest

        states = self.survey.rows.fold(
            fold, (ColumnMoments, LargestNorm), state_bytes=1024, what="moments of scores"
        )
        has_draws = self.survey.arrivals is not None
        largest = cast(LargestNorm, states["largest"])
        return cast(ColumnMoments, states["scores"]), largest.squared if has_draws else None

    def theorem2(
        self, epsilon: float, quadratic: Quadratic, w: Float, l2: float, squared_norm: float | None
    ) -> dict[str, float | None] | None:
        """The number of draws by Theorem 2 of MBA and what it depends on; see `TrainingSummary`.

        None without draws, and for columns that are all constant.

        Parameters
        ----------
        epsilon
            Greatest distance of the objective from that of all pairs.
        quadratic
            The quadratic of the drawn pairs, whose spectral norm stands for that of all pairs.
        w : (d,)
            The solution, in the quadratic's columns.
        l2
            The ridge factor.
        squared_norm
            The largest squared norm of a row; None without draws.
        """
        norm = spectral_norm(quadratic.Sigma) if squared_norm else 0.0
        if not squared_norm or not norm:
            return None
        length = float(w @ w)

        def number(squared_weight_norm: float, printed: bool = False) -> int | None:
            sizes = epsilon, _FAILURE_PROBABILITY, w.size, norm, float(squared_norm or 0.0)
            if not 0 < squared_weight_norm < math.inf:
                return None
            return sufficient_pairs(*sizes, squared_weight_norm, printed=printed)

        largest = 0.25 / l2 if l2 else math.inf
        return {
            "corrected": number(largest),
            "printed": number(largest, printed=True),
            "estimated": number(length),
            "spectralNorm": norm,
            "squaredRowNorm": squared_norm,
            "squaredWeightNorm": length,
        }


class TrainingRows(NamedTuple):
    """The rows whose pairs are trained on.

    Parameters
    ----------
    rows
        All rows, the drawn rows, or the differences of the drawn pairs.
    has_matrix
        Whether their pair moments are computed.
    survey
        Survey of all rows; None if the pair moments of ``rows`` supply it.
    steps
        See `Problem`.
    """

    rows: Folding
    has_matrix: bool
    survey: Survey | None
    steps: int | None = None

    def problem(
        self, moments: PairMoments | None = None, labels: LabelCounts | None = None
    ) -> Problem:
        """The problem of these rows.

        Parameters
        ----------
        moments, labels
            Their pair moments and label counts, which ``has_matrix`` requires.
        """
        if self.survey is not None:
            return Problem(self.survey, self.rows, moments, self.steps)
        assert moments is not None, "pair moments of all rows"
        assert labels is not None, "label counts of all rows"
        rows = cast(RowSource, self.rows)
        return Problem(Survey(moments.columns(), labels, rows), rows, moments)


def build_problem(rows: RowSource, sampling: Sampling, work: Work | None = None) -> Problem:
    """Read the rows and build the problem of the sampled pairs.

    Parameters
    ----------
    rows
        All rows.
    sampling
        Which of their pairs to train on.
    work
        See `select_rows`.

    Raises
    ------
    DataError
        A value is unusable, one class has no rows, or no rows were drawn.
    ResourceError
        The moments do not fit in memory.
    """
    selected = select_rows(rows, sampling, work)
    if selected.has_matrix:
        return selected.problem(*labelled_pair_moments(selected.rows))
    return selected.problem()


def select_rows(rows: RowSource, sampling: Sampling, work: Work | None) -> TrainingRows:
    """Select the rows to train on, and decide in which form their quadratic is computed.

    It is a matrix if this fits in memory, unless the rows are in memory and take less time. All
    rows with a matrix need no survey: one pass computes their pair moments. Otherwise the survey is
    a pass of its own, and rows without a matrix are gathered in memory if they fit.

    Parameters
    ----------
    rows, sampling
        See `build_problem`.
    work
        What is solved; None for a matrix if it fits.

    Raises
    ------
    DataError
        A value is unusable, one class has no rows, or no rows were drawn.
    """
    has_matrix = fits_in_matrix(rows)
    if not has_matrix:
        _log.info("training without the matrix of second moments: %s", _refusal(rows))
    if sampling.estimator == "exact" and has_matrix:
        if work is not None and isinstance(rows, ArrayRows):
            steps = steps_on_rows(rows.batches, rows.dimension, work)
            if steps is not None:
                _log.info("training on the rows: %d steps take as long as the matrix", steps)
                rows = rows.gathered()
                return TrainingRows(rows, False, survey(rows, sampling), steps)
        return TrainingRows(rows, has_matrix, None)
    surveyed = survey(rows, sampling)
    selected, entries = surveyed.rows, float(surveyed.columns.entries.sum())
    if surveyed.arrivals is not None:
        selected = _drawn(surveyed, surveyed.arrivals, sampling)
        entries *= min(1.0, 2.0 * sampling.pairs / float(surveyed.columns.rows.sum()))
    if has_matrix:
        return TrainingRows(selected, has_matrix, surveyed)
    return TrainingRows(_gathered(selected, entries), has_matrix, surveyed)


def _drawn(surveyed: Survey, arrivals: FirstArrivals, sampling: Sampling) -> RowSource:
    """The drawn rows for "complete", the differences of the drawn pairs for "paired"."""
    rows, draws = surveyed.rows, arrivals.draws(sampling.seed, sampling.pairs)
    if sampling.estimator == "complete":
        return rows.changed(batchwise(draws.drawn))
    return rows.paired(draws, arrivals.cuts(sampling.pairs, rows.memory.slots))


def _gathered(rows: RowSource, entries: float) -> Folding:
    """The rows gathered in memory if they fit, else the rows themselves."""
    size, limit = _ENTRY_BYTES * entries, rows.memory.rows_limit
    if size <= limit:
        _log.info("gathering %.0f stored entries of the rows in memory", entries)
        return rows.gathered()
    _log.warning(
        "the %.0f stored entries of the rows need about %.0f MiB, the limit is %.0f MiB: "
        "every step of the solver reads all rows again",
        entries,
        size / 2**20,
        limit / 2**20,
    )
    return rows


def fits_in_matrix(rows: RowSource) -> bool:
    """Whether the pair moments of all features fit in memory."""
    return _refusal(rows) is None


def _refusal(rows: RowSource) -> str | None:
    """Why no pair moments of all features are made; None if they are."""
    dimension = rows.dimension
    try:
        rows.memory.check(PairMoments.nbytes(dimension), f"moments of {dimension} features")
    except ResourceError as error:
        return str(error)
    return None
