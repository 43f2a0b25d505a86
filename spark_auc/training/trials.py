"""Penalties and candidates that the first folds leave out, so that the others do not train them."""

from __future__ import annotations

from collections.abc import Mapping

from spark_auc.core.types import Float
from spark_auc.solvers.candidates import TIE, Candidate
from spark_auc.training.method_result import MethodResult

TRIED = 2
"""Number of folds of a trial."""
# Degrees of smoothness that remain of more. On ten tables this costs .0001 of AUC on the folds on
# average, and .0011 at most; a single one, .0003 and .0057.
_KEPT = 2
# Rows of the smaller class from which on there are trials: with fewer, two folds tell little.
LEAST = 200


class OutdoneError(Exception):
    """A candidate cannot win, for the reason in the message."""


def raise_if_outdone(auc: Float, rival: MethodResult) -> None:
    """Raise `OutdoneError` for a candidate that is below a simpler one on each fold.

    Parameters
    ----------
    auc : (l, TRIED)
        AUC of each of its penalties on the first folds.
    rival
        The best of the simpler candidates.
    """
    own, other = auc[auc.mean(axis=1).argmax()], rival.auc[:TRIED]
    if (own < other).all():
        raise OutdoneError(
            f"its AUC is {own.mean():.4f} on {TRIED} folds, that of {rival.name} {other.mean():.4f}"
        )


def weaker_curves(candidates: Mapping[int, Candidate], auc: Float) -> dict[int, str]:
    """The numbers of the penalties of all but the best degrees of smoothness, with the reasons.

    Parameters
    ----------
    candidates
        The ``l`` penalties that remain, by their numbers.
    auc : (l, TRIED)
        Their AUCs on the first folds.
    """
    best: dict[float, float] = {}
    for candidate, own in zip(candidates.values(), auc.mean(axis=1), strict=True):
        s = candidate.smoothness or 0.0
        best[s] = max(best.get(s, 0.0), float(own))
    order = sorted(best, key=lambda s: (round(best[s] / TIE), s), reverse=True)
    words = "the best AUC with its smoothness is {:.4f} on {} folds, with others up to {:.4f}"
    return {
        i: words.format(best[s], TRIED, best[order[0]])
        for i, candidate in candidates.items()
        if (s := candidate.smoothness or 0.0) not in order[:_KEPT]
    }
