"""The penalties to choose from, and how each did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.types import Float


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
        AUC of each penalty on each fold; NaN where it was left out.
    uncertainty
        Half the width of the widest bounds on any of them; 0 where all are exact.
    nonzeros : (l,)
        Mean number of weights that are not 0; NaN where it was left out.
    left_out
        Why each penalty was left out, where it was.
    chosen
        Which penalty was chosen.
    """

    candidates: tuple[Candidate, ...]
    auc: Float
    uncertainty: float
    nonzeros: Float
    left_out: tuple[str | None, ...]
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

    def without(self, reason: str, *, one_standard_error: bool) -> Selection | None:
        """The selection from the penalties but the chosen one; None where there is no other."""
        auc, nonzeros, left_out = self.auc.copy(), self.nonzeros.copy(), list(self.left_out)
        auc[self.chosen], nonzeros[self.chosen], left_out[self.chosen] = np.nan, np.nan, reason
        if None not in left_out:
            return None
        chosen = choice(self.candidates, auc, one_standard_error=one_standard_error)
        return replace(self, auc=auc, nonzeros=nonzeros, left_out=tuple(left_out), chosen=chosen)

    def as_dict(self) -> dict[str, Any]:
        """The table as JSON takes it: None for what a penalty that was left out has not."""

        def number(value: float) -> float | None:
            return None if np.isnan(value) else float(value)

        rows = [
            {
                "regParam": c.regParam,
                "elasticNetParam": c.elasticNetParam,
                "auc": number(mean),
                "standardError": number(error),
                "nonzeros": number(nonzeros),
                "folds": [number(auc) for auc in by_fold],
                "leftOut": reason,
            }
            for c, mean, error, nonzeros, by_fold, reason in zip(
                self.candidates,
                self.mean,
                self.standard_error,
                self.nonzeros,
                self.auc,
                self.left_out,
                strict=True,
            )
        ]
        return {"chosen": self.chosen, "uncertainty": self.uncertainty, "candidates": rows}


def choice(candidates: Sequence[Candidate], auc: Float, *, one_standard_error: bool) -> int:
    """Which penalty to choose by its AUC ``(l, k)`` on folds, NaN for those left out.

    The best by the mean, or the strongest within one standard error of it, of those with the
    best's elasticNetParam. At least one is not left out.
    """
    mean = auc.mean(axis=1)
    best = int(np.nanargmax(mean))
    if not one_standard_error:
        return best
    least = mean[best] - auc[best].std(ddof=1) / np.sqrt(auc.shape[1])
    near = [
        i
        for i, c in enumerate(candidates)
        if mean[i] >= least and c.elasticNetParam == candidates[best].elasticNetParam
    ]
    return max(near, key=lambda i: candidates[i].regParam)


def default_grid(quadratic: Quadratic, elastic_net_param: float, count: int = 25) -> list[float]:
    """Values of regParam from weak to strong, in the units of the data, evenly by logarithm.

    Without l1 from 1e-7 to 10 times the trace of ``Sigma``, which bounds its eigenvalues; with it
    up to the value from which on no feature is active, and down to 1e-4 of it.
    """
    if elastic_net_param:
        return list(quadratic.lambda1_max / elastic_net_param * np.logspace(-4, 0, count + 1)[:-1])
    return list(float(quadratic.Sigma.diagonal().sum()) * np.logspace(-7, 1, count))
