"""The penalties to choose from, and how each did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.objective import ElasticNet, Quadratic

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """One penalty in Spark ML's names."""

    regParam: float
    elasticNetParam: float

    @property
    def penalty(self) -> ElasticNet:
        """The factors that it stands for."""
        return ElasticNet.of(self.regParam, self.elasticNetParam)


@dataclass(frozen=True, eq=False)
class Selection:
    """How each penalty ranked rows that it was not trained on.

    Parameters
    ----------
    candidates
        The penalties ``l``.
    auc : (l, k)
        AUC of each penalty on each fold.
    uncertainty
        Half the width of the widest bounds on any of them; 0 where all are exact.
    nonzeros : (l,)
        Mean number of weights that are not 0.
    chosen
        Which penalty was chosen.
    """

    candidates: tuple[Candidate, ...]
    auc: Float
    uncertainty: float
    nonzeros: Float
    chosen: int

    @property
    def mean(self) -> Float:
        """Mean AUC ``(l,)`` over the folds."""
        mean: Float = self.auc.mean(axis=1)
        return mean

    @property
    def standard_error(self) -> Float:
        """Standard error ``(l,)`` of the mean."""
        error: Float = self.auc.std(axis=1, ddof=1) / np.sqrt(self.auc.shape[1])
        return error

    @property
    def candidate(self) -> Candidate:
        """The penalty chosen."""
        return self.candidates[self.chosen]

    def as_dict(self) -> dict[str, Any]:
        """The table as JSON takes it."""
        rows = [
            {
                "regParam": c.regParam,
                "elasticNetParam": c.elasticNetParam,
                "auc": float(mean),
                "standardError": float(error),
                "nonzeros": float(nonzeros),
                "folds": by_fold.tolist(),
            }
            for c, mean, error, nonzeros, by_fold in zip(
                self.candidates,
                self.mean,
                self.standard_error,
                self.nonzeros,
                self.auc,
                strict=True,
            )
        ]
        return {"chosen": self.chosen, "uncertainty": self.uncertainty, "candidates": rows}


def default_grid(quadratic: Quadratic, elastic_net_param: float, count: int = 25) -> list[float]:
    """Values of regParam from weak to strong, in the units of the data, evenly by logarithm.

    Without l1 from 1e-7 to 10 times the trace of ``Sigma``, which bounds its eigenvalues; with it
    up to the value from which on no feature is active, and down to 1e-4 of it.
    """
    if elastic_net_param:
        return list(quadratic.lambda1_max / elastic_net_param * np.logspace(-4, 0, count + 1)[:-1])
    return list(float(quadratic.Sigma.diagonal().sum()) * np.logspace(-7, 1, count))
