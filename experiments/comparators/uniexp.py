"""Uni-Exp: class-weighted exponential loss of single rows, online (Kotlowski et al. 2011)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from experiments.comparators.buffer import add, dot
from experiments.comparators.linear import Linear
from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import COUNTS
from spark_auc.core.state.schema import Fields, array
from spark_auc.core.types import Bool, Float, Index
from spark_auc.core.validation import check_above


@dataclass(eq=False)
class UniExp(Linear):
    """Exponential loss of single rows, with equal total weight of both classes.

    Row ``t``, ``x`` of sign ``e``, the ``n_e``-th row of its class, has the loss
    ``t / (2 n_e) exp(-e w'x)`` and takes the gradient step

        w <- w + eta t / (2 n_e) exp(-e w'x) e x.

    Time per row is O(s) for ``s`` stored entries; memory is O(d).

    Parameters
    ----------
    dimension
        Number of features ``d``.
    eta
        Step size. The gradient of the loss is unbounded: with a step that is too long, the
        weights overflow and `learn` raises.

    References
    ----------
    Kotlowski, Dembczynski, Huellermeier: Bipartite Ranking through Minimization of Univariate
    Loss, ICML 2011; as an online learner in Gao et al., One-Pass AUC Optimization, ICML 2013.
    """

    FIELDS: ClassVar[Fields] = {"seen": array("<i8", 2, rule=COUNTS)}

    eta: float = 0.01
    seen: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_above("eta", self.eta, 0)
        super().__post_init__()
        self.seen = np.zeros(2, np.int64)

    def _take(self, values: Float, indices: Index, starts: Index, y: Bool) -> None:
        _learn(values, indices, starts, y, float(self.eta), self.seen, self.w)


@compiled()
def _learn(
    values: Float,
    indices: Index,
    starts: Index,
    y: Bool,
    eta: float,
    seen: NDArray[np.int64],
    w: Float,
) -> None:
    for r in range(y.size):
        own = 1 if y[r] else 0
        sign = 1.0 if y[r] else -1.0
        seen[own] += 1
        share = (seen[0] + seen[1]) / (2.0 * seen[own])
        loss = share * np.exp(-sign * dot(values, indices, starts[r], starts[r + 1], w))
        add(values, indices, starts[r], starts[r + 1], eta * loss * sign, w)
