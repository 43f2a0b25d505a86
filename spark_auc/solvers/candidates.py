"""Candidate penalties, and the choice among them by their AUC on held-out folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.types import Float, Int


@dataclass(frozen=True)
class Candidate:
    """A candidate penalty, in Spark ML's Params, and whether its centre is the prior or 0.

    Its smoothness is that of `spark_auc.core.moments.curves.Curves`; None where their roughness has
    no penalty. ``trees`` is the share of trees in a sum of their scores and those of the weights
    (`spark_auc.training.tree_candidates`); None without trees as they grew.
    """

    regParam: float
    elasticNetParam: float
    prior: bool = False
    smoothness: float | None = None
    trees: float | None = None

    def __str__(self) -> str:
        words = f"regParam {self.regParam:.4g}, elasticNetParam {self.elasticNetParam:.4g}"
        if self.smoothness is not None:
            words += f", smoothness {self.smoothness:g}"
        if self.trees is not None:
            words += f", share of trees {self.trees:g}"
        return f"{words}, centred at the prior" if self.prior else words

    @property
    def penalty(self) -> ElasticNet:
        """The penalty with its l1 and l2 factors."""
        return ElasticNet.of(self.regParam, self.elasticNetParam)


@dataclass(frozen=True, eq=False)
class Selection:
    """The held-out AUC of each candidate penalty, and the choice.

    Parameters
    ----------
    candidates
        The ``l`` penalties.
    auc : (l, k)
        AUC of each penalty on each held-out fold; NaN for penalties that were left out.
    uncertainty
        Half the width of the widest bounds on any of these AUCs; 0 if all are exact.
    nonzeros : (l,)
        Mean number of non-zero weights; NaN for penalties that were left out.
    left_out : (l,)
        Reason why each penalty was left out, or None.
    chosen
        Index of the chosen penalty.
    sample
        Number of rows of a sample on which the penalties were compared. Default: all rows.
    """

    candidates: tuple[Candidate, ...]
    auc: Float
    uncertainty: float
    nonzeros: Float
    left_out: tuple[str | None, ...]
    chosen: int
    sample: int | None = None

    @property
    def mean(self) -> Float:
        """Mean AUC ``(l,)`` over the folds."""
        mean: Float = self.auc.mean(axis=1)
        return mean

    @property
    def standard_error(self) -> Float:
        """Standard error ``(l,)`` of the mean; NaN for a single fold."""
        if self.auc.shape[1] < 2:
            return np.full(len(self.candidates), np.nan)
        error: Float = self.auc.std(axis=1, ddof=1) / np.sqrt(self.auc.shape[1])
        return error

    @property
    def candidate(self) -> Candidate:
        """The chosen penalty."""
        return self.candidates[self.chosen]

    def weaker_left_out(self, candidate: Candidate) -> int:
        """Number of penalties weaker than a candidate, if all of them were left out; else 0."""
        weaker = [
            reason
            for c, reason in zip(self.candidates, self.left_out, strict=True)
            if c.regParam < candidate.regParam and c.smoothness == candidate.smoothness
        ]
        return len(weaker) if all(weaker) else 0

    def without(self, reason: str, *, one_standard_error: bool) -> Selection | None:
        """The selection with the chosen penalty left out; None if no other penalty remains.

        Parameters
        ----------
        reason
            Reason why the chosen penalty is left out.
        one_standard_error
            See `choice`.
        """
        auc, nonzeros, left_out = self.auc.copy(), self.nonzeros.copy(), list(self.left_out)
        auc[self.chosen], nonzeros[self.chosen], left_out[self.chosen] = np.nan, np.nan, reason
        if None not in left_out:
            return None
        chosen = choice(self.candidates, auc, one_standard_error=one_standard_error)
        return replace(self, auc=auc, nonzeros=nonzeros, left_out=tuple(left_out), chosen=chosen)

    def as_dict(self) -> dict[str, Any]:
        """The selection for JSON; None replaces values of penalties that were left out.

        Of penalties that were compared on a sample, ``sampleRows`` is its number of rows.
        """

        def number(value: float) -> float | None:
            return None if np.isnan(value) else float(value)

        has_prior = any(c.prior for c in self.candidates)
        is_smooth = any(c.smoothness is not None for c in self.candidates)
        has_trees = any(c.trees is not None for c in self.candidates)
        rows = [
            {
                "regParam": c.regParam,
                "elasticNetParam": c.elasticNetParam,
                "auc": number(mean),
                "standardError": number(error),
                "nonzeros": number(nonzeros),
                "folds": [number(auc) for auc in by_fold],
                "leftOut": reason,
                **({"prior": c.prior} if has_prior else {}),
                **({"smoothness": c.smoothness} if is_smooth else {}),
                **({"trees": c.trees} if has_trees else {}),
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
        sample = {} if self.sample is None else {"sampleRows": self.sample}
        made = {"chosen": self.chosen, "uncertainty": self.uncertainty, "candidates": rows}
        return made | sample


# Differences of AUC that rounding can make, on other processors and engines.
TIE = 1e-9


def choice(candidates: Sequence[Candidate], auc: Float, *, one_standard_error: bool) -> int:
    """Index of the penalty to choose.

    Parameters
    ----------
    candidates
        The ``l`` penalties.
    auc : (l, k)
        AUC of each penalty on each held-out fold; NaN for penalties that were left out, at least
        one of which remains. Of mean AUCs within `TIE`, that of the smoothest and strongest penalty
        is the best.
    one_standard_error
        Whether to choose the strongest penalty whose mean AUC is within one standard error of the
        best, among those with the best one's elasticNetParam, centre and smoothness (Breiman et al.
        1984), instead of the one with the best mean AUC.
    """
    best = int(best_of(candidates, auc))
    if not one_standard_error:
        return best
    mean = auc.mean(axis=1)
    least = mean[best] - auc[best].std(ddof=1) / np.sqrt(auc.shape[1])
    kind = replace(candidates[best], regParam=0.0)
    near = [
        i for i, c in enumerate(candidates) if mean[i] >= least and replace(c, regParam=0.0) == kind
    ]
    return max(near, key=lambda i: candidates[i].regParam)


def best_of(candidates: Sequence[Candidate], auc: Float) -> Int:
    """Indices ``(...)`` of the penalties with the best mean AUCs; see `choice`.

    Parameters
    ----------
    candidates
        The ``l`` penalties.
    auc : (..., l, k)
        AUC of each penalty on each held-out fold, as in `choice`.
    """

    def strength(i: int) -> tuple[bool, float, float, float]:
        found = candidates[i]
        return not found.prior, found.smoothness or 0.0, found.regParam, -(found.trees or 0.0)

    order = np.array(sorted(range(len(candidates)), key=strength, reverse=True))
    mean = auc.mean(axis=-1)[..., order]
    near: Int = order[(mean >= np.nanmax(mean, axis=-1, keepdims=True) - TIE).argmax(axis=-1)]
    return near


def simplest(auc: Float) -> Int:
    """Indices ``(...)`` of the simplest of models from simple to complex that is near the best one.

    It is the first whose mean AUC is within one standard error of the best mean. The standard error
    is that of the paired difference, `standard_error`: rows that are difficult for both models do
    not count.

    Parameters
    ----------
    auc : (..., m, k)
        AUC of each model on each of the same ``k`` held-out folds.
    """
    best = auc.mean(axis=-1).argmax(axis=-1)[..., None, None]
    behind = np.take_along_axis(auc, best, axis=-2) - auc
    near: Int = (behind.mean(axis=-1) <= standard_error(behind)).argmax(axis=-1)
    return near


def standard_error(difference: Float) -> Float:
    """Standard error of mean differences ``(..., k)`` of the AUCs on ``k`` folds.

    Models of different folds share their training rows. The variance on the folds is therefore
    divided by ``k``, and added times the ratio of held-out to training rows, 1 / (k - 1)
    (Nadeau & Bengio 2003, Inference for the Generalization Error).
    """
    k = difference.shape[-1]
    error: Float = difference.std(axis=-1, ddof=1) * np.sqrt(1 / k + 1 / (k - 1))
    return error


def default_grid(quadratic: Quadratic, elastic_net_param: float, count: int = 25) -> list[float]:
    """Values of regParam in ascending order, evenly spaced by logarithm.

    Without l1 they reach from 1e-7 to 10 times the trace of ``Sigma``, which bounds its
    eigenvalues. With l1 they reach from 1e-4 times the least value for which no feature is active,
    up to below this value.

    Parameters
    ----------
    quadratic
        The loss.
    elastic_net_param
        Share of l1 in the penalty, in [0, 1].
    count
        Number of values.
    """
    if elastic_net_param:
        return list(quadratic.lambda1_max / elastic_net_param * np.logspace(-4, 0, count + 1)[:-1])
    return ridge_grid(float(quadratic.Sigma.diagonal().sum()), count)


def ridge_grid(trace: float, count: int = 25) -> list[float]:
    """The values of `default_grid` without l1, from the trace of ``Sigma``."""
    return list(trace * np.logspace(-7, 1, count))
