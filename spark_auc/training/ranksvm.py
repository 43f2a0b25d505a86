"""One training run by the all-pairs squared hinge loss (RankSVM)."""

from __future__ import annotations

import logging
import time

from spark_auc.core.hinge.pair_hinge import PairHinge
from spark_auc.core.moments.operator import (
    column_moments,
    labelled_column_moments,
    labelled_pair_moments,
)
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import RowSource, batchwise
from spark_auc.solvers.candidates import Candidate
from spark_auc.solvers.ridge import LARGEST_FACTORISED
from spark_auc.solvers.truncated_newton import truncated_newton
from spark_auc.training.problem import fits_in_matrix
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import HingeSettings

_log = logging.getLogger(__name__)

# Features up to which each Newton step forms a matrix of them, and factorises it.
_MATRIX = LARGEST_FACTORISED
# Bytes a row that come to this process with its scores, and go back in tables.
_SCORE_BYTES = 32 + 24


def train_hinge(rows: RowSource, settings: HingeSettings) -> TrainingResult:
    """Train a linear ranker by the squared hinge over all pairs, by truncated Newton steps.

    The rows are kept meanwhile, for they are read again and again; see `truncated_newton`.

    Raises
    ------
    DataError
        A value cannot be used, or there are not two classes.
    ResourceError
        The scores of all rows do not fit in memory.
    ConvergenceError
        The tolerance was not reached.
    """
    with rows.kept() as kept:
        start = time.perf_counter()
        moments = None
        if kept.dimension <= _MATRIX and fits_in_matrix(kept):
            moments, labels = labelled_pair_moments(kept)
            columns = moments.columns()
        else:
            columns, labels = labelled_column_moments(kept)
        count = int(columns.rows.sum())
        kept.memory.check_gathered(_SCORE_BYTES * count, f"scores of {count} rows")
        scale = columns.standard_deviation() if settings.standardize else None
        begun = time.perf_counter()
        solution = truncated_newton(
            PairHinge(kept, columns, settings.reg_param, scale),
            moments.quadratic(scale) if moments else None,
            tol=settings.tol,
            max_iter=settings.max_iter,
        ).checked(settings.on_failure)
        seconds = {"survey": begun - start, "solve": time.perf_counter() - begun}
        w = solution.w if scale is None else solution.w / scale
        if moments:
            scores = moments.along(w)
        else:
            scored = batchwise(lambda batch: batch._replace(X=settled_scores(batch.X, w)[:, None]))
            scores = column_moments(kept.changed(scored, 1))
    _log.info("trained %d features on %d rows: %s", w.size, count, solution.certificate)
    return TrainingResult(
        w,
        scores,
        columns,
        labels,
        "RankSVM",
        seconds,
        solution.certificate,
        penalty=Candidate(settings.reg_param, 0.0),
    )
