"""Candidate models with their held-out AUC, and the choice of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from spark_auc.core.evaluation.chosen_auc import LEVEL, ChosenAUC, Redrawn, corrected
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float, Int
from spark_auc.solvers.candidates import Selection, best_of, simplest, standard_error
from spark_auc.training.blocks import LEAVES

# Keys of candidates that were measured, in reports.
_MEASURED = ("auc", "behind", "standardError", "folds", "regParam", "uncertainty")


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
    work
        Its counted work in seconds (`spark_auc.training.costs.CountedWork`); 0 where a budget had
        no room for it.
    left_out
        Why it was left out; None if it was not.
    outdone
        Whether a simpler candidate left it out on the first folds.
    deviations : (g, l)
        For each of the ``k`` folds, what each group of held-out rows adds to the AUCs of the ``l``
        penalties (`spark_auc.core.evaluation.chosen_auc`); or why this is not known.
    features : (d,)
        Numbers of its features in the union of all blocks.
    weights : (d,)
        Their weights with the best penalty, for the training rows of each of the ``k`` folds; none
        of a candidate without a linear model.
    """

    name: str
    blocks: tuple[str, ...]
    loss: str
    dimension: int
    selection: Selection | None = None
    seconds: float = 0.0
    work: float = 0.0
    left_out: str | None = None
    outdone: bool = False
    deviations: Sequence[Float] | str = "it was not measured"
    features: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    weights: Sequence[Float] = ()

    @property
    def auc(self) -> Float:
        """AUC ``(k,)`` of its best penalty on each fold."""
        assert self.selection is not None, "a candidate that was measured"
        folds: Float = self.selection.auc[self.selection.chosen]
        return folds

    def measured(self, selection: Selection, added: Sequence[Float] | str) -> MethodResult:
        """The candidate with the AUCs of its penalties, and `deviations` of those solved."""
        if not isinstance(added, str):
            solved = [i for i, reason in enumerate(selection.left_out) if reason is None]
            full = [np.zeros((groups.shape[0], len(selection.candidates))) for groups in added]
            for whole, groups in zip(full, added, strict=True):
                whole[:, solved] = groups
            added = full
        return replace(self, selection=selection, deviations=added)

    def best(self, auc: Float) -> Int:
        """The penalties ``(b,)`` with the best means of AUCs ``(b, l, k)``."""
        assert self.selection is not None, "a candidate that was measured"
        return best_of(self.selection.candidates, auc)

    def without(self, reason: str) -> MethodResult:
        """The candidate, left out for a reason."""
        return replace(self, selection=None, left_out=reason, weights=())

    def embedded(self, dimension: int) -> Float:
        """The weights ``(d, k)`` of each fold among all ``d`` features of the union."""
        W = np.zeros((dimension, len(self.weights)))
        W[self.features] = np.stack(self.weights, axis=1)
        return W


