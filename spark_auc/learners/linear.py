"""Scores of linear learners, and the check that two learners can be merged."""

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
        The rows have another dimension.
    ConvergenceError
        A weight is not finite, because the steps diverged.
    """
    entries(X[:0], w.size)
    if not np.isfinite(w).all():
        raise ConvergenceError(
            "found weights that are not finite, expected finite weights; the steps are too long "
            "for these rows: reduce the step size, or scale the features to [-1, 1]"
        )
    return settled_scores(X, w)


def same_settings(learner: Stored, other: Stored) -> None:
    """`ConfigError` if two learners differ in a setting."""
    for setting in (f.name for f in fields(learner) if f.init):
        found, expected = getattr(other, setting), getattr(learner, setting)
        if found != expected:
            raise ConfigError(
                f"found {setting} = {found}, expected {expected}; merge learners with "
                "equal settings"
            )
