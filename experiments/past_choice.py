"""The one-standard-error rule, with errors of differences of AUCs on the same held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from spark_auc.core.types import Bool, Float


class HeldOut(NamedTuple):
    """Candidates on held-out folds.

    Parameters
    ----------
    auc : (k,)
        Mean AUC of each candidate.
    error : (k,)
        Standard error of its difference from the best candidate's.
    """

    auc: Float
    error: Float

    @property
    def below(self) -> Float:
        """How far each AUC is below the best one ``(k,)``."""
        below: Float = self.auc.max() - self.auc
        return below

    @property
    def simplest(self) -> int:
        """The first candidate within one standard error of the best."""
        return int(np.argmax(self.below <= self.error))


def compared(folds: Sequence[tuple[Sequence[Float], Bool]]) -> HeldOut:
    """AUCs and errors (DeLong et al., 1988) of candidates.

    Parameters
    ----------
    folds
        The scores of the candidates on each fold's held-out rows, and the labels.
    """
    placed = [[placements(scores, y) for scores in each] for each, y in folds]
    aucs = np.mean([[positive.mean() for positive, _ in each] for each in placed], axis=0)
    best = int(np.argmax(aucs))
    variance = np.zeros(aucs.size)
    for each in placed:
        for k, candidate in enumerate(each):
            for own, other in zip(candidate, each[best], strict=True):
                variance[k] += np.var(own - other, ddof=1) / own.size
    return HeldOut(aucs, np.sqrt(variance) / len(placed))


def placements(scores: Float, y: Bool) -> tuple[Float, Float]:
    """Share of opposite rows that each positive and each negative row is ranked right against.

    The mean of either is the AUC; their variances are DeLong's.
    """
    ranks = rankdata(scores)
    n = np.count_nonzero(y), np.count_nonzero(~y)
    positive = (ranks[y] - rankdata(scores[y])) / n[1]
    negative = 1 - (ranks[~y] - rankdata(scores[~y])) / n[0]
    return positive, negative
