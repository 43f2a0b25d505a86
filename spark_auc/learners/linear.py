"""Scores of linear learners, and the check that two learners can be merged."""

from __future__ import annotations

from dataclasses import fields
from typing import Self

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


class AveragedIterate:
    """The average of a scaled iterate ``scale z``, updated lazily.

    Attributes
    ----------
    scale, z : float and (d,)
        The iterate is ``scale z``.
    gain, lag, averaged : float, (d,) and int
        The average of ``averaged`` iterates is ``(gain z - lag) / averaged``.
    """

    scale: float
    z: Float
    gain: float
    lag: Float
    averaged: int

    @property
    def iterate(self) -> Float:
        """The current iterate ``(d,)``, which the next step moves."""
        return self.scale * self.z

    @property
    def w(self) -> Float:
        """Weights ``(d,)``: the average of the iterates, or the last iterate without averaging."""
        return self._sum() / self.averaged if self.averaged else self.iterate

    def score(self, X: Rows) -> Float:
        """Scores ``(n,)`` of rows ``(n, d)``."""
        return scores(X, self.w)

    def _sum(self) -> Float:
        """The sum ``(d,)`` of the averaged iterates."""
        # `scores` refuses weights that are not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            return self.gain * self.z - self.lag

    def _set_merged(self, first: Self, second: Self, start: Self, share: float) -> None:
        """Set a new learner to ``share`` of the first and the rest of the second iterate.

        The sums of averaged iterates are added; that of ``start``, from which both learned, counts
        once.
        """
        self.z = share * first.iterate + (1.0 - share) * second.iterate
        self.lag = start._sum() - first._sum() - second._sum()
        self.averaged = first.averaged + second.averaged - start.averaged


def same_settings(learner: Stored, other: Stored) -> None:
    """`ConfigError` if two learners differ in a setting."""
    for setting in (f.name for f in fields(learner) if f.init):
        found, expected = getattr(other, setting), getattr(learner, setting)
        if found != expected:
            raise ConfigError(
                f"found {setting} = {found}, expected {expected}; merge learners with "
                "equal settings"
            )
