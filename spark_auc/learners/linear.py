"""What linear learners share: scores, averages of iterates, and learners that are merged."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar, Self, cast

import numpy as np

from spark_auc.core.products import settled_scores
from spark_auc.core.state.rules import NOT_0
from spark_auc.core.state.schema import Fields, reals
from spark_auc.core.types import Float, Rows
from spark_auc.errors import ConfigError, ConvergenceError
from spark_auc.learners.learner import LinearLearner, Stored, entries

# Smallest scale before rescaling: the average is a difference of sums that grow as 1 / scale, and
# loses at most three digits.
SMALLEST_SCALE = 1e-3


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


class Linear(Stored):
    """A stored learner whose scores are ``X w``."""

    def score(self, X: Rows) -> Float:
        """See `Learner.score`; raises what `scores` raises."""
        return scores(X, cast(LinearLearner, self).w)

    def _joined(self, other: Self, start: Self | None, *counts: str) -> tuple[Self, Self, float]:
        """A new learner with the counts of two of equal settings; the start, and the first's share.

        Those of ``start``, from which both learned, count once. Without it both began with
        nothing. The share is that of the first of the counts since then.

        Raises
        ------
        ConfigError
            The settings differ.
        """
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        for setting, expected in given.items():
            if (found := getattr(other, setting)) != expected:
                raise ConfigError(
                    f"found {setting} = {found}, expected {expected}; merge learners with "
                    "equal settings"
                )
        made, before = type(self)(**given), start or type(self)(**given)
        first = counts[0]
        own, others = (getattr(part, first) - getattr(before, first) for part in (self, other))
        for name in counts:
            total = getattr(self, name) + getattr(other, name) - getattr(before, name)
            setattr(made, name, total)
        return made, before, own / ((own + others) or 1)


@dataclass(eq=False)
class AveragedIterate(Linear):
    """The average of a scaled iterate ``scale z``, updated lazily.

    Attributes
    ----------
    scale, z : float and (d,)
        The iterate is ``scale z``.
    gain, lag, averaged : float, (d,) and int
        The average of ``averaged`` iterates is ``(gain z - lag) / averaged``.
    """

    # Numbers that learners of different rows add up, the number of pairs first.
    COUNTS: ClassVar[tuple[str, ...]]
    FIELDS: ClassVar[Fields] = {
        "z": reals("d"),
        "lag": reals("d"),
        "scale": reals(rule=NOT_0),
    }

    z: Float = field(init=False, repr=False)
    lag: Float = field(init=False, repr=False)
    scale: float = field(init=False, default=1.0)
    gain: float = field(init=False, default=0.0)
    averaged: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.z, self.lag = np.zeros(self.dimension), np.zeros(self.dimension)

    @property
    def iterate(self) -> Float:
        """The current iterate ``(d,)``, which the next step moves."""
        return self.scale * self.z

    @property
    def w(self) -> Float:
        """Weights ``(d,)``: the average of the iterates, or the last iterate without averaging."""
        return self._sum() / self.averaged if self.averaged else self.iterate

    def _sum(self) -> Float:
        """The sum ``(d,)`` of the averaged iterates."""
        # `scores` refuses weights that are not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            return self.gain * self.z - self.lag

    def merge(self, other: Self, start: Self | None = None) -> Self:
        """Average two learners that drew pairs of different rows in parallel.

        Iterates are averaged by the number of pairs of each learner; numbers of steps and sums of
        averaged iterates are added. This is an approximation: no pair joins rows of both learners.

        Parameters
        ----------
        other
            A learner with the same settings, in the same stage.
        start
            The learner from which both started; its steps count once.

        Raises
        ------
        ConfigError
            The settings differ.
        """
        merged, before, share = self._joined(other, start, *self.COUNTS, "averaged")
        merged.z = share * self.iterate + (1.0 - share) * other.iterate
        merged.lag = before._sum() - self._sum() - other._sum()
        return merged
