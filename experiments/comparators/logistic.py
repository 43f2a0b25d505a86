"""OLR: online logistic regression, one gradient step per row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from experiments.comparators.buffer import add, dot
from experiments.comparators.linear import Linear
from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import Rule
from spark_auc.core.state.schema import Fields, reals
from spark_auc.core.types import Bool, Float, Index
from spark_auc.core.validation import check_above, check_at_least
from spark_auc.errors import ConfigError


@dataclass(eq=False)
class OLR(Linear):
    """Logistic loss of single rows with a ridge penalty and steps ``eta / sqrt(t)``.

    Row ``t``, with ``y`` in {0, 1} and ``p = 1 / (1 + exp(-w'x - b))``, takes the step

        w <- (1 - lambda2 eta / sqrt(t)) w + eta / sqrt(t) (y - p) x,
        b <- b + eta / sqrt(t) (y - p).

    The intercept ``b`` has no penalty. The scores omit it, because it does not affect the ranking.

    Time per row is O(s) for ``s`` stored entries, because ``w`` is stored as a scaled vector;
    memory is O(d).

    Parameters
    ----------
    dimension
        Number of features ``d``.
    eta
        First step size > 0.
    lambda2
        Ridge factor; ``eta lambda2`` must be below 1.

    References
    ----------
    Gultekin, Saha, Ratnaparkhi, Paisley: MBA, Mini-Batch AUC Optimization, Section IV, where it is
    a comparator.
    """

    FIELDS: ClassVar[Fields] = {
        "scalars": reals(2, rule=Rule("of a scale above 0", lambda a: bool(a[0] > 0))),
        "unscaled": reals("d"),
    }

    eta: float = 0.5
    lambda2: float = 0.0
    rows: int = field(init=False, default=0)
    # Scale and intercept, in an array that the kernel modifies.
    scalars: Float = field(init=False, repr=False)
    unscaled: Float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_above("eta", self.eta, 0)
        check_at_least("lambda2", self.lambda2, 0)
        if self.eta * self.lambda2 >= 1:
            raise ConfigError(
                f"found eta * lambda2 = {self.eta * self.lambda2!r}, expected a value below 1, "
                "so that a step does not flip the sign of the weights; set eta or lambda2 smaller"
            )
        super().__post_init__()
        self.scalars = np.array([1.0, 0.0])
        self.unscaled = np.zeros(self.dimension)

    def _take(self, values: Float, indices: Index, starts: Index, y: Bool) -> None:
        settings = float(self.eta), float(self.lambda2)
        _learn(values, indices, starts, y, self.rows, *settings, self.scalars, self.unscaled)
        self.rows += y.size
        self.w = self.scalars[0] * self.unscaled


@compiled()
def _learn(
    values: Float,
    indices: Index,
    starts: Index,
    y: Bool,
    rows: int,
    eta: float,
    lambda2: float,
    scalars: Float,
    unscaled: Float,
) -> None:
    scale, intercept = scalars
    for r in range(y.size):
        start, end = starts[r], starts[r + 1]
        step = eta / np.sqrt(rows + r + 1)
        score = scale * dot(values, indices, start, end, unscaled) + intercept
        error = step * (y[r] - 1.0 / (1.0 + np.exp(-score)))
        intercept += error
        scale *= 1.0 - step * lambda2
        add(values, indices, start, end, error / scale, unscaled)
        # Rescale before the scale underflows; a power of two leaves the bits of w unchanged.
        if scale < 2.0**-300:
            unscaled *= 2.0**-300
            scale *= 2.0**300
    scalars[0], scalars[1] = scale, intercept
