"""The choice of the number of knots by the AUC of held-out folds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_auc.solvers.candidates import TIE


@dataclass
class KnotSelection:
    """Numbers of knots in ascending order, and the held-out AUC of the penalty chosen for each.

    A number is chosen over fewer knots only if its AUC is greater by more than rounding and the
    bounds of both AUCs.

    Parameters
    ----------
    candidates
        The numbers so far, as JSON types.
    chosen
        Index of the chosen number; None while no fit succeeded.
    """

    candidates: list[dict[str, Any]] = field(default_factory=list)
    chosen: int | None = None
    _uncertainty: float = 0.0

    def add(self, knots: int, selection: Mapping[str, Any]) -> bool:
        """Add the fit of a number of knots; returns whether it is now the chosen one.

        Parameters
        ----------
        knots
            The number, greater than those before.
        selection
            The penalties of this fit, as `Selection.as_dict` returns them.
        """
        penalty = selection["candidates"][selection["chosen"]]
        kept = {k: penalty[k] for k in ("auc", "standardError", "regParam", "elasticNetParam")}
        kept |= {"folds": penalty["folds"], "leftOut": None}
        self.candidates.append({"numKnots": knots, **kept})
        if self.chosen is not None:
            error = TIE + self._uncertainty + selection["uncertainty"]
            if penalty["auc"] <= self.candidates[self.chosen]["auc"] + error:
                return False
        self.chosen, self._uncertainty = len(self.candidates) - 1, selection["uncertainty"]
        return True

    def leave_out(self, knots: int, reason: str) -> None:
        """Add a number of knots whose fit failed."""
        names = ("auc", "standardError", "regParam", "elasticNetParam", "folds")
        self.candidates.append({"numKnots": knots, **dict.fromkeys(names), "leftOut": reason})

    def sentence(self, number: int) -> str:
        """A number of knots and its AUC, for the log."""
        found = self.candidates[number]
        return (
            f"{found['numKnots']} knots: mean AUC {found['auc']:.4f} on held-out folds, standard "
            f"error {found['standardError']:.4f}, with regParam {found['regParam']:.4g}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The choice for JSON."""
        return {"chosen": self.chosen, "candidates": self.candidates}
