"""The margins of the rows along a line of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from spark_auc.core.hinge.margins import Margins
from spark_auc.core.hinge.range_margins import RangeMargins
from spark_auc.core.hinge.row_scores import RowScores

# The rows in order of their scores by one vector, or in ranges of them.
AnyMargins: TypeAlias = Margins | RangeMargins
# The margins by ``w + step * direction`` as a function of the step.
Line: TypeAlias = Callable[[float], AnyMargins]


def line_of(scores: RowScores) -> Line:
    """The line along the second vector of gathered scores."""
    return lambda step: Margins.of(scores.combined(np.array([[1.0, step], [0.0, 1.0]])))
