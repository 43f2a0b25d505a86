"""What a training run found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.column_moments import ColumnMoments
from spark_auc.core.objective import Quadratic
from spark_auc.solvers.candidates import Candidate, Selection
from spark_auc.solvers.solution import Solution
from spark_auc.spark.survey import Sampling
from spark_auc.spark.training import Problem

Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a training run found; see `Fitting.fit`.

    Parameters
    ----------
    problem
        The pairs trained on.
    sampling
        How they were drawn.
    candidate, selection
        The penalty, and how it was chosen where it was not given.
    quadratic, scale
        The problem in columns divided by the scale, where they were.
    solution
        The weights of scaled columns, and the certificate.
    w
        The weights ``(d,)`` of raw columns.
    scores
        Moments of their scores, as one column.
    seconds
        Wall time of each phase.
    suboptimality
        What sampling costs the objective, as the draws estimate it.
    sufficient_pairs
        Draws that Theorem 2 asks for the tolerance.
    """

    problem: Problem
    sampling: Sampling
    candidate: Candidate
    selection: Selection | None
    quadratic: Quadratic
    scale: Float | None
    solution: Solution
    w: Float
    scores: ColumnMoments
    seconds: dict[str, float]
    suboptimality: float | None = None
    sufficient_pairs: int | None = None
