"""Maps of scores to probabilities: a sigmoid, or a curve that never falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from spark_auc.core.strict_exp import strict_exp
from spark_auc.core.types import Float


@dataclass(frozen=True)
class Sigmoid:
    """Platt scaling: the probability ``1 / (1 + exp(-(slope * score + intercept)))``."""

    slope: float
    intercept: float

    def at(self, scores: Float) -> Float:
        """Probabilities ``(n,)`` of scores ``(n,)``; the bits are those of Spark SQL."""
        found: Float = 1 / (strict_exp(-(scores * self.slope + self.intercept)) + 1)
        return found


@dataclass(frozen=True, eq=False)
class Isotone:
    """A curve that never falls: ``probabilities`` ``(k,)`` at ascending scores ``boundaries``.

    It is linear between boundaries and constant outside.
    """

    boundaries: Float
    probabilities: Float

    def at(self, scores: Float) -> Float:
        """Probabilities ``(n,)`` of scores ``(n,)``."""
        return np.interp(scores, self.boundaries, self.probabilities)


Curve: TypeAlias = Sigmoid | Isotone


def saved(curve: Curve) -> pa.Table:
    """The table that a model saves."""
    return pa.table({name: np.atleast_1d(v) for name, v in vars(curve).items()})


def restored(table: pa.Table) -> Curve:
    """What a model saved; `ValueError` if it is invalid."""
    first, second = (np.asarray(column.to_numpy(), float) for column in table.columns)
    if not (np.isfinite(first).all() and np.isfinite(second).all() and first.size):
        raise ValueError("its numbers are not finite")
    is_sigmoid = table.column_names[0] == "slope"
    return Sigmoid(first.item(), second.item()) if is_sigmoid else Isotone(first, second)