@dataclass(frozen=True, eq=False)
class MethodComparison:
    """Candidate models that were measured on the same held-out folds.

    Without trees the choice is by the one-standard-error rule: see
    `spark_auc.solvers.candidates.simplest`. The best candidate with trees is chosen unless the best
    of all is better by more than one standard error. The AUC of the chosen candidate is too high by
    the choice; `corrected` is not.

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

    def beside(self, fixed: tuple[str, ...]) -> MethodComparison:
        """The comparison with the blocks that every candidate has in place of the first one."""
        blocks = [(*fixed, *result.blocks[1:]) for result in self.results]
        named = zip(self.results, blocks, strict=True)
        return replace(
            self,
            results=tuple(replace(r, blocks=own, name=" + ".join(own)) for r, own in named),
        )

    def rejected(self) -> list[MethodResult]:
        """The candidates that were not chosen, left out with the AUCs that left them out."""
        chosen, choice = float(self.choice.auc.mean()), self.choice
        return [
            result.without(
                f"its AUC is {result.auc.mean():.4f} on folds without the rows that chose its "
                f"features, that of {choice.name} {chosen:.4f}"
            )
            if result.selection
            else result
            for result in self.results
            if result is not choice
        ]

    @property
    def work(self) -> float:
        """Counted work of all candidates in seconds."""
        return sum(result.work for result in self.results)

    @property
    def measured(self) -> list[int]:
        """Indices of the candidates that were measured; at least one was."""
        return [i for i, result in enumerate(self.results) if result.selection]

    @property
    def chosen(self) -> int:
        """Index of the chosen candidate."""
        auc = np.stack([self.results[i].auc for i in self.measured])
        return self.measured[int(self._rule(auc[None])[0])]

    def _rule(self, auc: Float) -> Int:
        """The choices ``(b,)`` among AUCs ``(b, m, k)`` of those that were measured."""
        chosen, every = simplest(auc), np.arange(len(auc))
        grown = [k for k, i in enumerate(self.measured) if LEAVES in self.results[i].blocks]
        if grown:
            mean = auc.mean(axis=2)
            trees = np.array(grown)[mean[:, grown].argmax(axis=1)]
            behind = auc[every, mean.argmax(axis=1)] - auc[every, trees]
            near = behind.mean(axis=1) <= standard_error(behind)
            chosen = np.where(near, trees, chosen)
        return chosen

    @property
    def choice(self) -> MethodResult:
        """The chosen candidate."""
        return self.results[self.chosen]

    def behind(self, candidate: int, best: int) -> tuple[float, float]:
        """How far a candidate's mean AUC is below the best one's, and the standard error of it."""
        difference = self.results[best].auc - self.results[candidate].auc
        return float(difference.mean()), float(standard_error(difference))

    def corrected(self) -> tuple[ChosenAUC, dict[int, ChosenAUC]] | str:
        """The chosen candidate's AUC, corrected for the choice among candidates and penalties.

        Returns
        -------
        chosen
            The AUC of the chosen candidate.
        each
            The AUC of each candidate, corrected for the choice of its penalty only; or, for both,
            the reason why there is none.
        """
        results = [self.results[i] for i in self.measured]
        added, aucs, own = list[Sequence[Float]](), list[Float](), list[slice]()
        for result in results:
            if isinstance(result.deviations, str):
                return f"{result.name}: {result.deviations}"
            assert result.selection is not None
            start = own[-1].stop if own else 0
            own.append(slice(start, start + result.selection.auc.shape[0]))
            added.append(result.deviations)
            aucs.append(result.selection.auc)
        folds = [np.concatenate(parts, axis=1) for parts in zip(*added, strict=True)]
        drawn, auc = Redrawn.of(folds, self.folds.seed), np.concatenate(aucs)

        def rule(auc: Float) -> Int:
            found = [s.start + r.best(auc[:, s]) for s, r in zip(own, results, strict=True)]
            places, every = np.stack(found, axis=1), np.arange(len(auc))
            chosen: Int = places[every, self._rule(auc[every[:, None], places])]
            return chosen

        each = {
            i: corrected(auc[s], drawn.of_models(s), self.results[i].best)
            for i, s in zip(self.measured, own, strict=True)
        }
        return corrected(auc, drawn, rule), each

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON types; None replaces numbers that there are not."""
        best = max(self.measured, key=lambda i: self.results[i].auc.mean())
        found = self.corrected()
        told: dict[str, Any] = {"corrected": None, "noInterval": found}
        each: dict[int, ChosenAUC] = {}
        if not isinstance(found, str):
            told, each = {"corrected": found[0]._asdict(), "noInterval": None}, found[1]
        rows = []
        for i, result in enumerate(self.results):
            row: dict[str, Any] = {
                "name": result.name,
                "blocks": list(result.blocks),
                "loss": result.loss,
                "dimension": result.dimension,
                "seconds": round(result.seconds, 3),
                "work": round(result.work, 3),
                "leftOut": result.left_out,
                **dict.fromkeys(_MEASURED),
                "lower": each[i].lower if i in each else None,
                "upper": each[i].upper if i in each else None,
            }
            if result.selection:
                behind, error = self.behind(i, best)
                row |= {
                    "auc": float(result.auc.mean()),
                    "behind": behind,
                    "standardError": error,
                    "folds": result.auc.tolist(),
                    "regParam": result.selection.candidate.regParam,
                    "uncertainty": result.selection.uncertainty,
                }
            rows.append(row)
        return {"chosen": self.chosen, "best": best, "level": LEVEL, **told, "candidates": rows}
