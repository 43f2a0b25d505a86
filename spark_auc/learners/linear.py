"""What learners of one weight vector share: scores, and settings compared."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from spark_auc.core.products import settled_scores
from spark_auc.core.types import Float, Rows
from spark_auc.errors import ConfigError, ConvergenceError
from spark_auc.learners.learner import Stored, entries


def scores(X: Rows, w: Float) -> Float:
    """Scores ``X w`` ``(n,)`` of rows ``(n, d)``.

    Raises
    ------
    DataError
        The rows are of another dimension.
    ConvergenceError
        The weights have overflowed.
    """
    entries(X[:0], w.size)
    if not np.isfinite(w).all():
        raise ConvergenceError(
            "found weights that are not finite, expected finite ones; the steps were too long for "
            "the rows: take a smaller step, or scale the features to [-1, 1]"
        )
    return settled_scores(X, w)


def same_settings(mine: Stored, other: Stored) -> None:
    """Refuse two learners that differ in a setting."""
    for setting in (f.name for f in fields(mine) if f.init):
        found, expected = getattr(other, setting), getattr(mine, setting)
        if found != expected:
            raise ConfigError(
                f"found {setting} = {found}, expected {expected}; merge learners of one setting"
            )
