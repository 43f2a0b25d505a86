"""Candidate models with their held-out AUC, and the choice of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float
from spark_auc.solvers.candidates import Selection

# Confidence level of the intervals.
_LEVEL = 0.95
# Keys of candidates that were measured, in reports.
_MEASURED = ("auc", "lower", "upper", "behind", "standardError", "folds", "regParam")


@dataclass(frozen=True, eq=False)
class MethodResult:
    """A candidate model: its penalties' AUC on the held-out folds, and its cost.

    Parameters
    ----------
    name
        Name of the candidate.
    blocks, loss
        See `spark_auc.training.blocks.Method`.
    dimension
        Number of features.
    selection
        AUC of each penalty on each fold, and the penalty with the best mean; None if the candidate
        was left out.
    seconds
        CPU time in seconds of solving this candidate, and of measuring it where no pass over the
        rows is shared.
    left_out
        Why it was left out; None if it was not.
    """

    name: str
    blocks: tuple[str, ...]
    loss: str
    dimension: int
    selection: Selection | None = None
    seconds: float = 0.0
    left_out: str | None = None

    @property
    def auc(self) -> Float:
        """AUC ``(k,)`` of its best penalty on each fold."""
        assert self.selection is not None, "a candidate that was measured"
        folds: Float = self.selection.auc[self.selection.chosen]
        return folds

    def without(self, reason: str) -> MethodResult:
        """The candidate, left out for a reason."""
        return replace(self, selection=None, left_out=reason)


@dataclass(frozen=True, eq=False)
class MethodComparison:
    """Candidate models that were measured on the same held-out folds.

    The choice is by the one-standard-error rule: of the candidates whose mean AUC is within one
    standard error of the best one's, the first in the order of ``results``. The standard error is
    that of the paired difference, from the differences on the ``k`` folds. Rows that are difficult
    for both candidates do not count, as they would in the standard error of the best mean.

    Parameters
    ----------
    results
        The candidates, from simple to complex.
    folds
        The folds. A candidate whose AUC is measured elsewhere needs the same ones.
    """

    results: tuple[MethodResult, ...]
    folds: Folds

    def with_results(self, results: Sequence[MethodResult]) -> MethodComparison:
        """The comparison with more complex candidates, measured elsewhere on the same folds."""
        return replace(self, results=(*self.results, *results))

    @property
    def chosen(self) -> int:
        """Index of the chosen candidate; at least one was measured."""
        measured = [i for i, result in enumerate(self.results) if result.selection]
        best = measured[int(np.argmax([self.results[i].auc.mean() for i in measured]))]
        for i in measured:
            mean, error = self.behind(i, best)
            if mean <= error:
                return i
        return best

    def behind(self, candidate: int, best: int) -> tuple[float, float]:
        """How far a candidate's mean AUC is below the best one's, and the standard error of it."""
        difference = self.results[best].auc - self.results[candidate].auc
        error = difference.std(ddof=1) / np.sqrt(difference.size)
        return float(difference.mean()), float(error)

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON types; None replaces numbers of candidates that were left out."""
        chosen = self.chosen
        measured = [i for i, result in enumerate(self.results) if result.selection]
        best = max(measured, key=lambda i: self.results[i].auc.mean())
        rows = []
        for i, result in enumerate(self.results):
            row: dict[str, Any] = {
                "name": result.name,
                "blocks": list(result.blocks),
                "loss": result.loss,
                "dimension": result.dimension,
                "seconds": round(result.seconds, 3),
                "leftOut": result.left_out,
                **dict.fromkeys(_MEASURED),
            }
            if result.selection:
                auc = result.auc
                error = auc.std(ddof=1) / np.sqrt(auc.size)
                reach = special.stdtrit(auc.size - 1, (1 + _LEVEL) / 2) * error
                behind, error_of_difference = self.behind(i, best)
                row |= {
                    "auc": float(auc.mean()),
                    "lower": max(0.0, float(auc.mean() - reach)),
                    "upper": min(1.0, float(auc.mean() + reach)),
                    "behind": behind,
                    "standardError": error_of_difference,
                    "folds": auc.tolist(),
                    "regParam": result.selection.candidate.regParam,
                    "uncertainty": result.selection.uncertainty,
                }
            rows.append(row)
        return {"chosen": chosen, "best": best, "level": _LEVEL, "candidates": rows}


def best_mean(results: Sequence[MethodResult]) -> float:
    """The best mean AUC of the candidates that were measured; 0 without any."""
    return max((float(r.auc.mean()) for r in results if r.selection), default=0.0)
